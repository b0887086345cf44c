"""Nodes of a ZooKeeper, read and never written, over kazoo."""

"""Ledgers of a living cluster: listed in ZooKeeper, read from bookies while they are there, and from their bucket otherwise."""

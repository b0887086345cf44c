"""Ledgers of a live cluster: listed in ZooKeeper, read from bookies while they have them, otherwise from the bucket."""

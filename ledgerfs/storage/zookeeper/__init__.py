"""A living cluster in place of a bucket: its metadata store, ZooKeeper, which is only ever read."""

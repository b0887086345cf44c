"""Lists and subscriptions in the new ZooKeeper: a commit a topic."""

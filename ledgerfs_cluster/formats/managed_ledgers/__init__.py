"""What Pulsar keeps in ZooKeeper of a topic: its ledgers and its cursors (``docs/formats/managed-ledgers.md``)."""

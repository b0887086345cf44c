"""Formats of Pulsar's managed ledgers in ZooKeeper: their ledger lists and cursors (``docs/formats/managed-ledgers.md``)."""

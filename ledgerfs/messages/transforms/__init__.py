"""Changes of entries on their way into a ledger: batches split."""

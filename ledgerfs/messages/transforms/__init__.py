"""Changes of entries on their way into a ledger: payloads compressed again, batches split."""

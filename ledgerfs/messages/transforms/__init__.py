"""What may become of entries on their way into a ledger: payloads compressed anew, batches taken apart."""

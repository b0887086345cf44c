"""Transforms of entries on their way into a ledger: split batches."""

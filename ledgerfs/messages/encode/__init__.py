"""Rows to entries: batches as Pulsar's Java client makes them."""

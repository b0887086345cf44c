"""Rows to entries: batches as in Pulsar's Java client."""

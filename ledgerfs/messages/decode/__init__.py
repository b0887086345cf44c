"""Entries to the message table: metadata, payloads, batches, chunks, columns."""

"""Rows whose values are in separate columns, as payloads of a schema: the inverse of `ledgerfs.messages.values`."""

"""Rows whose values have columns of their own, as payloads of a schema: the other direction of `ledgerfs.messages.values`."""

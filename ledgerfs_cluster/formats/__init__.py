"""Stored formats of BookKeeper, managed ledgers and schemas: bytes to values and back; no I/O."""

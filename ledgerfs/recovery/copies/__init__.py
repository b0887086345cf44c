"""Copies of ledgers in their bucket: settled ones, and those under other ids."""

"""Ledgers that a recovery writes into the bucket: copies under other ids, and ends of open transactions."""

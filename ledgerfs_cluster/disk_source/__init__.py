"""Ledgers on disks of bookies, read without BookKeeper."""

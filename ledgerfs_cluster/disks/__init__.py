"""The disks of bookies: which logs and journals lie there, where each ledger's entries are in them, and what would free their space."""

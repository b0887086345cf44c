"""``ledgerfs bookie``: commands for the disks of bookies."""

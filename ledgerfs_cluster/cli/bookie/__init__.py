"""``ledgerfs bookie``: the commands about disks of bookies."""

"""The disks of bookies: their logs and journals, the positions of each ledger's entries, and the space that could be freed."""

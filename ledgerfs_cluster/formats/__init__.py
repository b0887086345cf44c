"""TODO ledgerfs_cluster/formats."""

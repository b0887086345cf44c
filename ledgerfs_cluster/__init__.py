"""TODO ledgerfs_cluster."""

"""TODO ledgerfs_cluster/snapshot."""

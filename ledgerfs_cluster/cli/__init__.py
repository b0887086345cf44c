"""TODO ledgerfs_cluster/cli."""

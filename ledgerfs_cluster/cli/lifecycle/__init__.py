"""``ledgerfs lifecycle …``: offload and trim all topics of a cluster by policy."""

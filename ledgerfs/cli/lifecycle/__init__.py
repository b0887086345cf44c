"""``ledgerfs lifecycle …``: offloading and deleting by policy, of all topics of a cluster."""

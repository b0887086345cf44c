"""``ledgerfs lifecycle …``: offloading and trimming by policy all topics of a cluster."""

"""``ledgerfs cluster …``: the contents of a live cluster, and what its brokers would offload and trim."""

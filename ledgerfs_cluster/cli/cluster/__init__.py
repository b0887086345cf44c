"""``ledgerfs cluster …``: what lies in a living cluster, and what its brokers would do with it."""

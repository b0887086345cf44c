"""``ledgerfs schemas …``: the schemas of topics, saved beside their bucket."""

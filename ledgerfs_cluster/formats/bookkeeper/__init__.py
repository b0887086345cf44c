"""BookKeeper's own formats: what is known of a ledger, entries as bookies store them, requests to a bookie and its replies."""

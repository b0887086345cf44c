"""BookKeeper's own formats: the metadata of a ledger."""

"""BookKeeper's formats: metadata of ledgers, stored entries, requests to a bookie and its replies."""

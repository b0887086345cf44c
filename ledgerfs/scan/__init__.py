"""Entries as rows: scans of topics, what a range of time needs, outcomes of transactions, one message by its id."""

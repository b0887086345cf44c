"""Entries as rows: scans of topics, pruning by time, outcomes of transactions, one message by its id."""

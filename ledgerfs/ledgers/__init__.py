"""The seam between dialects and everything that reads: the catalog, a ledger's reader, findings, times. Knows no dialect."""

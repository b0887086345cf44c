"""The seam between layouts and everything that reads: the catalog, a ledger's reader, findings, times. Knows no layout."""

"""Layout-independent interfaces: the catalog, readers of ledgers, findings, times."""

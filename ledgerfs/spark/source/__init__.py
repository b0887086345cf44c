"""The data source ``ledgerfs``: planning, reading and writing."""

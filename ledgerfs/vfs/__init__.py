"""The bucket: object store, catalog, ledger reader, the tree and its views. Knows neither fsspec's user API nor FUSE nor Spark."""

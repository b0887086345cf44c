"""The user's view of a bucket: open it, its topics and ledgers, cached catalogs, and partitions."""

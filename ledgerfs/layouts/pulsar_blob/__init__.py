"""Buckets of Pulsar's blob offloader (S3, Google Cloud Storage, Azure, …): a data object and an index object per ledger."""

"""Check a live cluster: two snapshots of its metadata and its buckets, and the findings that both confirm."""

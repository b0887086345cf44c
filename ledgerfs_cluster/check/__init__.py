"""The doctor of a living cluster: two looks at its metadata and its buckets, and what both of them show."""

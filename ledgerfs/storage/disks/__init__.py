"""Disks of bookies where a bucket is expected: their name in fsspec, and where the metadata of their ledgers is."""

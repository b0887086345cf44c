"""Layouts of buckets: a folder each, which has all that is theirs: layout, reading, writing, checks and repairs."""

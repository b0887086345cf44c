"""Layouts of buckets: one package per layout, with its reading, writing, checks and repairs."""

"""Pipelines over whole buckets: export, verify, catalog, stats."""

"""A lost cluster's topics in a new one: from their ledgers in a bucket, and from what was saved beside it."""

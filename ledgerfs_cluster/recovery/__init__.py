"""Restore a lost cluster's topics in a new one, from their ledgers in a bucket and the dumps and schemas saved beside it."""

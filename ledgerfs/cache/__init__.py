"""Bytes and offsets that reads keep for later reads. Knows nothing of what the bytes mean."""

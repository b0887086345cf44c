"""Compression of payloads, both ways, from Python and inside kernels."""

"""Bytes that are handed on. Apart from array types, since commands show their help without numpy."""

Buffer = bytes | memoryview
"""Bytes that do not change."""

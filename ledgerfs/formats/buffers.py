"""Buffers of bytes. Not in the array types, since commands show their help without importing numpy."""

Buffer = bytes | memoryview
"""Bytes that their readers do not change."""

"""Bytes that are handed on, by the name that all rooms give them: apart from arrays, since commands show their help without numpy."""

Buffer = bytes | memoryview
"""Bytes that nobody changes."""

"""Caches of object bytes, in memory and on disk, independent of the bytes' format."""

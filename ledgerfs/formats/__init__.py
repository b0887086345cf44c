"""Bytes to values and back: the formats of Pulsar's offloaded objects. No I/O, no threads, no fsspec."""

"""Limits of messages that signatures and commands tell: here, where no codec is imported, since they are read before any message is."""

DEFAULT_MAX_MESSAGE_BYTES = 1 << 30
"""The ceiling: half of what a column of Arrow can hold. 5 MiB of ZSTD may become 160 GiB, and no process is to end by one message; the
largest one takes up to three times its size for a moment."""

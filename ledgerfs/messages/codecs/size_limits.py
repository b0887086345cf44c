"""Limits of messages that signatures and commands show: in a module of their own, since commands must not import codecs for them."""

DEFAULT_MAX_MESSAGE_BYTES = 1 << 30
"""The default limit: half of what a column of Arrow can hold. 5 MiB of ZSTD may become 160 GiB, and one message must not end the process;
the the largest one takes up to three times its size for a moment."""

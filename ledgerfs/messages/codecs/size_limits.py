"""Limits of messages that signatures and commands show: in a module of their own, since commands must not import codecs for them."""

MOST_SENT_BYTES = 5 << 20
"""Of an entry that every broker sends and every client takes: ``maxMessageSize``, unless both are configured otherwise. A client's decoder
of frames takes that and 10 KiB (``Commands.MESSAGE_SIZE_FRAME_PADDING``), and closes the connection at more: no subscription passes such
an entry. Payloads count as they are stored, however large they are plain."""
DEFAULT_MAX_MESSAGE_BYTES = 1 << 30
"""The default limit: half of what a column of Arrow can hold. 5 MiB of ZSTD may become 160 GiB, and one message must not end the process;
the the largest one takes up to three times its size for a moment."""

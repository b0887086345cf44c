"""Limits of messages in signatures and commands: a separate module, since commands must not import codecs for them."""

MOST_SENT_BYTES = 5 << 20
"""Largest entry that every broker sends and every client accepts: ``maxMessageSize``, unless both are configured otherwise. The frame
decoder of a client accepts 10 KiB more (``Commands.MESSAGE_SIZE_FRAME_PADDING``), and closes the connection above: no subscription passes
such an entry. The stored size of a payload counts, not its uncompressed size."""
DEFAULT_MAX_MESSAGE_BYTES = 1 << 30
"""The default limit: half of what an Arrow column can hold. 5 MiB of ZSTD may become 160 GiB, and one message must not crash the process;
the largest one takes up to three times its size for a moment."""

"""Streams of zlib, inflated to no more bytes than expected."""

import zlib

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.mapfile.header import Codec

MOST_OF_A_BYTE = 1032
"""Most bytes that one byte of deflate can expand to."""


def inflate(stream: Buffer, codec: Codec, least: int, most: int) -> bytes:
    """Return the ``least`` to ``most`` bytes that one whole stream holds.

    Raises `DecompressionError` for broken streams and all other sizes. Takes little more memory than ``most`` bytes, or than a stream of
    this length can hold if that is less.
    """
    if least > MOST_OF_A_BYTE * len(stream):
        raise DecompressionError(f"{len(stream)} compressed bytes cannot contain {least} bytes")
    inflater = zlib.decompressobj(codec.window_bits)
    try:
        plain = inflater.decompress(stream, most + 1)
    except zlib.error as error:
        raise DecompressionError(f"broken zlib data: {error}") from error
    if not least <= len(plain) <= most or not inflater.eof:
        expected = str(most) if least == most else f"{least} to {most}"
        raise DecompressionError(f"the zlib stream has {len(plain)} bytes or more, expected {expected}")
    if inflater.unused_data:
        raise DecompressionError(f"{len(inflater.unused_data)} bytes follow after the end of the zlib stream")
    return plain


def inflate_start(stream: Buffer, codec: Codec, size: int) -> bytes:
    """Return the first ``size`` bytes that a stream, which may be cut, holds; fewer if it ends before.

    Raises `DecompressionError` for streams that are broken in the part that is read.
    """
    try:
        return zlib.decompressobj(codec.window_bits).decompress(stream, size)
    except zlib.error as error:
        raise DecompressionError(f"broken zlib data: {error}") from error

"""Streams of zlib, inflated to no more than they are expected to hold."""

import zlib

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.mapfile.header import Codec

MOST_OF_A_BYTE = 1032
"""How many bytes deflate can make of one at most."""


def inflate(stream: Buffer, codec: Codec, least: int, most: int) -> bytes:
    """Return what ``stream``, which has to be one whole stream, holds: ``least`` to ``most`` bytes.

    Raises `DecompressionError` for broken streams and all other sizes; never takes much more memory than ``most``, or than such a stream
    could hold.
    """
    if least > MOST_OF_A_BYTE * len(stream):
        raise DecompressionError(f"{len(stream)} compressed bytes, which cannot hold {least}")
    inflater = zlib.decompressobj(codec.window_bits)
    try:
        plain = inflater.decompress(stream, most + 1)
    except zlib.error as error:
        raise DecompressionError(f"broken zlib data: {error}") from error
    if not least <= len(plain) <= most or not inflater.eof:
        expected = str(most) if least == most else f"{least} to {most}"
        raise DecompressionError(f"a zlib stream of {len(plain)} bytes or more where {expected} should be")
    if inflater.unused_data:
        raise DecompressionError(f"{len(inflater.unused_data)} bytes after the end of the zlib stream")
    return plain


def inflate_start(stream: Buffer, codec: Codec, size: int) -> bytes:
    """Return the first ``size`` bytes of what ``stream``, of which there may be a part only, holds, or as many as it tells.

    Raises `DecompressionError` for broken streams; what is not looked at may be broken all the same.
    """
    try:
        return zlib.decompressobj(codec.window_bits).decompress(stream, size)
    except zlib.error as error:
        raise DecompressionError(f"broken zlib data: {error}") from error

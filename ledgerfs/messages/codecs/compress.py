"""Compression of payloads as Pulsar's Java client does it: the other way of `decompression`."""

import zlib

import cramjam
import lz4.block
import zstandard

from ledgerfs.errors import InvalidOptionError
from ledgerfs.messages.codecs.decompression import Compression

ZSTD_LEVEL = 3
"""Of Java's client; the library's default too, but that is for it to change."""


def compress(codec: Compression, plain: bytes | memoryview) -> bytes:
    """Return the payload that a message of this codec has; `decompress` needs the size of ``plain`` to read it.

    A ZLIB stream is finished, as C++ clients do, and not only flushed as Java's: both are read everywhere, and this one is checked by its
    reader.
    """
    match codec:
        case Compression.LZ4:
            return bytes(lz4.block.compress(plain, store_size=False))
        case Compression.ZLIB:
            return zlib.compress(plain)
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(plain)
        case Compression.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))
        case Compression.NONE:
            return bytes(plain)


def codec_named(name: str) -> Compression:
    """Return the codec of this name, in small letters or not; `InvalidOptionError` tells the names that there are."""
    try:
        return Compression[name.upper()]
    except KeyError:
        accepted = ", ".join(codec.name.lower() for codec in Compression)
        raise InvalidOptionError(f"no compression is called {name!r}; these are: {accepted}") from None

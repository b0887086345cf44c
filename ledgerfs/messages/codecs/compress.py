"""Compression of payloads as Pulsar's Java client does it: the inverse of `decompression`."""

import zlib

import cramjam
import lz4.block
import zstandard

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.decompression import Compression

ZSTD_LEVEL = 3
"""Level of Java's client. It is the library's default too, which may change."""


def compress(codec: Compression, plain: bytes | memoryview) -> bytes:
    """Return the compressed payload; `decompress` needs the size of ``plain`` to read it.

    A ZLIB stream is finished, as C++ clients do it, not only flushed, as Java's does: all clients read both, and only a finished one has a
    checksum.
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
    """Return the codec of this name, in any case; raises `InvalidOptionError` with the known names."""
    try:
        return Compression[name.upper()]
    except KeyError:
        accepted = ", ".join(codec.name.lower() for codec in Compression)
        raise InvalidOptionError(f"no compression is called {name!r}; these are: {accepted}") from None

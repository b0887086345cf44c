"""Compression of payloads as in Pulsar's Java client: the inverse of `decompression`."""

import zlib
from collections.abc import Callable
from itertools import pairwise

import cramjam
import lz4.block
import numpy as np
import zstandard

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.decompression import Compression

ZSTD_LEVEL = 3
"""Level of Java's client. It is the library's default too, which may change."""


def compressor_of(codec: Compression) -> Callable[[bytes | memoryview], bytes]:
    """Return a function that compresses payloads, for one thread; `decompress` needs their plain size to read them.

    A ZLIB stream is finished, as C++ clients do, not only flushed, as Java's does: all clients read both, and only a finished one has a
    checksum.
    """
    match codec:
        case Compression.LZ4:
            return lambda plain: bytes(lz4.block.compress(plain, store_size=False))
        case Compression.ZLIB:
            return zlib.compress
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
        case Compression.SNAPPY:
            return lambda plain: bytes(cramjam.snappy.compress_raw(plain))
        case Compression.NONE:
            return bytes


def compress(codec: Compression, plain: bytes | memoryview) -> bytes:
    """Return the compressed payload (see `compressor_of`)."""
    return compressor_of(codec)(plain)


def stored_payloads(
    codec: Compression, plain: Bytes, plain_at: Int64, limit: int, codecs: Int64
) -> tuple[Bytes, Int64]:
    """Compress the payloads in ``plain``, which the offsets ``plain_at`` separate; return the compressed bytes, and their offsets.

    A payload that would grow to more than ``limit`` bytes stays plain: it has no bytes in the result, and 0 in ``codecs``.
    """
    compressed, view = compressor_of(codec), plain.data
    made: list[bytes] = []
    for i, (start, stop) in enumerate(pairwise(plain_at.tolist())):
        payload = compressed(view[start:stop])
        if len(payload) > max(stop - start, limit):
            codecs[i], payload = Compression.NONE, b""
        made.append(payload)
    stored_at = np.zeros(plain_at.size, np.int64)
    np.cumsum([len(payload) for payload in made], out=stored_at[1:])
    return np.frombuffer(b"".join(made), np.uint8), stored_at


def codec_named(name: str) -> Compression:
    """Return the codec of this name, in any case; raises `InvalidOptionError` with the known names."""
    try:
        return Compression[name.upper()]
    except KeyError:
        accepted = ", ".join(codec.name.lower() for codec in Compression)
        raise InvalidOptionError(f"unknown compression {name!r}; expected one of {accepted}") from None

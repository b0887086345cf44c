"""Decompression of payloads (Pulsar's ``CompressionCodec``), by the codecs' own libraries.

A payload claims its uncompressed size, and has to decompress to exactly that. Nothing larger than the limit is allocated.
`ledgerfs.messages.codecs.claimed_sizes` checks large claims.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.block
import zstandard

from ledgerfs.errors import DecompressionError

MAX_STORED_BYTES = 5 << 20
"""Pulsar's default of ``maxMessageSize``: bytes of the largest payload that a broker stores, compressed or not."""

LARGEST = 2**31 - 1
"""Bytes of the largest payload that every codec accepts and an Arrow column can hold."""


class Compression(IntEnum):
    """Codec of a payload, as its metadata names it."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


MOST_OF_A_BYTE: dict[int, int] = {
    Compression.LZ4: 255,
    Compression.ZLIB: 1032,
    Compression.ZSTD: 1 << 15,
    Compression.SNAPPY: 22,
}
"""Most bytes that each stored byte can expand to. (ZSTD's shortest block is 4 bytes long, and makes 128 KiB at most.)"""


def decompress(codec: int, payload: memoryview, size: int, limit: int) -> bytes:
    """Return the ``size`` bytes that ``payload`` decompresses to.

    Raises `DecompressionError` for an unknown codec, a size that is missing (negative) or above ``limit`` bytes, and broken data.
    """
    if size < 0:
        raise DecompressionError("the compressed payload has no uncompressed size")
    if size > min(limit, LARGEST):
        raise DecompressionError(f"its uncompressed size is {size} bytes, more than the limit of {limit}")
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise DecompressionError(f"unknown compression {codec}")
    try:
        plain = decoder(payload, size)
    except (lz4.block.LZ4BlockError, zlib.error, zstandard.ZstdError, cramjam.DecompressionError) as error:
        raise DecompressionError(f"broken {Compression(codec).name} data: {error}") from error
    if len(plain) != size:
        raise DecompressionError(f"decompresses to {len(plain)} bytes, expected {size}")
    return plain


def _lz4(payload: memoryview, size: int) -> bytes:
    plain: bytes = lz4.block.decompress(payload, uncompressed_size=size)
    return plain


def _zlib(payload: memoryview, size: int) -> bytes:
    """Inflate a stream, which Java's client does not finish; one byte more than claimed is accepted, to notice a false claim."""
    return zlib.decompressobj().decompress(payload, size + 1)


def _zstd(payload: memoryview, size: int) -> bytes:
    if not payload:
        return b""  # as in the C function that Pulsar's clients and our kernels call
    # The library allocates what the frame claims, without regard to the limit.
    if zstandard.frame_content_size(payload) not in {-1, size}:
        raise DecompressionError(f"the ZSTD frame has {zstandard.frame_content_size(payload)} bytes, expected {size}")
    # The C function also fails for data after the frame.
    return zstandard.ZstdDecompressor().decompress(payload, max_output_size=max(size, 1), allow_extra_data=False)


def _snappy(payload: memoryview, size: int) -> bytes:
    # A raw stream begins with its own length. The library allocates that, and aborts the process if it cannot.
    claimed = cramjam.snappy.decompress_raw_len(payload)
    if claimed != size:
        raise DecompressionError(f"the SNAPPY stream has {claimed} bytes, expected {size}")
    return bytes(cramjam.snappy.decompress_raw(payload))


_DECODERS: dict[int, Callable[[memoryview, int], bytes]] = {
    Compression.LZ4: _lz4,
    Compression.ZLIB: _zlib,
    Compression.ZSTD: _zstd,
    Compression.SNAPPY: _snappy,
}

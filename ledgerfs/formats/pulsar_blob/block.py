"""Blocks of a V1 data object: the 128-byte header and the padding at a block's end (``docs/formats/pulsar-blob.md``)."""

import struct
from dataclasses import dataclass

import numpy as np

from ledgerfs.errors import CorruptLedgerError, UnsupportedFormatError

BLOCK_HEADER_BYTES = 128
MIN_HEADER_BYTES = 28
"""The bytes of a block header that have fields; the rest is zero."""

_MAGIC = 0xFBDBABCB
_STREAMING_MAGIC = 0x26A66D32
_HEADER = struct.Struct(">Iqqq")
_PADDING = b"\xfe\xdc\xde\xad"
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """The header of a block.

    Attributes
    ----------
    header_length
        Bytes of the header itself (128 in every object known).
    block_length
        Bytes of the block, header and padding included.
    first_entry
        Id of the first entry in the block.

    """

    header_length: int
    block_length: int
    first_entry: int


def parse_block_header(data: bytes | memoryview, *, key: str | None = None, offset: int = 0) -> BlockHeader:
    """Parse the header at the start of ``data``, which is at byte ``offset`` of object ``key``.

    Raises `CorruptLedgerError` for short data, another magic or impossible lengths, and `UnsupportedFormatError` for the magic of PIP-76
    streaming blocks.
    """
    if len(data) < MIN_HEADER_BYTES:
        raise CorruptLedgerError(
            f"block header is truncated: {len(data)} of {MIN_HEADER_BYTES} bytes", key=key, offset=offset
        )
    magic, header_length, block_length, first_entry = _HEADER.unpack_from(data)
    if magic == _STREAMING_MAGIC:
        raise UnsupportedFormatError(
            "this is a PIP-76 streaming block (V2), which ledgerfs does not read", key=key, offset=offset
        )
    if magic != _MAGIC:
        raise CorruptLedgerError(f"wrong block magic {magic:#010x}, expected {_MAGIC:#010x}", key=key, offset=offset)
    if header_length < MIN_HEADER_BYTES or block_length < header_length or first_entry < 0:
        raise CorruptLedgerError(
            f"impossible block header: header length {header_length}, block length {block_length}, first entry {first_entry}",
            key=key,
            offset=offset,
        )
    return BlockHeader(header_length, block_length, first_entry)


def build_block_header(header: BlockHeader) -> bytes:
    """Serialise a header; the rest of ``header_length`` bytes is zero."""
    fields = _HEADER.pack(_MAGIC, header.header_length, header.block_length, header.first_entry)
    return fields.ljust(header.header_length, b"\0")


def build_padding(length: int) -> bytes:
    """Return ``length`` bytes of padding, whose pattern starts again in each block."""
    return (_PADDING * (length // 4 + 1))[:length]


def trailing_padding(tail: bytes | memoryview) -> int:
    """Return the length of the longest run of padding at the end of ``tail``, which ends where a block ends.

    It is an upper bound of the block's padding, not the padding itself: entries may end in the pattern too.
    """
    data = np.frombuffer(tail, np.uint8)
    phase = _PADDING.find(data[-1].tobytes()) if data.size else -1
    if phase < 0:
        return 0
    reversed_pattern = np.resize([_PADDING[(phase - i) % 4] for i in range(4)], _PIECE).astype(np.uint8)
    matching = 0
    while matching < data.size:
        piece = data[max(0, data.size - matching - _PIECE) : data.size - matching][::-1]
        differs = piece != reversed_pattern[: piece.size]
        if differs.any():
            matching += int(differs.argmax())
            break
        matching += piece.size
    # The run has to begin with the pattern's first byte. Its last byte, FE DC DE AD [phase], gives its length modulo 4.
    return max(0, matching - (matching - phase - 1) % 4)


def first_wrong_padding(data: bytes | memoryview) -> int | None:
    """Return the index of the first byte that is not padding, or None when all of ``data`` is; padding begins where ``data`` does."""
    actual = np.frombuffer(data, np.uint8)
    differs = actual != np.resize(np.frombuffer(_PADDING, np.uint8), actual.size)
    return int(differs.argmax()) if differs.any() else None

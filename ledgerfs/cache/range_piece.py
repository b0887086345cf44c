"""One range of an object as a file with checksums, by which damage and a wrong name are noticed.

It begins with the head: the object, the start of the range, its size, a checksum of each block, and a checksum of all of this. The range
follows. So a part of a large range is read and verified without the rest. A file that was torn by a crash, truncated, renamed or moved to
another object, or in which a bit flipped, does not match its head.
"""

import os
import re
import zlib
from struct import Struct
from typing import NamedTuple

BLOCK = 64 << 10
"""Bytes that are verified together."""

MAX_PIECE_BYTES = 1 << 30
"""Less than one system call can read."""

_FIELDS = Struct("<8s32sQQ")  # magic, digest of the object's identity, start, size
_CHECKSUM = Struct("<I")  # CRC32 of the fields and of the blocks' checksums
_MAGIC = b"LEDGPC\x00\x01"
_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-([1-9][0-9]{0,18})\Z")


class Piece(NamedTuple):
    """A range of an object in a file of its own."""

    start: int
    end: int

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.start}-{self.end}"


def piece_named(name: str) -> Piece | None:
    """Return the piece of a file's name, or None if it is not the name of a piece."""
    found = _NAME.match(name)
    if found is None:
        return None
    piece = Piece(int(found[1]), int(found[2]))
    return piece if piece.start < piece.end else None


def write_piece(descriptor: int, digest: bytes, start: int, data: memoryview) -> None:
    """Write ``data``, which begins at ``start`` of the object, to an empty file; raises `OSError`."""
    fields = _FIELDS.pack(_MAGIC, digest, start, len(data)) + _checksums(data)
    for rest in (memoryview(fields + _CHECKSUM.pack(zlib.crc32(fields))), data):
        while rest:
            rest = rest[os.write(descriptor, rest) :]  # noqa: PLW2901


def read_piece(descriptor: int, digest: bytes, piece: Piece, start: int, end: int) -> bytes | None:
    """Return bytes ``start`` to ``end`` of the object, which are in the piece; None if the file is damaged.

    Raises `OSError`.
    """
    size = piece.end - piece.start
    data_at = _head_bytes(size)
    if not _is_ours(os.fstat(descriptor), data_at + size):
        return None
    expected = _read_checksums(descriptor, digest, piece)
    if expected is None:
        return None
    first, last = (start - piece.start) // BLOCK, _blocks(end - piece.start)
    blocks_at, blocks_end = first * BLOCK, min(last * BLOCK, size)
    data = os.pread(descriptor, blocks_end - blocks_at, data_at + blocks_at)
    if _checksums(memoryview(data)) != expected[first * _CHECKSUM.size : last * _CHECKSUM.size]:
        return None
    begin = start - piece.start - blocks_at
    return data[begin : begin + end - start]


def _read_checksums(descriptor: int, digest: bytes, piece: Piece) -> bytes | None:
    """Return the checksums of the blocks; None unless the head is intact and that of this piece."""
    size = piece.end - piece.start
    head = os.pread(descriptor, _head_bytes(size), 0)
    sealed = head[: -_CHECKSUM.size]
    if not sealed.startswith(_FIELDS.pack(_MAGIC, digest, piece.start, size)):
        return None
    return sealed[_FIELDS.size :] if head.endswith(_CHECKSUM.pack(zlib.crc32(sealed))) else None


def _is_ours(found: os.stat_result, size: int) -> bool:
    """Whether a file is our own, regular, and of this size."""
    return found.st_uid == os.geteuid() and found.st_size == size


def _checksums(data: memoryview) -> bytes:
    return b"".join(_CHECKSUM.pack(zlib.crc32(data[at : at + BLOCK])) for at in range(0, len(data), BLOCK))


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _head_bytes(size: int) -> int:
    return _FIELDS.size + _blocks(size) * _CHECKSUM.size + _CHECKSUM.size

"""Hadoop's checksums of a file, in ``.<name>.crc`` beside it where it was written to a local file system.

``crc`` 00, ``int32`` bytes of a chunk, then the CRC32 of each chunk of the file, the last of which may be shorter; all big-endian.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import CorruptObjectError

MAGIC = b"crc\0"
_HEADER = struct.Struct(">4si")
_CHECKSUM_BYTES = 4
MAX_CHUNK_BYTES = 64 << 20
"""Larger than any real setting; Hadoop's default is 512."""


@dataclass(frozen=True, slots=True)
class ChunkChecksums:
    """The parsed file.

    Attributes
    ----------
    chunk_bytes
        Bytes of a chunk.
    expected
        The CRC32 of each chunk, shape (chunks,).

    """

    chunk_bytes: int
    expected: npt.NDArray[np.uint32]

    def wrong_chunks(self, data: memoryview, first: int) -> list[int]:
        """Return which chunks of ``data``, which begins with the chunk ``first``, have another checksum; the last one may be shorter."""
        size, crc32 = self.chunk_bytes, zlib.crc32
        found = np.array([crc32(data[at : at + size]) for at in range(0, len(data), size)], np.uint32)
        wrong: list[int] = (np.flatnonzero(found != self.expected[first : first + found.size]) + first).tolist()
        return wrong


def checksum_key(key: str) -> str:
    """Return the key of the checksums of a file."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def size_of_checksums(file_size: int, chunk_bytes: int) -> int:
    """Return how many bytes the checksums of a file take."""
    return _HEADER.size + -(-file_size // chunk_bytes) * _CHECKSUM_BYTES


def parse_chunk_checksums(data: bytes, *, file_size: int, key: str | None = None) -> ChunkChecksums:
    """Parse the checksums of a file of ``file_size`` bytes; raises `CorruptObjectError` for another format, or those of another file."""
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise CorruptObjectError(
            "not a file of Hadoop's checksums: it does not begin with 'crc' and a zero byte", key=key, offset=0
        )
    _, chunk_bytes = _HEADER.unpack_from(data)
    if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
        raise CorruptObjectError(f"impossible size of chunks: {chunk_bytes} bytes", key=key, offset=len(MAGIC))
    wanted = size_of_checksums(file_size, chunk_bytes)
    if len(data) != wanted:
        reason = f"the checksum file has {len(data)} bytes, expected {wanted} for a file of {file_size} bytes"
        raise CorruptObjectError(reason, key=key)
    return ChunkChecksums(chunk_bytes, np.frombuffer(data, ">u4", offset=_HEADER.size).astype(np.uint32))

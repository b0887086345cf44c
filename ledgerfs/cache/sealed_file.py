"""Files whose damage is noticed: the content, and after it a seal with its size and checksum.

A file that was torn by a crash or truncated, or in which a bit flipped, does not match its seal.
"""

import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

STATE_BYTES = 32
"""Bytes of a state: a digest of everything else that the content depends on."""

ALWAYS = bytes(STATE_BYTES)
"""The state of a content that depends on nothing else."""

_FIELDS = Struct("<8sQ32s")  # magic, size of the content, state
_CHECKSUM = Struct("<I")  # CRC32 of the content and the fields
_MAGIC = b"LEDGFS\x00\x01"
_SEAL_BYTES = _FIELDS.size + _CHECKSUM.size
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of the file, after the content.

    Attributes
    ----------
    size
        Bytes of the content.
    state
        The state in which the content is valid; `ALWAYS`, or a digest.
    checksum
        CRC32 of the content, then of the fields above.

    """

    size: int
    state: bytes
    checksum: int

    def holds_in(self, state: bytes) -> bool:
        """Whether the content is valid in this state."""
        return self.state in (ALWAYS, state)


class SealedWriter(io.RawIOBase):
    """A binary file that is written from start to end, over a descriptor that it does not own.

    Attributes
    ----------
    failure
        The error of the first write that failed: libraries that write through this object may raise another one.

    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0
        self._checksum = 0
        self.failure: OSError | None = None

    def writable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._size

    def write(self, data: "Buffer") -> int:
        """Write all of ``data``; raises `OSError`."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        self._checksum = zlib.crc32(rest, self._checksum)
        self._size += size
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.failure = self.failure or error
            raise
        return size

    def finish(self, state: bytes) -> Seal:
        """Write the seal and sync the file to the disk; raises `OSError`."""
        size = self._size
        self.write(_FIELDS.pack(_MAGIC, size, state))
        seal = Seal(size, state, self._checksum)
        self.write(_CHECKSUM.pack(seal.checksum))
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self.failure = error
            raise
        return seal


def read_seal(descriptor: int) -> Seal | None:
    """Return a file's seal; None if it has none, or its size differs. The content is not read."""
    total = os.fstat(descriptor).st_size
    if total < _SEAL_BYTES:
        return None
    data = os.pread(descriptor, _SEAL_BYTES, total - _SEAL_BYTES)
    if len(data) < _SEAL_BYTES:
        return None
    magic, size, state = _FIELDS.unpack_from(data)
    if magic != _MAGIC or size + _SEAL_BYTES != total:
        return None
    return Seal(size, state, *_CHECKSUM.unpack_from(data, _FIELDS.size))


def is_intact(descriptor: int, seal: Seal) -> bool:
    """Whether the content matches its checksum; reads all of it (2 GB/s)."""
    checksum = 0
    for chunk in _chunks(descriptor, seal.size):
        checksum = zlib.crc32(chunk, checksum)
    return zlib.crc32(_FIELDS.pack(_MAGIC, seal.size, seal.state), checksum) == seal.checksum


def _chunks(descriptor: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size and (chunk := os.pread(descriptor, min(_CHUNK, size - at), at)):
        yield chunk
        at += len(chunk)

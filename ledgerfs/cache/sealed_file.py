"""The format of cached files: the content, then a seal that detects damage.

The seal has a CRC32 of each block of the content, its size, digests of the file's name and state, and a CRC32 of all of this. So a part of
a large file can be verified without the rest. A torn, truncated or renamed file, or one with a flipped bit, does not match its seal.
"""

import io
import os
import zlib
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK = 64 << 10
"""Size in bytes of a verified block."""

STATE_BYTES = 32
"""Size in bytes of a state: a digest of everything that the content depends on."""

ALWAYS = bytes(STATE_BYTES)
"""The state of content that is always valid."""

_FIELDS = Struct("<8sQ32s32s")  # magic, size of the content, digest of the name, state
_CHECKSUM = Struct("<I")
_END = _FIELDS.size + _CHECKSUM.size
_MAGIC = b"LEDGFS\x00\x02"
_CHUNK = 64 * BLOCK


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a file, after its content.

    Attributes
    ----------
    size
        Size of the content in bytes.
    state
        The state in which the content is valid: `ALWAYS`, or a digest.
    checksums
        The CRC32 of each block, 4 bytes each.

    """

    size: int
    state: bytes
    checksums: bytes

    def holds_in(self, state: bytes) -> bool:
        """Return whether the content is valid in this state."""
        return self.state in (ALWAYS, state)

    def read(self, descriptor: int, start: int, end: int) -> bytes | None:
        """Return bytes ``start`` to ``end`` of the content after verification; None if they are damaged. Raises `OSError`."""
        first, last = start // BLOCK, -(-end // BLOCK)
        begin = first * BLOCK
        data = os.pread(descriptor, min(last * BLOCK, self.size) - begin, begin)
        if _checksums(data) != self.checksums[first * _CHECKSUM.size : last * _CHECKSUM.size]:
            return None
        return data[start - begin : end - begin]

    def is_intact(self, descriptor: int) -> bool:
        """Return whether the whole content matches; reads all of it (2 GB/s)."""
        chunks = range(0, self.size, _CHUNK)
        return all(self.read(descriptor, at, min(at + _CHUNK, self.size)) is not None for at in chunks)


class SealedWriter(io.RawIOBase):
    """A binary file for sequential writes, over a descriptor that it does not own.

    Attributes
    ----------
    failure
        The error of the first failed write, since libraries that write through this object may raise another one.

    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0
        self._checksums = bytearray()
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
        content = memoryview(data).cast("B")
        self._write(content)
        at = 0
        while at < len(content):
            part = content[at : at + BLOCK - self._size % BLOCK]
            self._checksum = zlib.crc32(part, self._checksum)
            self._size += len(part)
            at += len(part)
            if self._size % BLOCK == 0:
                self._end_block()
        return len(content)

    def finish(self, name: str, state: bytes = ALWAYS) -> Seal:
        """Write the seal of a file of this name; raises `OSError`.

        Does not sync: a file torn by a crash does not match its seal, and is written again.
        """
        if self._size % BLOCK:
            self._end_block()
        sealed = bytes(self._checksums) + _FIELDS.pack(_MAGIC, self._size, _digest(name), state)
        self._write(memoryview(sealed + _CHECKSUM.pack(zlib.crc32(sealed))))
        return Seal(self._size, state, bytes(self._checksums))

    def _end_block(self) -> None:
        self._checksums += _CHECKSUM.pack(self._checksum)
        self._checksum = 0

    def _write(self, rest: memoryview) -> None:
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.failure = self.failure or error
            raise


def read_seal(descriptor: int, name: str) -> Seal | None:
    """Return the seal of a file of this name, without reading the content; None if it is missing or damaged. Raises `OSError`."""
    total = os.fstat(descriptor).st_size
    end = os.pread(descriptor, _END, max(0, total - _END))
    if len(end) < _END:
        return None
    magic, size, digest, state = _FIELDS.unpack_from(end)
    at = total - _END - -(-size // BLOCK) * _CHECKSUM.size
    if magic != _MAGIC or digest != _digest(name) or at != size:
        return None
    sealed = os.pread(descriptor, total - _CHECKSUM.size - at, at)
    if end[_FIELDS.size :] != _CHECKSUM.pack(zlib.crc32(sealed)):
        return None
    return Seal(size, state, sealed[: -_FIELDS.size])


def _checksums(data: bytes) -> bytes:
    blocks = memoryview(data)
    return b"".join(_CHECKSUM.pack(zlib.crc32(blocks[at : at + BLOCK])) for at in range(0, len(data), BLOCK))


def _digest(name: str) -> bytes:
    return sha256(name.encode()).digest()

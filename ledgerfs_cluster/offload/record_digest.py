"""A digest of a ledger's entries, ids and lengths included, however they are read: two that are equal are of the same ledger.

What we sent and read back is compared by checksums, which find all that goes wrong by accident, at a fifth of the time. What others may
have written is compared by a cryptographic hash.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Protocol

import numpy as np

from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.crc import crc32c_after
from ledgerfs.formats.records import EntryBatch


class Checksum(Protocol):
    """Takes bytes in order, as those of `hashlib` do."""

    def update(self, data: Buffer, /) -> None:
        """Take the next bytes."""

    def hexdigest(self) -> str:
        """Return what stands for all bytes so far."""


class TwoCrcs:
    """`Checksum` of 64 bits: CRC32C and CRC-32, two polynomials that have no factor in common."""

    __slots__ = ("_castagnoli", "_zlib")

    def __init__(self) -> None:
        self._castagnoli = np.uint32(0)
        self._zlib = 0

    def update(self, data: Buffer, /) -> None:
        """Take the next bytes."""
        self._castagnoli = np.uint32(crc32c_after(self._castagnoli, np.frombuffer(data, np.uint8), 0, len(data)))
        self._zlib = zlib.crc32(data, self._zlib)

    def hexdigest(self) -> str:
        """Return 16 hex digits."""
        return f"{self._castagnoli:08x}{self._zlib:08x}"


cryptographic: Callable[[], Checksum] = partial(blake2b, digest_size=16)
"""Makes the checksum of what others may have written."""


class RecordDigest:
    """Takes the entries of a ledger in order. For one thread."""

    __slots__ = ("_hash", "entries", "length")

    def __init__(self, checksum: Callable[[], Checksum] = TwoCrcs) -> None:
        self._hash = checksum()
        self.entries = 0
        self.length = 0

    def add(self, batch: EntryBatch) -> EntryBatch:
        """Take the next entries, and return them as contiguous records."""
        if not len(batch):
            return batch
        framed = batch.framed()
        self._hash.update(framed.records())
        self.entries += len(framed)
        self.length += int(framed.lengths.sum())
        return framed

    def value(self) -> tuple[int, int, str]:
        """Return entries, bytes of them all, and the digest."""
        return self.entries, self.length, self._hash.hexdigest()


def digested(batches: Iterator[EntryBatch], digest: RecordDigest) -> Iterator[EntryBatch]:
    """Yield the batches of a ledger, each taken by a digest before."""
    for batch in batches:
        yield digest.add(batch)


def digest_of(
    read: Callable[[], Iterator[EntryBatch]], checksum: Callable[[], Checksum] = TwoCrcs
) -> tuple[int, int, str]:
    """Return the `RecordDigest.value` of a ledger that is read for this alone."""
    digest = RecordDigest(checksum)
    for batch in read():
        digest.add(batch)
    return digest.value()

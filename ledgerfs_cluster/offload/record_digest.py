"""A digest of a ledger's entries with ids and lengths, independent of how they are read: equal digests mean equal ledgers."""

from collections.abc import Callable, Iterator
from hashlib import sha256

from ledgerfs.formats.records import EntryBatch


class RecordDigest:
    """Digest of a ledger's entries, added in order. For one thread."""

    __slots__ = ("_hash", "entries", "length")

    def __init__(self) -> None:
        self._hash = sha256()
        self.entries = 0
        self.length = 0

    def add(self, batch: EntryBatch) -> EntryBatch:
        """Add the next entries, and return them as contiguous records."""
        if not len(batch):
            return batch
        framed = batch.framed()
        self._hash.update(framed.records())
        self.entries += len(framed)
        self.length += int(framed.lengths.sum())
        return framed

    def value(self) -> tuple[int, int, str]:
        """Return the number of entries, their bytes, and the digest."""
        return self.entries, self.length, self._hash.hexdigest()


def digest_of(read: Callable[[], Iterator[EntryBatch]]) -> tuple[int, int, str]:
    """Read a ledger, and return its `RecordDigest.value`."""
    digest = RecordDigest()
    for batch in read():
        digest.add(batch)
    return digest.value()

"""Reading one offloaded ledger of Pulsar's blob format: entries by id, and the bytes of its ``.entries`` file.

An entry is found through the index (which block) and learned offsets (where in it), then by walking forward over record headers, which
are checked on the way: anything else than the expected id, and any length that leaves the block, is a `CorruptLedgerError` with key and
offset. Every read names the version of the object that the catalog saw.
"""

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.cache.learned_offsets import STEP, LearnedOffsets
from ledgerfs.errors import CorruptLedgerError, EntryRangeError, LedgerfsError, StaleObjectError
from ledgerfs.formats.block import RECORD_HEADER_BYTES
from ledgerfs.formats.index import OffloadIndex, parse_index
from ledgerfs.vfs.block_map import BlockMap, block_ends
from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.description import describe_ledger
from ledgerfs.vfs.layout import Entry
from ledgerfs.vfs.object_store import ObjectStore, ReadRequest
from ledgerfs.vfs.object_window import ObjectWindow
from ledgerfs.vfs.padding_proof import PaddingProof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.vfs.record_walk import Stretch


class PulsarLedgerReader:
    """`LedgerReader` of one data and index object. Safe in threads and after a fork: what it keeps is only ever replaced whole."""

    __slots__ = ("_block_map", "_index", "_offsets", "_store", "ref")

    def __init__(self, store: ObjectStore, ref: LedgerRef) -> None:
        self.ref = ref
        self._store = store
        self._index: OffloadIndex | None = None
        self._block_map: BlockMap | None = None
        self._offsets = LearnedOffsets()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._store, self.ref))

    def __repr__(self) -> str:
        return f"<ledger {self.ref.ledger_id} of {self.ref.topic}: {self.ref.entries} entries, {self.ref.length} bytes>"

    @property
    def first_entry(self) -> int:
        """Always 0: Pulsar offloads whole ledgers."""
        return 0

    @property
    def last_entry(self) -> int:
        """Id of the last entry, as the ledger's metadata claims."""
        return self.ref.last_entry

    @property
    def length(self) -> int:
        """Bytes of all entries."""
        return self.ref.length

    @property
    def records_size(self) -> int:
        """Bytes of the ``.entries`` file."""
        return self.ref.records_size

    @property
    def index(self) -> OffloadIndex:
        """The parsed index object; one GET on first use."""
        if self._index is None:
            stat = self.ref.index
            data = self._store.read(ReadRequest(stat.key, 0, stat.size, stat.version))
            self._index = parse_index(data, key=stat.key)
        return self._index

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries ``first`` to ``last``, both included.

        Raises `EntryRangeError` when the ledger does not have them all, `CorruptLedgerError`, `StaleObjectError`, `StoreError`.
        """
        return [Entry(entry_id, data) for batch in self.batches(first, last) for entry_id, data in batch]

    def batches(self, first: int, last: int) -> "Iterator[EntryBatch]":
        """Yield the same entries a window at a time (up to 8 MiB, more only for a larger entry)."""
        if not 0 <= first <= last <= self.last_entry:
            raise EntryRangeError(
                f"entries {first} to {last} asked for; the ledger has 0 to {self.last_entry}", key=self.ref.data.key
            )
        for block in self._blocks_of(first, last):
            for stretch in self._walk(block, first, last):
                batch = stretch.batch
                end = batch.first_entry + len(batch) - 1
                if end >= first:
                    yield batch.slice(max(first, batch.first_entry), end)

    def block_front(self, block: int, size: int) -> bytes:
        """Return the first ``size`` bytes of a block's records, or all it has if that is less: one read of so much.

        Raises `CorruptLedgerError` where the object ends before the block's records begin.
        """
        start = self.index.blocks[block].offset + self.index.header_length
        end = min(start + size, self._block_end(block))
        return self._store.read(self._request(start, end)) if end > start else b""

    def read_records(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end`` of the ``.entries`` file, without a look at what they are.

        Raises `EntryRangeError` outside the file, and `CorruptLedgerError` when index and data object contradict each other.
        """
        ranges = self._ranges(start, end)
        if len(ranges) == 1:
            return self._store.read(self._request(*ranges[0]))
        return b"".join(self._read_all(ranges))

    def send_records(self, start: int, end: int, descriptor: int) -> None:
        """Write the same bytes to a file descriptor; raises as `read_records`."""
        for object_start, object_end in self._ranges(start, end):
            self._store.send(self._request(object_start, object_end), descriptor)

    @property
    def block_map(self) -> BlockMap:
        """The map from file to object; costs a small read for each block but the last."""
        if self._block_map is None:
            self._block_map = BlockMap.of(self.index, self._paddings())
        return self._block_map

    def describe(self) -> dict[str, Any]:
        """Return index, ledger metadata, blocks and object metadata."""
        heads = [self._store.head(stat.key) for stat in (self.ref.data, self.ref.index)]
        return describe_ledger(self.ref, self.index, *heads)

    def _ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        if not 0 <= start <= end <= self.records_size:
            raise EntryRangeError(
                f"bytes {start} to {end} asked for; the file has {self.records_size}", key=self.ref.data.key
            )
        return self.block_map.ranges(start, end)

    def _blocks_of(self, first: int, last: int) -> range:
        blocks = self.index.blocks
        low = bisect_right(blocks, first, key=lambda block: block.first_entry) - 1
        high = bisect_right(blocks, last, key=lambda block: block.first_entry)
        return range(low, high)

    def _walk(self, block: int, first: int, last: int) -> "Iterator[Stretch]":
        """Yield what one block has of the entries ``first`` to ``last``, perhaps with some entries before ``first``."""
        # numba, which this imports, is not needed by those who only copy bytes.
        from ledgerfs.vfs.record_walk import walk_records

        blocks = self.index.blocks
        end = self._block_end(block)
        if block + 1 < len(blocks):
            last = min(last, blocks[block + 1].first_entry - 1)
        entry, offset = self._nearest(block, first)
        limit = self._offsets.at_or_after(last + 1)
        window = ObjectWindow(self._store, self.ref.data, offset, min(end, limit[1]) if limit else end)
        try:
            for stretch in walk_records(window, entry, last, end, self.ref.data.key):
                self._learn(stretch)
                yield stretch
        except CorruptLedgerError as error:
            raise self._damage(error.reason, error.offset) from error

    def _nearest(self, block: int, entry: int) -> tuple[int, int]:
        """Return an entry of ``block`` at or before ``entry`` whose offset is known, and that offset."""
        start = self.index.blocks[block]
        known = self._offsets.at_or_before(entry)
        if known is not None and known[0] >= start.first_entry:
            return known
        return start.first_entry, start.offset + self.index.header_length

    def _learn(self, stretch: "Stretch") -> None:
        """Remember the first record of each MiB that was passed."""
        starts = stretch.batch.offsets + (stretch.position - RECORD_HEADER_BYTES)
        for i in np.flatnonzero(np.diff(starts // STEP)).tolist():
            self._offsets.learn(stretch.batch.first_entry + i + 1, int(starts[i + 1]))

    def _block_end(self, block: int) -> int:
        """Return where a block ends, checked against the object's real size."""
        index, size = self.index, self.ref.data.size
        end = min(block_ends(index)[block], size)
        start = index.blocks[block]
        if start.offset + index.header_length > end:
            raise self._damage(
                f"entries from {start.first_entry} on are not in the object: the index places them at byte {start.offset}, "
                f"the blocks end at byte {min(index.data_length, size)}",
                start.offset,
            )
        return end

    def _paddings(self) -> list[int]:
        """Return the exact padding of each block, proved as `ledgerfs.vfs.padding_proof` tells."""
        index = self.index
        if not index.is_plausible or self.ref.data.size < index.data_length:
            raise self._damage(
                f"index and object contradict each other: {index.data_length} bytes by the index, {self.ref.data.size} in the store, "
                f"{index.metadata.records_size} of records expected; `ledgerfs verify` tells which entries are left, "
                "`read(first, last)` reads them",
                min(index.data_length, self.ref.data.size),
            )
        proof = PaddingProof(
            index, self.ref.data.key, lambda start, end: self._store.read(self._request(start, end)), self._end_of
        )
        try:
            return proof.paddings()
        except CorruptLedgerError as error:
            raise self._damage(error.reason, error.offset) from error

    def _end_of(self, block: int) -> int:
        """Walk all records of a block; return the offset behind the last one."""
        (stretch,) = deque(self._walk(block, 0, self.last_entry), maxlen=1)
        return stretch.behind

    def _request(self, start: int, end: int) -> ReadRequest:
        return ReadRequest(self.ref.data.key, start, end, self.ref.data.version)

    def _read_all(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        pieces = []
        for outcome in self._store.read_many(self._request(start, end) for start, end in ranges):
            if isinstance(outcome, LedgerfsError):
                raise outcome
            pieces.append(outcome)
        return pieces

    def _damage(self, reason: str, offset: int | None) -> LedgerfsError:
        """Return the error for bytes that contradict; in a store that cannot read by version they may be of another object."""
        stat = self.ref.data
        if stat.version and self._store.head(stat.key).stat.version != stat.version:
            return StaleObjectError("the object was replaced; open it again", key=stat.key)
        return CorruptLedgerError(reason, key=stat.key, offset=offset)

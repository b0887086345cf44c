"""Read one offloaded ledger of Pulsar's blob format: entries by id, and the bytes of its ``.entries`` file.

The index gives the block of an entry, and learned offsets a position in it; then a walk over record headers finds the entry. An unexpected
id, or a length that exceeds the block, is a `CorruptLedgerError` with key and offset, unless a walk from the block's start proves a learned
offset wrong. Every read names the version of the object in the catalog.
"""

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ledgerfs.cache.object_window import ObjectWindow, Parts, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import Cuts, Glance, OnDamage, Origin
from ledgerfs.display import names_shown
from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, EntryRangeError, LedgerfsError, StaleObjectError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.pulsar_blob.index import OffloadIndex, parse_index
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.layouts.described import describe_metadata, describe_object, describe_ref
from ledgerfs.layouts.object_stream import ObjectLedgerReader, leads_to
from ledgerfs.layouts.pulsar_blob.block_map import BlockMap, PaddingProof, block_ends
from ledgerfs.layouts.pulsar_blob.entries_file import EntriesFile
from ledgerfs.layouts.pulsar_blob.entry_places import NEAR, Anchor, EntryPlaces
from ledgerfs.storage.failures import replaced
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ObjectHead, ReadRequest
from ledgerfs.storage.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.layouts.pulsar_blob.record_walk import RecordStretch

_KEPT = 8 << 20
"""Most bytes before an entry that caches keep: more would evict data that is read more than once."""


_FOR_OTHER_ROOMS = frozenset(
    {"batches_of", "block_map", "data", "expect", "index_request", "is_mapped", "object_ranges", "places", "plan"}
    | {"request", "require_range", "store"}
)  # fmt: skip
"""Names that are not part of the public API."""


class PulsarLedgerReader(ObjectLedgerReader):
    """`LedgerReader` of one data and index object. Safe in threads and after a fork: its state is only replaced whole."""

    __slots__ = ("_block_map", "_index", "_maps", "_places")

    def __init__(self, store: KeepingStore, ref: LedgerRef) -> None:
        super().__init__(store, ref)
        self._index: OffloadIndex | None = None
        self._block_map: BlockMap | None = None
        self._maps: SingleFlight[BlockMap] = SingleFlight()
        self._places: EntryPlaces | None = None

    def __dir__(self) -> list[str]:
        return list(names_shown(self, _FOR_OTHER_ROOMS))

    @property
    def index(self) -> OffloadIndex:
        """The parsed index object; one GET on first use."""
        index = self._index
        if index is None:
            data = self.store.read(self.index_request)
            try:
                index = parse_index(data, key=self.ref.object("index").key)
                self._require_known(index)
            except LedgerfsError:
                self.store.forget(self.ref.object("index"))
                raise
            self._index = index
        return index

    @property
    def places(self) -> EntryPlaces:
        """The offsets of its entries."""
        places = self._places
        if places is None:
            places = EntryPlaces(self.index, self.data.key, self.data.size)
            self._places = places
        return places

    def expect(self) -> None:
        """Begin to read the index if the store is remote: it will be needed soon."""
        if self._index is None and self.store.is_remote and self.ref.object("index").version:
            self.store.start(self.index_request)

    def plan(self, first: int, last: int, *, is_known: bool = False) -> "Iterator[ReadRequest]":
        """Return the uncached reads that `batches` needs for many entries, ``first`` to ``last``.

        The first reads are small unless all will be read.
        """
        start = self.places.before(first)
        return self._parts_from(start, last, is_known=is_known)

    def batches_of(
        self, parts: Parts | None, first: int, last: int, on_damage: OnDamage | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield entries from the parts of `plan`, a window at a time (up to 8 MiB, more only for a larger entry).

        With ``on_damage``, which is called with the damage, skips the rest of a damaged block.
        """
        self.require_range(first, last)
        is_single = parts is None and (last - first + 1) * self.records_size <= NEAR * self.ref.entries
        start = self.places.before(first)
        if parts is not None and leads_to(parts, self.data.key, start.offset):
            window = ObjectWindow(parts, self.data.key, start.offset)
            yield from self._walk(window, start, first, last, on_damage, is_single=False)
            window.finish()
        else:
            if parts is not None:
                # Planned before offsets were learned or forgotten; the parts after it are for the next ledger.
                ObjectWindow(parts, self.data.key, 0).finish()
            opened = (
                self._open_few(start, first, last)
                if is_single
                else open_parts(self.store, self._parts_from(start, last))
            )
            with opened as own:
                window = ObjectWindow(own, self.data.key, start.offset)
                yield from self._walk(window, start, first, last, on_damage, is_single=is_single)

    def cuts(self) -> Cuts:
        """Return the first entry of each block."""
        return self.places.firsts

    def glance(self, entry: int, size: int) -> Glance:
        """Return the first ``size`` bytes of a block's first entry, or the whole entry if it is shorter: one small read.

        Raises `CorruptLedgerError` if the object ends before the block's records begin, or they do not begin with the entry.
        """
        from ledgerfs.layouts.pulsar_blob.record_walk import front_of

        (block,) = self.places.blocks_of(entry, entry)
        start = self.places.start_of(block).offset
        end = min(start + size + RECORD_HEADER_BYTES, self._end_of(block))
        return front_of(self.store.read(self.request(start, end)) if end > start else b"", entry, self.data.key, start)

    def metadata(self) -> LedgerMetadata:
        """Return the ledger's metadata from the index."""
        return self.index.metadata

    def origin(self) -> Origin:
        """Return the sizes of its blocks. A ledger of one block is the same object with any block size that holds it."""
        offsets = [block.offset for block in self.index.blocks] + [self.index.data_length]
        largest = max(end - start for start, end in pairwise(offsets))
        return Origin(largest if len(self.index.blocks) > 1 else None, largest)

    def user_metadata(self) -> "Mapping[str, str] | None":
        """Return the user metadata of the index object."""
        return self.store.head(self.ref.object("index").key).metadata

    def records(self) -> EntriesFile:
        """Return the opened ``.entries`` file; costs no request."""
        return EntriesFile(self)

    def object_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the data object that are bytes ``start`` to ``end`` of the ``.entries`` file.

        Raises `EntryRangeError` outside the file, and `CorruptLedgerError` if index and data object contradict each other.
        """
        if not 0 <= start <= end <= self.records_size:
            raise EntryRangeError(
                f"bytes {start} to {end} were requested; the file has {self.records_size} bytes", key=self.data.key
            )
        return self.block_map.ranges(start, end)

    @property
    def is_mapped(self) -> bool:
        """Whether `block_map` is known, so that it costs no request."""
        return self._block_map is not None

    @property
    def block_map(self) -> BlockMap:
        """The map from file to object; costs a small read for each block but the last."""
        known = self._block_map
        if known is None:
            known = self._maps.run(None, lambda: BlockMap.of(self.index, self._paddings()))
            self._block_map = known
        return known

    def describe(self) -> dict[str, Any]:
        """Return index, ledger metadata, blocks and object metadata."""
        heads = [self.store.head(stat.key) for stat in (self.data, self.ref.object("index"))]
        return _described(self.ref, self.index, *heads)

    def _parts_from(self, start: Anchor, last: int, *, is_known: bool = False) -> "Iterator[ReadRequest]":
        for part in cut_parts(start.offset, self.places.after(last).offset, is_known=is_known):
            yield self.request(*part, is_kept=False)

    def _open_few(self, start: Anchor, first: int, last: int) -> Parts:
        """Begin to read few entries, from the nearest known offset before them; reads more only if that is not enough."""
        end = self.places.after(last).offset
        goal = min(end, start.offset + self.places.enough(start, first, last))
        if goal - start.offset <= _KEPT:
            plan = ((start.offset, goal), *cut_parts(goal, end))
            return open_parts(self.store, (self.request(*part) for part in plan))
        # A long walk teaches offsets, and its bytes would evict from caches the data that is read more than once.
        far = tuple(cut_parts(start.offset, goal, is_known=True))
        requests = (self.request(*part, is_kept=False) for part in (*far, *cut_parts(goal, end)))
        return open_parts(self.store, requests, is_known=True, most=len(far))

    def _walk(
        self,
        window: ObjectWindow,
        start: Anchor,
        first: int,
        last: int,
        on_damage: OnDamage | None,
        *,
        is_single: bool,
    ) -> "Iterator[EntryBatch]":
        for block in self.places.blocks_of(first, last):
            end = min(last, self.places.last_entry_of(block))
            try:
                for stretch in self._stretches(window, block, start, end, is_single=is_single):
                    batch = stretch.batch
                    following = batch.first_entry + len(batch)
                    if following > first:
                        yield batch.slice(max(first, batch.first_entry), following - 1)
                        first = following
            except CorruptLedgerError as error:
                if on_damage is None:
                    raise
                on_damage(first, end, error)
                first = end + 1
            if end < last:
                start = self.places.start_of(block + 1)

    def _stretches(
        self, window: ObjectWindow, block: int, start: Anchor, last: int, *, is_single: bool
    ) -> "Iterator[RecordStretch]":
        """Yield a block's entries up to ``last``, from ``start`` on; a contradiction is damage only if a second read confirms it."""
        # This imports numba, which copying bytes does not need.
        from ledgerfs.layouts.pulsar_blob.record_walk import walk_records

        unproved = None
        try:
            window.skip_to(start.offset)
            for stretch in walk_records(window, start.entry, last, self.places.end_of(block), self.data.key):
                self.places.learn(stretch, is_single=is_single)
                unproved = start
                yield stretch
        except CorruptLedgerError:
            self.places.forget()
            self.store.forget(self.data)
        else:
            return
        yield from self._stretches_again(block, last, unproved)

    def _stretches_again(self, block: int, last: int, unproved: Anchor | None) -> "Iterator[RecordStretch]":
        """Yield a block's entries from its beginning on; raises `StaleObjectError` if the entry ``unproved`` is at another offset."""
        from ledgerfs.layouts.pulsar_blob.record_walk import walk_records

        key, start = self.data.key, self.places.start_of(block)
        if unproved == start:
            unproved = None
        with open_parts(self.store, self._parts_from(start, last)) as parts:
            window = ObjectWindow(parts, key, start.offset)
            try:
                for stretch in walk_records(window, start.entry, last, self.places.end_of(block), key):
                    if unproved is not None and (place := stretch.place_of(unproved.entry)) is not None:
                        if place != unproved.offset:
                            raise _misplaced(key, unproved)
                        unproved = None
                    yield stretch
            except CorruptLedgerError as error:
                if unproved is not None:
                    raise _misplaced(key, unproved) from error
                raise self._damage(error) from error

    def _end_of(self, block: int) -> int:
        try:
            return self.places.end_of(block)
        except CorruptLedgerError as error:
            raise self._damage(error) from error

    def _require_known(self, index: OffloadIndex) -> None:
        """Raise `CorruptIndexError` or `StaleObjectError` for an index that differs from the catalog's row."""
        ref, metadata = self.ref, index.metadata
        found = (metadata.last_entry, metadata.length, index.data_length, len(index.blocks))
        if found != (ref.last_entry, ref.length, ref.expected, ref.cuts):
            if not self.store.is_current(ref.object("index")):
                raise replaced(ref.object("index").key)
            raise CorruptIndexError(
                "the index has other sizes than in the catalog",
                key=ref.object("index").key,
                offset=0,
            )

    def _require_plausible(self) -> None:
        index, size = self.index, self.data.size
        if not index.is_plausible or size < index.data_length:
            raise self._damage(
                CorruptLedgerError(
                    f"index and object contradict each other: {index.data_length} bytes in the index, {size} in the store, "
                    f"{index.metadata.records_size} bytes of records expected; `ledgerfs verify` lists the lost entries, "
                    "`read(first, last)` reads the others",
                    key=self.data.key,
                    offset=min(index.data_length, size),
                )
            )

    def _paddings(self) -> list[int]:
        """Return the exact padding of each block, bytes, proved as in `ledgerfs.layouts.pulsar_blob.block_map`."""
        self._require_plausible()
        proof = PaddingProof(
            self.index,
            self.data.key,
            lambda start, end: self.store.read(self.request(start, end)),
            self._end_of_records,
        )
        try:
            return proof.paddings()
        except CorruptLedgerError as error:
            self.store.forget(self.data)
            raise self._damage(error) from error

    def _end_of_records(self, block: int) -> int:
        """Walk all records of a block; return the offset at which the last one ends."""
        start, last = self.places.start_of(block), self.places.last_entry_of(block)
        with open_parts(self.store, self._parts_from(start, last)) as parts:
            window = ObjectWindow(parts, self.data.key, start.offset)
            (stretch,) = deque(self._stretches(window, block, start, last, is_single=False), maxlen=1)
        return stretch.end

    def _damage(self, error: CorruptLedgerError) -> LedgerfsError:
        """Return the error for contradictory bytes; without reads by version they may be of another object."""
        stat = self.data
        if not self.store.is_current(stat):
            return replaced(stat.key)
        # The index may be wrong, and only the records can show it.
        self._index = self._places = self._block_map = None
        self.store.forget(self.ref.object("index"))
        return CorruptLedgerError(error.reason, key=stat.key, offset=error.offset)


def _misplaced(key: str, anchor: Anchor) -> StaleObjectError:
    """Return the error for entries that were yielded from a wrong learned offset."""
    reason = f"the remembered offset of entry {anchor.entry} was wrong and is discarded; read the ledger again"
    return StaleObjectError(reason, key=key, offset=anchor.offset)


def _described(ref: LedgerRef, index: OffloadIndex, data: ObjectHead, index_object: ObjectHead) -> dict[str, Any]:
    """Return index, ledger metadata, blocks and object metadata as JSON values; sizes in bytes, times in ISO 8601 UTC."""
    ends = block_ends(index)
    return {
        **describe_ref(ref),
        "index": {
            "data_length": index.data_length,
            "header_length": index.header_length,
            "padding": index.padding,
            "oddity": index.oddity,
        },
        "ledger_metadata": describe_metadata(index.metadata),
        "blocks": [
            {"first_entry": block.first_entry, "part": block.part, "offset": block.offset, "length": end - block.offset}
            for block, end in zip(index.blocks, ends, strict=True)
        ],
        "objects": {"data": describe_object(data), "index": describe_object(index_object)},
    }

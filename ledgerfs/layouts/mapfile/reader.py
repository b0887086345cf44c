"""Read one ledger of a MapFile: entries by id, in whole buffers.

Reading begins at a position of the index, or at the start of the data without one, and walks from key to key. Keys have to confirm the
index: after a walk from a wrong position, reading begins again at the start of the data. Keys have to be consecutive up to the last entry,
so an incomplete ledger never counts as a whole one. Every read names the version of the object in the catalog.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.cache.object_window import ObjectWindow, Parts, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import Cuts, OnDamage
from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, LedgerfsError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.mapfile.header import FIRST_BYTES
from ledgerfs.formats.mapfile.index import MapFileIndex, parse_index
from ledgerfs.layouts.described import describe_metadata, describe_object, describe_ref
from ledgerfs.layouts.mapfile.loading import HEAD_BYTES, Start, cuts_of, read_start
from ledgerfs.layouts.object_stream import ObjectLedgerReader, leads_to
from ledgerfs.storage.failures import replaced
from ledgerfs.storage.object_store import KeepingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.layouts.mapfile.key_walk import KeyPlace, KeyStretch, Resync
    from ledgerfs.storage.objects import ReadRequest

_KEPT = 8 << 20
"""Most bytes of one read that caches keep: more would evict data that is read more than once."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where walks begin (`ledgerfs.layouts.mapfile.loading.cuts_of`)."""

    firsts: Cuts
    positions: Cuts
    size: int

    def before(self, entry: int) -> "KeyPlace":
        """Return the nearest position from which a walk reaches an entry."""
        from ledgerfs.layouts.mapfile.key_walk import START, KeyPlace

        row = int(np.searchsorted(self.firsts, entry, "right")) - 1
        return KeyPlace(int(self.positions[row]), int(self.firsts[row]), is_proved=False) if row > 0 else START

    def behind(self, entry: int) -> int:
        """Return an offset in the data after the record of an entry, or its block: a position's own block may contain the entry as well."""
        row = int(np.searchsorted(self.firsts, entry, "right")) + 1
        return int(self.positions[row]) if row < self.positions.size else self.size


class MapFileReader(ObjectLedgerReader):
    """`LedgerReader` of a MapFile. Safe in threads and after a fork: its cached values are only ever replaced whole."""

    __slots__ = ("_positions", "_start")

    def __init__(self, store: KeepingStore, ref: LedgerRef) -> None:
        super().__init__(store, ref)
        self._start: Start | None = None
        self._positions: Positions | None = None

    @property
    def start(self) -> Start:
        """Header and metadata, from the first bytes of the data."""
        start = self._start
        if start is None:
            data = self.data
            head = self.store.read(self.request(0, min(data.size, FIRST_BYTES)))
            try:
                start = read_start(head, data, lambda end: self.store.read(self.request(0, end)))
                self._require_known(start.metadata)
            except CorruptLedgerError as error:
                self.store.forget(data)
                raise self._damage(error) from error
            self._start = start
        return start

    @property
    def positions(self) -> Positions:
        """Where walks begin; reads the index, unless it is unusable by the catalog."""
        positions = self._positions
        if positions is None:
            firsts = starts = np.zeros(1, np.int64)
            if self.ref.cuts > 1:
                firsts, starts = cuts_of(self.index(), self.ref.last_entry, key=self.ref.object("index").key)
            if len(firsts) != self.ref.cuts:
                raise self._damage(CorruptLedgerError("the index differs from the one in the catalog"))
            positions = self._positions = Positions(firsts, starts, self.data.size)
        return positions

    def index(self) -> MapFileIndex:
        """Read the index; raises `CorruptIndexError`, `UnsupportedFormatError`, and `CorruptLedgerError` if there is none."""
        stat = self.ref.object("index")
        data = self.store.read(self.index_request)
        try:
            return parse_index(data, data_size=self.data.size, key=stat.key)
        except CorruptIndexError as error:
            self.store.forget(stat)
            if not self.store.is_current(stat):
                raise replaced(stat.key) from error
            raise

    def expect(self) -> None:
        """Begin to read the index if the store is remote: it will be needed soon."""
        if self._positions is None and self.ref.cuts > 1 and self.store.is_remote and self.index_request.version:
            self.store.start(self.index_request)

    def plan(self, first: int, last: int, *, is_known: bool = False) -> "Iterator[ReadRequest]":
        """Return the reads that `batches_of` needs; the first ones are small unless all will be read."""
        return self._parts(self.positions.before(first), self.positions.behind(last), is_known=is_known)

    def cuts(self) -> Cuts:
        """Return entries that have positions in the index, a MiB or more apart."""
        return self.positions.firsts

    def metadata(self) -> LedgerMetadata:
        """Return the ledger's metadata, the value of key -1."""
        return self.start.metadata

    def describe(self) -> dict[str, Any]:
        """Return ledger metadata, compression, and objects."""
        header = self.start.header
        heads = {role: self.store.head(stat.key) for role, stat in self.ref.objects}
        return {
            **describe_ref(self.ref),
            "compression": header.compression.value,
            "codec": None if header.codec is None else header.codec.value,
            "ledger_metadata": describe_metadata(self.start.metadata),
            "blocks": [
                {"first_entry": first, "offset": offset or header.size}
                for first, offset in zip(self.positions.firsts.tolist(), self.positions.positions.tolist(), strict=True)
            ],
            "objects": {role: describe_object(head) for role, head in heads.items()},
        }

    def _parts(self, place: "KeyPlace", end: int, *, is_known: bool = False) -> "Iterator[ReadRequest]":
        is_kept = end - place.position <= _KEPT
        for part in cut_parts(place.position, end, is_known=is_known):
            yield self.request(*part, is_kept=is_kept)

    def batches_of(
        self, parts: Parts | None, first: int, last: int, on_damage: OnDamage | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield entries from the parts of `plan`; with ``on_damage``, which is called, skips damaged ones up to the next marker."""
        self.require_range(first, last)
        place, key = self.positions.before(first), self.data.key
        if parts is not None and leads_to(parts, key, place.position):
            window = ObjectWindow(parts, key, place.position)
            yield from self._read(window, place, first, last, on_damage)
            window.finish()
            return
        if parts is not None:
            ObjectWindow(parts, key, 0).finish()
        with open_parts(self.store, self._parts(place, self.positions.behind(last))) as own:
            yield from self._read(ObjectWindow(own, key, place.position), place, first, last, on_damage)

    def _read(
        self, window: ObjectWindow, place: "KeyPlace", first: int, last: int, on_damage: OnDamage | None
    ) -> "Iterator[EntryBatch]":
        """Yield entries; rereads contradictory bytes once, then reads without the index, before it reports damage."""
        from ledgerfs.layouts.mapfile.key_walk import START

        tried: list[KeyPlace] = []
        resync: Resync | None = None
        opened: Parts | None = None
        try:
            while first <= last:
                try:
                    for stretch in self._walk(window, place, last):
                        place, tried = stretch.behind, []
                        first = _tell(on_damage, resync, first, min(stretch.batch.first_entry, last + 1))
                        resync = None
                        if first <= last and place.key > first and len(stretch.batch):
                            yield stretch.batch.slice(first, min(place.key - 1, last))
                            first = place.key
                except CorruptLedgerError as error:
                    tried.append(place)
                    self.store.forget(self.data)
                    again = self._again(place, tried)
                    if again is None:
                        resync = resync or self._resync(error, place, on_damage)
                        again, tried = resync.next_place(), [START]
                    if again is None:
                        first = _tell(on_damage, resync, first, last + 1)
                    else:
                        place = again
                if first <= last:
                    if opened is not None:
                        opened.close()
                    opened = open_parts(self.store, self._parts(place, self.data.size))
                    window = ObjectWindow(opened, self.data.key, place.position)
        finally:
            if opened is not None:
                opened.close()

    def _walk(self, window: ObjectWindow, place: "KeyPlace", last: int) -> "Iterator[KeyStretch]":
        # This imports numba, which listing does not need.
        from ledgerfs.layouts.mapfile.key_walk import walk_keys

        self._start = self._start or self._start_in(window)
        return walk_keys(window, place, self.start.header, last, self.data)

    def _start_in(self, window: ObjectWindow) -> Start | None:
        """Return header and metadata from a window on the start of the data, which has to be read anyway."""
        head = min(self.data.size, HEAD_BYTES)
        if window.position or not window.fill(min(head, FIRST_BYTES)):
            return None

        def more(end: int) -> bytes:
            if not window.fill(end):
                raise CorruptLedgerError("the data ends within its header", key=self.data.key, offset=end)
            return bytes(window.buffer[:end])

        start = read_start(bytes(window.buffer[:head]), self.data, more)
        self._require_known(start.metadata)
        return start

    def _again(self, place: "KeyPlace", tried: "list[KeyPlace]") -> "KeyPlace | None":
        """Return where to retry after damage: at the same place, then at the start if only the index led to that place."""
        from ledgerfs.layouts.mapfile.key_walk import START

        if tried.count(place) <= 1:
            return place
        return None if place.is_proved or START in tried else START

    def resync(self, error: CorruptLedgerError, place: "KeyPlace") -> "Resync":
        """Return the search for the next readable record after damage."""
        from ledgerfs.layouts.mapfile.key_walk import Resync, find_marker

        def next_marker(start: int) -> int | None:
            try:
                sync = self.start.header.sync
            except CorruptLedgerError:  # without a header, markers are unknown
                return None
            return find_marker(self.store, self.data, sync, start)

        return Resync(next_marker, error, place.position, place.key, self.last_entry)

    def _resync(self, error: CorruptLedgerError, place: "KeyPlace", on_damage: OnDamage | None) -> "Resync":
        """Return the search after damage that stays; raises the error without ``on_damage``."""
        damage = self._damage(error)
        if on_damage is None or not isinstance(damage, CorruptLedgerError):
            raise damage from error
        return self.resync(damage, place)

    def _require_known(self, metadata: LedgerMetadata) -> None:
        """Raise an error for metadata that differs from the catalog's."""
        if (metadata.last_entry, metadata.length) != (self.ref.last_entry, self.ref.length):
            reason = "the metadata has other sizes than in the catalog"
            raise CorruptLedgerError(reason, key=self.data.key, offset=0)

    def _damage(self, error: CorruptLedgerError) -> LedgerfsError:
        """Return the error for contradictory bytes; in a store that cannot read by version they may be of another object."""
        if not self.store.is_current(self.data):
            return replaced(self.data.key)
        return CorruptLedgerError(error.reason, key=self.data.key, offset=error.offset)


def _tell(on_damage: OnDamage | None, resync: "Resync | None", first: int, behind: int) -> int:
    """Report the lost entries from ``first`` on, before ``behind``, if there was damage; return where reading goes on."""
    if resync is None:
        return first
    if on_damage is not None and first < behind:
        on_damage(first, behind - 1, resync.error)
    return max(first, behind)

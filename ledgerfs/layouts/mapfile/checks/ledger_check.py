"""Check every byte of one ledger: records, keys, checksums of entries, totals, and the positions in the index."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptIndexError,
    CorruptLedgerError,
    CorruptObjectError,
    ObjectNotFoundError,
    UnsupportedFormatError,
)
from ledgerfs.formats.mapfile.blocks import SYNC_ESCAPE
from ledgerfs.formats.mapfile.chunk_checksums import (
    ChunkChecksums,
    checksum_key,
    parse_chunk_checksums,
    size_of_checksums,
)
from ledgerfs.formats.mapfile.first_record import METADATA_KEY
from ledgerfs.formats.mapfile.header import SYNC_BYTES, RecordCompression
from ledgerfs.formats.mapfile.index import MapFileIndex
from ledgerfs.layouts.checksum_findings import ObjectLedgerCheck
from ledgerfs.layouts.mapfile.key_walk import START, KeyPlace, KeyStretch, walk_keys
from ledgerfs.layouts.mapfile.reader import MapFileReader
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

if TYPE_CHECKING:
    from ledgerfs.layouts.mapfile.key_walk import Resync

_MARKER = len(SYNC_ESCAPE) + SYNC_BYTES


@dataclass(slots=True)
class MapFileCheck(ObjectLedgerCheck[MapFileReader]):
    """The check of one ledger."""

    _next: int = METADATA_KEY
    _at: int = 0
    _index: MapFileIndex | None = None

    def _check(self) -> None:
        self._index = self._read_index()
        self._check_data()
        self._check_totals(self.ledger.metadata())
        self.findings += check_chunks(self.ledger.store, self.ref)

    def _read_index(self) -> MapFileIndex | None:
        """Return the index; None if it is unusable, which the catalog has already reported."""
        if not any(role == "index" for role, _ in self.ref.objects):
            return None
        try:
            return self.ledger.index()
        except (CorruptIndexError, UnsupportedFormatError):
            return None
        except AccessDeniedError as error:
            self._find(Severity.UNCHECKED, "unreadable-object", error.reason, error.key)
            return None

    def _check_data(self) -> None:
        """Walk through the data, past damage from marker to marker."""
        stat = self.ledger.data
        self._at = self.ledger.start.header.size
        place: KeyPlace | None = START
        resync: Resync | None = None
        while place is not None:
            at = place
            try:
                for stretch in self._walk(place):
                    if resync is not None:
                        self._lost(resync.error, at.position, stretch.batch.first_entry)
                    at, resync = stretch.behind, None
                    self._check_stretch(stretch)
                place = None
            except CorruptLedgerError as error:
                resync = resync or self.ledger.resync(error, at)
                place = resync.next_place()
        first, last = max(0, self._next), self.ref.last_entry
        if resync is not None and first <= last:
            message = f"{resync.error.reason}; entries {first} to {last} cannot be reached"
            self._damage("damaged-records", message, resync.error.offset, resync.error.key)
        elif resync is not None:
            self._trailing(resync.error.reason, resync.error.offset)
        elif first > last + 1:
            self._trailing(f"the file has entries up to {first - 1}", self._at)
        elif self._at < stat.size:
            self._trailing(f"the file has {stat.size - self._at} more bytes", self._at)
        self._count(stat.size)

    def _trailing(self, what: str, offset: int | None) -> None:
        message = f"{what} after entry {self.ref.last_entry}, the last one in the metadata, where Pulsar writes nothing"
        self._damage("trailing-records", message, offset)

    def _walk(self, place: KeyPlace) -> Iterator[KeyStretch]:
        """Yield the windows from a place on."""
        ledger, stat = self.ledger, self.ledger.data
        parts = cut_parts(place.position, stat.size, is_known=True)
        plan = (ReadRequest(stat.key, *part, stat.version, False) for part in parts)
        with open_parts(ledger.store, plan) as opened:
            window = ObjectWindow(opened, stat.key, place.position)
            yield from walk_keys(window, place, ledger.start.header, self.ref.last_entry, stat)

    def _lost(self, error: CorruptLedgerError, at: int, behind: int) -> None:
        """Report the entries that damage destroyed, once entries after it were read, from the marker ``at`` on."""
        first = max(0, self._next)
        lost = f"entries {first} to {behind - 1} are lost" if first < behind else "no entry is lost"
        message = f"{error.reason}; {lost}, with the bytes {self._at} to {at - 1}"
        self._damage("damaged-records", message, error.offset, error.key)
        self._at, self._next = at, behind

    def _check_stretch(self, stretch: KeyStretch) -> None:
        self._count(stretch.behind.position)
        self._check_entries(stretch)
        self._check_positions(stretch)
        self._at, self._next = stretch.behind.position, stretch.behind.key

    def _count(self, position: int) -> None:
        if position > self.bytes:
            self.on_bytes(position - self.bytes)
            self.bytes = position

    def _check_entries(self, stretch: KeyStretch) -> None:
        if len(stretch.batch):
            for _, kind, message in self._check_batch(stretch.batch):
                self._damage(kind, message)

    def _check_positions(self, stretch: KeyStretch) -> None:
        """Compare each position of the index with that of its key's block or record (with the marker before it).

        Stops at the first wrong position.
        """
        index = self._index
        if index is None:
            return
        low, high = np.searchsorted(index.keys, [self._next, stretch.behind.key])
        keys, positions = index.keys[low:high], index.positions[low:high]
        stands = stretch.places[keys - self._next]
        is_right = positions == stands
        if keys.size and keys[0] == self._next and self.ledger.start.header.compression is not RecordCompression.BLOCK:
            is_right[0] |= positions[0] == stands[0] - _MARKER
        if is_right.all():
            return
        wrong = int(np.argmin(is_right))
        message = (
            f"the index has byte {positions[wrong]} of the data for key {keys[wrong]}, which is at byte {stands[wrong]}"
        )
        self._damage("wrong-index", message, key=self.ref.object("index").key)
        self._index = None


_LOOKED_AT = 1 << 20
_MOST_NAMED = 20


def check_chunks(store: ObjectStore, ref: LedgerRef) -> Iterator[Finding]:
    """Yield where the objects of a ledger differ from their checksums; skips objects without checksums. Raises the errors of reading."""
    whose = ref.ledger_id, ref.topic
    for _, stat in ref.objects:
        try:
            checksums = _checksums_of(store, stat)
        except CorruptObjectError as error:
            message = f"{error.reason}; the checksum file is ignored"
            yield Finding(Severity.REMARK, "odd-checksum-file", message, checksum_key(stat.key), None, *whose)
            continue
        except AccessDeniedError as error:
            yield Finding(Severity.UNCHECKED, "unreadable-object", error.reason, checksum_key(stat.key), None, *whose)
            continue
        if checksums is not None:
            yield from _wrong(store, ref, stat, checksums)


def _checksums_of(store: ObjectStore, stat: ObjectStat) -> ChunkChecksums | None:
    """Return the checksums of an object; None if there are none."""
    key = checksum_key(stat.key)
    try:
        found = store.head(key).stat
        if found.size > size_of_checksums(stat.size, 1):
            raise CorruptObjectError(
                f"the checksum file has {found.size} bytes for a file of {stat.size} bytes", key=key
            )
        data = store.read(ReadRequest(key, 0, found.size, found.version, False))
    except ObjectNotFoundError:
        return None
    return parse_chunk_checksums(data, file_size=stat.size, key=key)


def _wrong(store: ObjectStore, ref: LedgerRef, stat: ObjectStat, checksums: ChunkChecksums) -> Iterator[Finding]:
    """Yield the places that differ; adjacent chunks are one place."""
    size, runs = checksums.chunk_bytes, 0
    for first, behind in _runs(_wrong_chunks(store, stat, checksums)):
        runs += 1
        if runs <= _MOST_NAMED:
            end = min(behind * size, stat.size)
            message = f"bytes {first * size} to {end - 1} do not match Hadoop's checksums in {checksum_key(stat.key)}"
            yield Finding(Severity.DAMAGE, "chunk-mismatch", message, stat.key, first * size, ref.ledger_id, ref.topic)
    if runs > _MOST_NAMED:
        message = f"{runs} places in all do not match Hadoop's checksums; the first {_MOST_NAMED} are listed"
        yield Finding(Severity.DAMAGE, "chunk-mismatch", message, stat.key, None, ref.ledger_id, ref.topic)


def _wrong_chunks(store: ObjectStore, stat: ObjectStat, checksums: ChunkChecksums) -> Iterator[int]:
    plan = (ReadRequest(stat.key, *part, stat.version, False) for part in cut_parts(0, stat.size, is_known=True))
    size = checksums.chunk_bytes
    with open_parts(store, plan) as parts:
        window = ObjectWindow(parts, stat.key, 0)
        while window.position < stat.size:
            is_filled = window.fill(max(size, _LOOKED_AT))
            whole = len(window.buffer) // size * size if is_filled else len(window.buffer)
            yield from checksums.wrong_chunks(window.buffer[:whole], window.position // size)
            window.consume(whole)


def _runs(chunks: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive numbers as (first, last + 1)."""
    first = behind = -1
    for chunk in chunks:
        if chunk != behind:
            if behind >= 0:
                yield first, behind
            first = chunk
        behind = chunk + 1
    if behind >= 0:
        yield first, behind

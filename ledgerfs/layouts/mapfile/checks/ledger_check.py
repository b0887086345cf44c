"""Every byte of one ledger: records, keys, checksums of entries, totals, and whether the index leads to what it names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import OnRead
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptIndexError,
    CorruptLedgerError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs.formats.ledger_metadata import LedgerState
from ledgerfs.formats.mapfile.blocks import SYNC_ESCAPE
from ledgerfs.formats.mapfile.first_record import METADATA_KEY
from ledgerfs.formats.mapfile.header import SYNC_BYTES, RecordCompression
from ledgerfs.formats.mapfile.index import MapFileIndex
from ledgerfs.layouts.checksum_findings import ChecksumFindings
from ledgerfs.layouts.mapfile.checks.chunk_check import check_chunks
from ledgerfs.layouts.mapfile.key_walk import START, KeyPlace, KeyStretch, walk_keys
from ledgerfs.layouts.mapfile.reader import MapFileReader
from ledgerfs.storage.objects import ReadRequest

if TYPE_CHECKING:
    from ledgerfs.layouts.mapfile.resync import Resync

_MARKER = len(SYNC_ESCAPE) + SYNC_BYTES


@dataclass(slots=True)
class MapFileCheck:
    """The check of one ledger: run it, then read what it found (`ledgerfs.catalog.layout.LedgerCheck`)."""

    ledger: MapFileReader
    on_bytes: OnRead
    entries: int = 0
    length: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    schema_versions: set[int] = field(default_factory=set)
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)
    _next: int = METADATA_KEY
    _at: int = 0
    _index: MapFileIndex | None = None

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    def run(self) -> "MapFileCheck":
        """Check everything; an object that cannot be read is a finding, a store that cannot be reached raises."""
        try:
            self._index = self._read_index()
            self._check_data()
            self._check_totals()
            self.findings += check_chunks(self.ledger.store, self.ref)
        except StoreUnreachableError:
            raise
        except ObjectNotFoundError as error:
            self._find(
                Severity.REMARK, "deleted-meanwhile", "the ledger was deleted since the bucket was listed", error
            )
        except StaleObjectError as error:
            self._find(Severity.REMARK, "replaced-meanwhile", error.reason, error)
        except LedgerfsError as error:
            self._find(severity_of(error), "unreadable-object", error.reason, error)
        return self

    def _read_index(self) -> MapFileIndex | None:
        """Return the index; None for one that cannot be used, which the catalog has told."""
        if not any(role == "index" for role, _ in self.ref.objects):
            return None
        try:
            return self.ledger.index()
        except (CorruptIndexError, UnsupportedFormatError):
            return None
        except AccessDeniedError as error:
            self._find(Severity.UNCHECKED, "unreadable-object", error.reason, error)
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
            self._find(Severity.DAMAGE, "damaged-records", message, resync.error)
        elif resync is not None:
            self._trailing(resync.error.reason, resync.error.offset)
        elif first > last + 1:
            self._trailing(f"entries up to {first - 1} are there", self._at)
        elif self._at < stat.size:
            self._trailing(f"the file has {stat.size - self._at} more bytes", self._at)
        self._count(stat.size)

    def _trailing(self, what: str, offset: int | None) -> None:
        message = f"{what}, after the last entry by the metadata, {self.ref.last_entry}, where Pulsar writes nothing"
        self._about(Severity.DAMAGE, "trailing-records", message, offset)

    def _walk(self, place: KeyPlace) -> Iterator[KeyStretch]:
        """Yield the stretches from a place on."""
        ledger, stat = self.ledger, self.ledger.data
        parts = cut_parts(place.position, stat.size, is_known=True)
        plan = (ReadRequest(stat.key, *part, stat.version, False) for part in parts)
        with open_parts(ledger.store, plan) as opened:
            window = ObjectWindow(opened, stat.key, place.position)
            yield from walk_keys(window, place, ledger.start.header, self.ref.last_entry, stat)

    def _lost(self, error: CorruptLedgerError, at: int, behind: int) -> None:
        """Tell what damage took, now that there are entries behind it, at the marker ``at``."""
        first = max(0, self._next)
        lost = f"entries {first} to {behind - 1} are lost" if first < behind else "no entry is lost"
        message = f"{error.reason}; {lost}, with the bytes {self._at} to {at - 1}"
        self._find(Severity.DAMAGE, "damaged-records", message, error)
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
        batch = stretch.batch
        if not len(batch):
            return
        self.entries += len(batch)
        self.length += int(batch.lengths.sum())
        if self.digest is not None:
            self.digest.update(batch.records())
        self.schema_versions |= self._checksums.named_versions(batch)
        for _, kind, message in self._checksums.check(batch):
            self._about(Severity.DAMAGE, kind, message)

    def _check_positions(self, stretch: KeyStretch) -> None:
        """Compare the index with where keys stand: each of its positions is that of its key's block, or record, with the marker before it.

        After the first that is wrong no more are compared.
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
        message = f"the index leads to byte {positions[wrong]} of the data for key {keys[wrong]}, which stands at {stands[wrong]}"
        key = self.ref.object("index").key
        self.findings.append(
            Finding(Severity.DAMAGE, "wrong-index", message, key, None, self.ref.ledger_id, self.ref.topic)
        )
        self._index = None

    def _check_totals(self) -> None:
        metadata = self.ledger.metadata()
        for severity, kind, message in self._checksums.summary(self.entries):
            self._about(severity, kind, message)
        is_complete = not any(finding.kind == "damaged-records" for finding in self.findings)
        if is_complete and self.length != metadata.length:
            message = f"the entries have {self.length} bytes, the metadata says {metadata.length}"
            self._about(Severity.DAMAGE, "wrong-length", message)
        if metadata.state != LedgerState.CLOSED:
            message = f"the ledger was offloaded in state {metadata.state}, not closed"
            self._about(Severity.REMARK, "not-closed", message)

    def _find(self, severity: Severity, kind: str, message: str, error: LedgerfsError) -> None:
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, error.key, error.offset, ref.ledger_id, ref.topic))

    def _about(self, severity: Severity, kind: str, message: str, offset: int | None = None) -> None:
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, ref.key, offset, ref.ledger_id, ref.topic))

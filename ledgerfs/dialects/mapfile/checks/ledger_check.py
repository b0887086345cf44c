"""Every byte of one ledger: records, keys, checksums of entries, totals, and whether the index leads to what it names."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.dialects.checksum_findings import ChecksumFindings
from ledgerfs.dialects.mapfile.key_walk import START, KeyStretch, walk_keys
from ledgerfs.dialects.mapfile.reader import MapFileReader
from ledgerfs.errors import (
    CorruptIndexError,
    CorruptLedgerError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs.formats.bookkeeper.ledger_metadata import LedgerState
from ledgerfs.formats.mapfile.first_record import METADATA_KEY
from ledgerfs.formats.mapfile.index import MapFileIndex
from ledgerfs.ledgers.catalog_findings import severity_of
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import OnRead
from ledgerfs.storage.objects import ReadRequest


@dataclass(slots=True)
class MapFileCheck:
    """The check of one ledger: run it, then read what it found (`ledgerfs.ledgers.dialect.LedgerCheck`)."""

    ledger: MapFileReader
    on_bytes: OnRead
    entries: int = 0
    length: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)
    _next: int = METADATA_KEY

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    def run(self) -> "MapFileCheck":
        """Check everything; an object that cannot be read is a finding, a store that cannot be reached raises."""
        try:
            self._check_data(self._index())
            self._check_totals()
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

    def _index(self) -> MapFileIndex | None:
        """Return the index; None for one that cannot be used, which the catalog has told."""
        if not any(role == "index" for role, _ in self.ref.objects):
            return None
        try:
            return self.ledger.index()
        except (CorruptIndexError, UnsupportedFormatError):
            return None

    def _check_data(self, index: MapFileIndex | None) -> None:
        stat, header = self.ledger.data, self.ledger.start.header
        plan = (ReadRequest(stat.key, *part, stat.version, False) for part in cut_parts(0, stat.size, is_known=True))
        with open_parts(self.ledger.store, plan) as parts:
            window = ObjectWindow(parts, stat.key, 0)
            at = header.size
            try:
                for stretch in walk_keys(window, START, header, self.ref.last_entry, stat):
                    self._count(stretch.behind.position)
                    self._check_entries(stretch)
                    index = self._check_positions(index, at, stretch, in_blocks=header.compression.value == "block")
                    at, self._next = stretch.behind.position, stretch.behind.key
            except CorruptLedgerError as error:
                message = f"{error.reason}; entries {max(0, self._next)} to {self.ref.last_entry} cannot be reached"
                self._find(Severity.DAMAGE, "damaged-records", message, error)
                return
        if self._next > self.ref.last_entry + 1 or at < stat.size:
            message = f"{stat.size - at} bytes or more stand after the last entry, which Pulsar never writes"
            self._about(Severity.DAMAGE, "trailing-records", message, at)
            self._count(stat.size)

    def _count(self, position: int) -> None:
        self.on_bytes(position - self.bytes)
        self.bytes = position

    def _check_entries(self, stretch: KeyStretch) -> None:
        batch = stretch.batch
        if not len(batch):
            return
        self.entries += len(batch)
        self.length += int(batch.lengths.sum())
        if self.digest is not None:
            framed = batch.framed()
            first, behind = int(framed.offsets[0]) - 12, int(framed.offsets[-1] + framed.lengths[-1])
            self.digest.update(framed.buffer[first:behind])
        for _, kind, message in self._checksums.check(batch):
            self._about(Severity.DAMAGE, kind, message)

    def _check_positions(
        self, index: MapFileIndex | None, at: int, stretch: KeyStretch, *, in_blocks: bool
    ) -> MapFileIndex | None:
        """Compare the index with where keys stand; return it, None once it was found to be wrong.

        Of what is not in blocks, positions inside of a stretch are looked at no further than that they are in the right one.
        """
        if index is None:
            return None
        end, first = stretch.behind.position, self._next
        keys, positions = index.keys, index.positions
        of_keys = (keys >= first) & (keys < stretch.behind.key)
        of_positions = (positions >= at) & (positions < end)
        is_right = np.array_equal(of_keys, of_positions) and not (in_blocks and (positions[of_positions] != at).any())
        if is_right:
            return index
        key = self.ref.object("index").key
        message = f"the index leads to another place than where keys {first} to {stretch.behind.key - 1} stand"
        self.findings.append(
            Finding(Severity.DAMAGE, "wrong-index", message, key, None, self.ref.ledger_id, self.ref.topic)
        )
        return None

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

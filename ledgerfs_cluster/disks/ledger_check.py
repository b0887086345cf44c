"""Every copy of every entry of one ledger on disks: digests, copies that differ, checksums of messages, totals."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.cluster_check import ClusterCheck
from ledgerfs_cluster.disks.entries import EntryReading, Read
from ledgerfs_cluster.disks.reader import DiskReader, differing
from ledgerfs_cluster.formats.bookkeeper.stored_entries import differing_copies

_NAMED = 20
"""Copies of one ledger that are named; of further ones the number is told."""


@dataclass(slots=True)
class DiskCheck(ClusterCheck):
    """The check of one ledger: run it, then read what it found (`ledgerfs.catalog.layout.LedgerCheck`)."""

    ledger: DiskReader
    _damaged: int = 0
    _differing: int = 0

    def run(self) -> "DiskCheck":
        """Check everything."""
        try:
            for batch in self.ledger.batches(0, self.ref.last_entry, self.lost):
                self.take(batch)
            self._check_copies()
            self.check_totals()
        except LedgerfsError as error:
            self.find(severity_of(error), "unreadable-object", error.reason, error.key, error.offset)
        return self

    def _check_copies(self) -> None:
        """Read all copies of all entries, those that nobody would read among them."""
        # What lies behind the end is looked at as well: it may be the end that was damaged.
        for reading, read in self.ledger.all_copies():
            size = int(read.copies.sizes.sum())
            self.bytes += size
            self.on_bytes(size)
            self._check_damaged(reading, read)
            self._check_differing(reading, read)
        for kind, count, what in (
            ("damaged-copy", self._damaged, "copies of entries are damaged"),
            ("conflicting-copies", self._differing, "entries have copies that differ, and whose digests fit"),
        ):
            if count > _NAMED:
                severity = Severity.DAMAGE if kind == "conflicting-copies" else Severity.REMARK
                self.find(severity, kind, f"{count:,} {what}, in all")

    def _check_damaged(self, reading: EntryReading, read: Read) -> None:
        """Name damaged copies; where all of an entry's are, it is lost, which is told of by itself."""
        for row in np.flatnonzero(read.checked.wrong != 0).tolist():
            self._damaged += 1
            if self._damaged <= _NAMED:
                path, offset = reading.place_of(read.copies, row)
                entry = int(read.copies.entries[row])
                beyond = ", which lies behind its end," if entry > self.ref.last_entry else ""
                message = f"a copy of entry {entry} of ledger {self.ref.ledger_id}{beyond} is damaged"
                self.find(Severity.REMARK, "damaged-copy", message, path, offset)

    def _check_differing(self, reading: EntryReading, read: Read) -> None:
        """Name entries with sound copies of different payloads, or of different lengths up to them."""
        for row in differing_copies(read.buffer, read.copies.entries, read.checked).tolist():
            self._differing += 1
            if self._differing <= _NAMED:
                path, offset = reading.place_of(read.copies, row)
                entry = int(read.copies.entries[row])
                message = differing(entry, self.ref.ledger_id)
                self.find(Severity.DAMAGE, "conflicting-copies", message, path, offset)

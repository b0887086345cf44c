"""Every copy of every entry of one ledger on disks: digests, copies that differ, checksums of messages, totals."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ledgerfs.dialects.bookie.reader import DiskReader, differing
from ledgerfs.dialects.checksum_findings import ChecksumFindings
from ledgerfs.disks.entries import EntryReading, Read
from ledgerfs.errors import CorruptLedgerError, LedgerfsError
from ledgerfs.formats.bookkeeper.differing_copies import differing_copies
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.catalog_findings import severity_of
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import OnRead

_NAMED = 20
"""Copies of one ledger that are named; of further ones the number is told."""


@dataclass(slots=True)
class DiskCheck:
    """The check of one ledger: run it, then read what it found (`ledgerfs.ledgers.dialect.LedgerCheck`)."""

    ledger: DiskReader
    on_bytes: OnRead
    entries: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    schema_versions: set[int] = field(default_factory=set)
    _length: int = 0
    _damaged: int = 0
    _differing: int = 0
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    def run(self) -> "DiskCheck":
        """Check everything."""
        try:
            for batch in self.ledger.batches(0, self.ref.last_entry, self._lost):
                self._take(batch)
            self._check_copies()
            self._check_totals()
        except LedgerfsError as error:
            self._find(severity_of(error), "unreadable-object", error.reason, error.key, error.offset)
        return self

    def _take(self, batch: EntryBatch) -> None:
        size = int(batch.lengths.sum())
        self.entries += len(batch)
        self._length += size
        if self.digest is not None:
            self.digest.update(batch.records())
        self.schema_versions |= self._checksums.named_versions(batch)
        for _, kind, message in self._checksums.check(batch):
            self._find(Severity.DAMAGE, kind, message)

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
                self._find(severity, kind, f"{count:,} {what}, in all")

    def _check_damaged(self, reading: EntryReading, read: Read) -> None:
        """Name damaged copies; where all of an entry's are, it is lost, which is told of by itself."""
        for row in np.flatnonzero(read.checked.wrong != 0).tolist():
            self._damaged += 1
            if self._damaged <= _NAMED:
                path, offset = reading.place_of(read.copies, row)
                entry = int(read.copies.entries[row])
                beyond = ", which lies behind its end," if entry > self.ref.last_entry else ""
                message = f"a copy of entry {entry} of ledger {self.ref.ledger_id}{beyond} is damaged"
                self._find(Severity.REMARK, "damaged-copy", message, path, offset)

    def _check_differing(self, reading: EntryReading, read: Read) -> None:
        """Name entries with sound copies of different payloads, or of different lengths up to them."""
        for row in differing_copies(read.buffer, read.copies.entries, read.checked).tolist():
            self._differing += 1
            if self._differing <= _NAMED:
                path, offset = reading.place_of(read.copies, row)
                entry = int(read.copies.entries[row])
                message = differing(entry, self.ref.ledger_id)
                self._find(Severity.DAMAGE, "conflicting-copies", message, path, offset)

    def _lost(self, first: int, last: int, error: CorruptLedgerError) -> None:
        which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
        self._find(Severity.DAMAGE, "damaged-records", f"{which} lost: {error.reason}", error.key, error.offset)

    def _check_totals(self) -> None:
        for severity, kind, message in self._checksums.summary(self.entries):
            self._find(severity, kind, message)
        is_whole = not any(finding.kind == "damaged-records" for finding in self.findings)
        if is_whole and self._length != self.ref.length:
            message = f"the entries have {self._length} bytes, the metadata says {self.ref.length}"
            self._find(Severity.DAMAGE, "wrong-length", message)

    def _find(
        self, severity: Severity, kind: str, message: str, key: str | None = None, offset: int | None = None
    ) -> None:
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, key or ref.key, offset, ref.ledger_id, ref.topic))

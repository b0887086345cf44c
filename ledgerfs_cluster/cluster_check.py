"""Check of the entries of a cluster's ledger, from any source: damage, checksums of messages, totals."""

from dataclasses import dataclass, field
from hashlib import blake2b

from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.checksum_findings import ChecksumFindings


@dataclass(slots=True)
class ClusterCheck:
    """The check of one ledger, common to all sources (`ledgerfs.catalog.layout.LedgerCheck`)."""

    ledger: LedgerReader
    on_bytes: OnRead
    entries: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    schema_versions: set[int] = field(default_factory=set)
    _length: int = 0
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    def take(self, batch: EntryBatch) -> None:
        """Check entries that were read."""
        self.entries += len(batch)
        self._length += int(batch.lengths.sum())
        if self.digest is not None:
            self.digest.update(batch.records())
        self.schema_versions |= self._checksums.named_versions(batch)
        for _, kind, message in self._checksums.check(batch):
            self.find(Severity.DAMAGE, kind, message)

    def lost(self, first: int, last: int, error: CorruptLedgerError) -> None:
        """Note entries that cannot be read."""
        which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
        self.find(Severity.DAMAGE, "damaged-records", f"{which} lost: {error.reason}", error.key, error.offset)

    def check_totals(self) -> None:
        """Compare the totals of all entries with the metadata."""
        for severity, kind, message in self._checksums.summary(self.entries):
            self.find(severity, kind, message)
        is_whole = not any(finding.kind == "damaged-records" for finding in self.findings)
        if is_whole and self._length != self.ref.length:
            message = f"the entries have {self._length} bytes, but the metadata has {self.ref.length}"
            self.find(Severity.DAMAGE, "wrong-length", message)

    def find(
        self, severity: Severity, kind: str, message: str, key: str | None = None, offset: int | None = None
    ) -> None:
        """Add a finding; without a key it is about the ledger's node."""
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, key or ref.key, offset, ref.ledger_id, ref.topic))

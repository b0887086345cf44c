"""Every entry of one ledger of a living cluster: digests, checksums of messages, totals."""

from dataclasses import dataclass, field
from hashlib import blake2b

from ledgerfs.dialects.checksum_findings import ChecksumFindings
from ledgerfs.dialects.live_cluster.reader import LiveReader
from ledgerfs.errors import (
    CorruptLedgerError,
    LedgerfsError,
    NotFoundError,
    StaleObjectError,
    StoreUnreachableError,
)
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.catalog_findings import severity_of
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import OnRead


@dataclass(slots=True)
class LiveCheck:
    """The check of one ledger: run it, then read what it found (`ledgerfs.ledgers.dialect.LedgerCheck`)."""

    ledger: LiveReader
    on_bytes: OnRead
    entries: int = 0
    length: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    schema_versions: set[int] = field(default_factory=set)
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    @property
    def bytes(self) -> int:
        """Bytes of the entries that were read."""
        return self.length

    def run(self) -> "LiveCheck":
        """Check everything; bookies that do not answer raise `StoreUnreachableError`."""
        try:
            for batch in self.ledger.batches_from_anywhere(0, self.ref.last_entry, self._lost, self._failed):
                self._take(batch)
            self._check_totals()
        except StoreUnreachableError:
            raise
        except StaleObjectError as error:
            self._find(Severity.REMARK, "deleted-meanwhile", error.reason)
        except NotFoundError as error:
            self._find(Severity.DAMAGE, "lost-ledger", error.reason)
        except LedgerfsError as error:
            self._find(severity_of(error), "unreadable-object", error.reason, error.offset)
        return self

    def _take(self, batch: EntryBatch) -> None:
        size = int(batch.lengths.sum())
        self.entries += len(batch)
        self.length += size
        self.on_bytes(size)
        if self.digest is not None:
            self.digest.update(batch.records())
        self.schema_versions |= self._checksums.named_versions(batch)
        for _, kind, message in self._checksums.check(batch):
            self._find(Severity.DAMAGE, kind, message)

    def _lost(self, first: int, last: int, error: CorruptLedgerError) -> None:
        which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
        self._find(Severity.DAMAGE, "damaged-records", f"{which} lost: {error.reason}", error.offset)

    def _failed(self, place: str, error: LedgerfsError) -> None:
        self._find(
            severity_of(error),
            "unreadable-copy",
            f"its copy in the {place} cannot be read: {error.reason}",
            error.offset,
        )

    def _check_totals(self) -> None:
        for severity, kind, message in self._checksums.summary(self.entries):
            self._find(severity, kind, message)
        is_whole = not any(finding.kind == "damaged-records" for finding in self.findings)
        if is_whole and self.length != self.ref.length:
            message = f"the entries have {self.length} bytes, the cluster's metadata says {self.ref.length}"
            self._find(Severity.DAMAGE, "wrong-length", message)

    def _find(self, severity: Severity, kind: str, message: str, offset: int | None = None) -> None:
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, ref.key, offset, ref.ledger_id, ref.topic))

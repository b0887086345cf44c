"""Check one ledger in full, the same way for all layouts: checksums and format of entries, totals, and unreadable objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, Self, TypeVar

import numpy as np

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, LedgerState
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.named_versions import versions_and_kafka

_NAMED = 20

_ENTRIES_LOST = frozenset({"missing-entries", "damaged-records"})

_Reader = TypeVar("_Reader", bound=LedgerReader)


class ChecksumFindings:
    """Checks the entries of one ledger, batch by batch; reports only the first 20 wrong ones singly."""

    __slots__ = ("_kafka", "_unchecked", "_wrong")

    def __init__(self) -> None:
        self._wrong = self._unchecked = self._kafka = 0

    def named_versions(self, batch: EntryBatch) -> set[int]:
        """Return the schema versions in the messages of a batch; the same walk counts the entries in Kafka's format."""
        versions, kafka = versions_and_kafka(batch)
        self._kafka += kafka
        return versions

    def check(self, batch: EntryBatch) -> Iterator[tuple[int, str, str]]:
        """Yield a wrong entry's row in the batch, the kind of the finding, and its message."""
        result = check_entries(batch)
        self._unchecked += int((result.states == EntryState.NO_CHECKSUM).sum())
        for i in np.flatnonzero(result.states >= EntryState.MISMATCH).tolist():
            self._wrong += 1
            if self._wrong > _NAMED:
                continue
            entry = batch.id_of(i)
            if result.states[i] == EntryState.MISMATCH:
                message = f"entry {entry}: CRC32C is {result.computed[i]:08x}, expected {result.stored[i]:08x}"
                yield i, "checksum-mismatch", message
            else:
                yield i, "broken-frame", f"entry {entry}: its frame is longer than the entry"

    def summary(self, entries: int) -> Iterator[tuple[Severity, str, str]]:
        """Yield severity, kind and message of the findings about all ``entries`` of the ledger together."""
        if self._wrong > _NAMED:
            message = f"{self._wrong} entries in all with a wrong checksum or frame"
            yield Severity.DAMAGE, "checksum-mismatch", message
        if 0 < self._unchecked < entries:
            message = f"{self._unchecked} of {entries} entries have no checksum, the others have one"
            yield Severity.REMARK, "no-checksum", message
        if self._kafka:
            message = (
                f"{self._kafka} of {entries} entries are in Kafka's format (entry.format=kafka, of Kafka on Pulsar): ledgerfs copies them, "
                "but does not read their messages"
            )
            yield Severity.REMARK, "kafka-entries", message


@dataclass(slots=True)
class ObjectLedgerCheck(Generic[_Reader]):
    """The check of one ledger in objects (`ledgerfs.catalog.layout.LedgerCheck`): call `run`, then read the attributes.

    Attributes
    ----------
    entries, length
        Entries found, and their bytes.
    bytes
        Bytes of the data object that were read.
    findings
        In the order of the object.
    digest
        Updated with all records, if set: copies with other block sizes have the same digest.
    schema_versions
        Schema versions that the messages reference.

    """

    ledger: _Reader
    on_bytes: OnRead
    entries: int = 0
    length: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: blake2b | None = None
    schema_versions: set[int] = field(default_factory=set)
    _checksums: ChecksumFindings = field(default_factory=ChecksumFindings)

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        return self.ledger.ref

    def run(self) -> Self:
        """Check everything. An unreadable object is a finding; raises `StoreUnreachableError`."""
        try:
            self._check()
        except StoreUnreachableError:
            raise
        except ObjectNotFoundError as error:
            self._missing(error)
        except StaleObjectError as error:
            self._find(Severity.REMARK, "replaced-meanwhile", error.reason, error.key, error.offset)
        except LedgerfsError as error:
            self._find(severity_of(error), "unreadable-object", error.reason, error.key, error.offset)
        return self

    def _check(self) -> None:
        """Check everything; raises the errors of reading."""
        raise NotImplementedError

    def _missing(self, error: ObjectNotFoundError) -> None:
        message = "the ledger was deleted since the bucket was listed"
        self._find(Severity.REMARK, "deleted-meanwhile", message, error.key)

    def _check_batch(self, batch: EntryBatch) -> Iterator[tuple[int, str, str]]:
        """Count entries, and yield wrong ones as `ChecksumFindings.check`."""
        self.entries += len(batch)
        self.length += int(batch.lengths.sum())
        if self.digest is not None:
            self.digest.update(batch.records())
        self.schema_versions |= self._checksums.named_versions(batch)
        yield from self._checksums.check(batch)

    def _check_totals(self, metadata: LedgerMetadata) -> None:
        for severity, kind, message in self._checksums.summary(self.entries):
            self._find(severity, kind, message)
        # Unreachable entries are findings already; no others can be missing.
        is_complete = not any(finding.kind in _ENTRIES_LOST for finding in self.findings)
        if is_complete and self.length != metadata.length:
            self._damage(
                "wrong-length",
                f"the entries have {self.length} bytes, but the metadata has the length {metadata.length}",
            )
        if metadata.state != LedgerState.CLOSED:
            self._find(Severity.REMARK, "not-closed", f"the ledger was offloaded in state {metadata.state}, not closed")

    def _damage(self, kind: str, message: str, offset: int | None = None, key: str | None = None) -> None:
        self._find(Severity.DAMAGE, kind, message, key, offset)

    def _find(
        self, severity: Severity, kind: str, message: str, key: str | None = None, offset: int | None = None
    ) -> None:
        ref = self.ref
        self.findings.append(Finding(severity, kind, message, key or ref.key, offset, ref.ledger_id, ref.topic))

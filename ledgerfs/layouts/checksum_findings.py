"""Findings about the checksums and the format of a ledger's entries, the same for every layout."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.findings import Severity
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.named_versions import versions_and_kafka

_NAMED = 20


class ChecksumFindings:
    """Checks the entries of one ledger, batch by batch; only the first 20 wrong ones are named."""

    __slots__ = ("_kafka", "_unchecked", "_wrong")

    def __init__(self) -> None:
        self._wrong = self._unchecked = self._kafka = 0

    def named_versions(self, batch: EntryBatch) -> set[int]:
        """Return the versions of schemas that the messages of a batch name; the same walk counts the entries in Kafka's format."""
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
                message = f"entry {entry}: CRC32C is {result.computed[i]:08x}, the entry says {result.stored[i]:08x}"
                yield i, "checksum-mismatch", message
            else:
                yield i, "broken-frame", f"entry {entry}: its frame claims more bytes than the entry has"

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
                "and does not read their messages"
            )
            yield Severity.REMARK, "kafka-entries", message

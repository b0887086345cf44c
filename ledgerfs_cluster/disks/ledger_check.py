"""Check every copy of every entry of one ledger on disks: digests, copies that differ, checksums of messages, totals."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.cluster_check import ClusterCheck
from ledgerfs_cluster.disks.reader import DiskReader, differing
from ledgerfs_cluster.formats.bookkeeper.stored_entries import differing_copies

_NAMED = 20
"""Most copies of one ledger that are reported singly; the others are counted."""

_SEVERITIES = {"damaged-copy": Severity.REMARK, "conflicting-copies": Severity.DAMAGE}
"""An entry whose copies are all damaged is lost, which is a separate finding."""

_COPIES = {
    "damaged-copy": "copies of entries are damaged",
    "conflicting-copies": "entries have copies that differ although their digests match",
}


@dataclass(slots=True)
class DiskCheck(ClusterCheck):
    """The check of one ledger: run it, then read its findings (`ledgerfs.catalog.layout.LedgerCheck`)."""

    ledger: DiskReader
    _found: Counter[str] = field(default_factory=Counter)

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
        """Read all copies of all entries, also those that no read would use."""
        # Also check entries after the end: the end itself may be damaged.
        for reading, read in self.ledger.all_copies():
            size = int(read.copies.sizes.sum())
            self.bytes += size
            self.on_bytes(size)
            for row in np.flatnonzero(read.checked.wrong != 0).tolist():
                entry = int(read.copies.entries[row])
                beyond = ", which is after its end," if entry > self.ref.last_entry else ""
                message = f"a copy of entry {entry} of ledger {self.ref.ledger_id}{beyond} is damaged"
                self._name("damaged-copy", message, reading.place_of(read.copies, row))
            for row in differing_copies(read.buffer, read.copies.entries, read.checked).tolist():
                message = differing(int(read.copies.entries[row]), self.ref.ledger_id)
                self._name("conflicting-copies", message, reading.place_of(read.copies, row))
        for kind, what in _COPIES.items():
            if self._found[kind] > _NAMED:
                self.find(_SEVERITIES[kind], kind, f"{self._found[kind]:,} {what} in total")

    def _name(self, kind: str, message: str, place: tuple[str, int]) -> None:
        """Add a finding about a copy, unless there are many."""
        self._found[kind] += 1
        if self._found[kind] <= _NAMED:
            self.find(_SEVERITIES[kind], kind, message, *place)

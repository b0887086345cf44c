"""A partition of a bucket for an independent read, perhaps on another machine: some kilobytes, complete except for the store."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic_slice import TopicSlice
from ledgerfs.catalog.catalog_rows import LEDGER, ref_of_row
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.ledger_times import LedgerTimes
from ledgerfs.formats.topic_names import topic_of

if TYPE_CHECKING:
    from ledgerfs.scan.part_reading import TopicPart


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive blocks of a topic, in one or several ledgers.

    Attributes
    ----------
    rows
        Rows of `LEDGER`: the run's ledgers, and some neighbours.
    position
        Position of the first row among the topic's ledgers.
    before, count
        Number of rows before the run's first ledger, and of its ledgers.
    first_cut, stop_cut
        The run's first block, in its first ledger, and the block behind its last one, in its last ledger; negative for the end.
    topic_size, last_ledger
        Number of the topic's ledgers in the listing, and the id of the last one.

    """

    managed_ledger: str | None
    places: tuple[str, ...]
    rows: bytes
    position: int
    before: int
    count: int
    first_cut: int
    stop_cut: int
    topic_size: int
    last_ledger: int

    @property
    def topic(self) -> str:
        """``persistent://tenant/namespace/topic``."""
        return topic_of(self.managed_ledger)

    @property
    def refs(self) -> list[LedgerRef]:
        """The run's ledgers."""
        return self._reported[self.before : self.before + self.count]

    @property
    def _reported(self) -> list[LedgerRef]:
        rows = np.frombuffer(self.rows, LEDGER)
        return [ref_of_row(row, self.managed_ledger, self.places[row["place"]]) for row in rows]

    def part(self, bucket: Bucket) -> "TopicPart":
        """Return the run's messages as a part of a scan."""
        # These import pyarrow and numba, which planning does not need.
        from ledgerfs.scan.part_reading import TopicPart
        from ledgerfs.scan.topic_entries import Place, Reach

        ledgers = TopicSlice(
            bucket, self.managed_ledger, self._reported, self.position, self.topic_size, self.last_ledger
        )
        first = self.position + self.before
        start, stop = Place(first, 0), Place(first + self.count, 0)
        if self.first_cut:
            start = Place(first, int(ledgers[first].cuts()[self.first_cut]))
        if self.stop_cut >= 0:
            last = first + self.count - 1
            stop = Place(last, int(ledgers[last].cuts()[self.stop_cut]))
        # The plan, which had all ledgers of the topic, has already pruned by time.
        limits = LedgerTimes.unknown(self.topic_size)
        skips_refused = bucket.on_unreadable == "skip"
        return TopicPart(self.topic, ledgers, reach=Reach(start, stop), skips_refused=skips_refused, limits=limits)


Reported = tuple[tuple[Any, ...], ...]
"""A partition as plain values, the fields of its runs: a hundred thousand of these pickle in a second."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A unit of reading: runs of one or several topics, in the order of the catalog."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, reported: Reported) -> "Partition":
        """Return the partition of a value of `PartitionPlan.reported`."""
        return cls(tuple(Run(*fields) for fields in reported))

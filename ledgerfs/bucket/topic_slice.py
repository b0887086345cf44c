"""A topic's ledgers for one partition: the ledgers that it reads and their neighbours are known, others are looked up.

A message may need more than its own ledger: earlier chunks, or the outcome of its transaction. These are nearly always in the neighbours;
otherwise the catalog returns the topic's other ledgers as of the split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import StaleObjectError


@dataclass(slots=True)
class TopicSlice(Sequence[LedgerReader]):
    """All ledgers of a topic by position; looks unknown ones up in the catalog.

    Attributes
    ----------
    position
        Position of the first one of ``refs`` in the topic.
    size
        Number of the topic's ledgers at the split.
    last_ledger
        Id of the last one of them.

    """

    bucket: Bucket
    managed_ledger: str | None
    refs: Sequence[LedgerRef]
    position: int
    size: int
    last_ledger: int
    _all: dict[int, LedgerRef] | None = field(default=None, init=False)
    _readers: dict[int, LedgerReader] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, number: int) -> LedgerReader: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[LedgerReader]: ...

    def __getitem__(self, number: int | slice) -> LedgerReader | Sequence[LedgerReader]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(self.size))]
        if not 0 <= number < self.size:
            raise IndexError(number)
        reader = self._readers.get(number)
        if reader is None:
            known = number - self.position
            ref = self.refs[known] if 0 <= known < len(self.refs) else self._further(number)
            reader = self._readers[number] = self.bucket.reader(ref)
        return reader

    def __iter__(self) -> Iterator[LedgerReader]:
        return (self[number] for number in range(self.size))

    def _further(self, number: int) -> LedgerRef:
        if self._all is None:
            self._all = self._look_up()
        try:
            return self._all[number]
        except KeyError:
            raise self._stale(f"ledger {number + 1} of {self.size}") from None

    def _look_up(self) -> dict[int, LedgerRef]:
        """Return the topic's ledgers by position, counted from the known ones, since old ledgers may have been deleted."""
        if not any(ref.ledger_id == self.last_ledger for ref in self._listed()):
            self.bucket.refresh()
        listed = list(self._listed())
        own = self.refs[0].ledger_id
        offset = next((row for row, ref in enumerate(listed) if ref.ledger_id == own), None)
        if offset is None:
            raise self._stale(f"ledger {own}")
        if offset > self.position or len(listed) - offset > self.size - self.position:
            # Positions would then lead to other ledgers.
            reason = "older ledgers were added to the bucket after the read was planned; plan the read again"
            raise StaleObjectError(reason, key=self.managed_ledger or "_unknown")
        return {row - offset + self.position: ref for row, ref in enumerate(listed)}

    def _listed(self) -> Iterator[LedgerRef]:
        found = self.bucket.catalog.refs_of(self.managed_ledger)
        return (ref for ref in found if ref.copy == 0 and ref.ledger_id <= self.last_ledger)

    def _stale(self, what: str) -> StaleObjectError:
        reason = f"{what} was removed from the bucket after the read was planned; plan the read again"
        return StaleObjectError(reason, key=self.managed_ledger or "_unknown")

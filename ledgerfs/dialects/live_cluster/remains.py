"""What a living cluster lists besides ledgers that can be read: ledgers without entries, and topics that have no others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ledgerfs.ledgers.remains import Unreadable


@dataclass(frozen=True, slots=True)
class LiveRemains:
    """Ledgers in which nothing can be read yet, or ever (`ledgerfs.ledgers.remains.Remains`).

    Attributes
    ----------
    empty
        Ids of listed ledgers without an entry that is confirmed.
    topics
        Rows of the names that have no other ledgers, or none at all.

    """

    empty: frozenset[int] = frozenset()
    topics: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.empty or self.topics)

    @property
    def is_lasting(self) -> bool:
        """True: who uses a listing of another time does without what came since."""
        return True

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "LiveRemains":
        """Return the same with other rows of names: ``new_row`` of each old one."""
        return replace(self, topics=frozenset(int(new_row[row]) for row in self.topics))

    def why_not(self, ledger_id: int) -> str | None:
        """Return that there is nothing to read in a ledger."""
        return "the ledger is there, and has no confirmed entry yet" if ledger_id in self.empty else None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield nothing."""
        return iter(())

    def ledger_ids(self) -> Iterator[int]:
        """Yield their ids."""
        return iter(self.empty)

    def counts(self) -> dict[str, int]:
        """Return how many there are."""
        return {"ledgers without entries": len(self.empty), "topics without entries": len(self.topics)}

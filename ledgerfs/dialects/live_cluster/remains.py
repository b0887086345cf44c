"""What a living cluster lists besides ledgers that can be read: ledgers without entries."""

from collections.abc import Iterator
from dataclasses import dataclass

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

    """

    empty: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self.empty

    @property
    def is_lasting(self) -> bool:
        """True: who uses a listing of another time does without what came since."""
        return True

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "LiveRemains":  # noqa: ARG002  (these have no names)
        """Return the same."""
        return self

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
        return {"ledgers without entries": len(self.empty)}

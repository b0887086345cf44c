"""What is on disks, or is named in their metadata, besides ledgers that can be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import LedgerfsError
from ledgerfs.ledgers.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.ledgers.remains import Unreadable


class Lacking(NamedTuple):
    """A ledger, or all of a topic, that cannot be read here, or not to its end.

    Attributes
    ----------
    name
        Row of the topic's name.
    ledger_id
        Its id; `UNKNOWN` where the topic's list itself cannot be read.
    kind
        Why, as reading the topic says it.
    error
        Why, in full.
    is_beside
        Whether what is there of it can be read, if the user wants that.

    """

    name: int
    ledger_id: int
    kind: GapKind
    error: LedgerfsError
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class DiskRemains:
    """What is no ledger that can be read (`ledgerfs.ledgers.remains.Remains`).

    Attributes
    ----------
    empty
        Ids of listed ledgers without an entry that counts.
    behind
        (id, newest entry) of those of them that have entries on the disks, which lie behind their end.
    topics
        Rows of the names that have no other ledgers.
    lacking
        Ledgers and topics that lack something; reading their topics is an error.
    notes
        {kind in words for users: how many}, of what is on the disks and is no topic's.
    troubles
        Logs, journals and cookies that are not what they should be.

    """

    empty: frozenset[int] = frozenset()
    behind: tuple[tuple[int, int], ...] = ()
    topics: frozenset[int] = frozenset()
    lacking: tuple[Lacking, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
    troubles: tuple[LedgerfsError, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.empty or self.topics or self.lacking or self.troubles or any(self.notes.values()))

    @property
    def is_lasting(self) -> bool:
        """False: the disks are listed each time."""
        return False

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "DiskRemains":
        """Return the same with other rows of names: ``new_row`` of each old one."""
        lacking = tuple(
            one if one.name == UNKNOWN else one._replace(name=int(new_row[one.name])) for one in self.lacking
        )
        return replace(self, topics=frozenset(int(new_row[row]) for row in self.topics), lacking=lacking)

    def why_not(self, ledger_id: int) -> str | None:
        """Return that there is nothing to read in a ledger; raises why one cannot be read."""
        for one in self.lacking:
            if one.ledger_id == ledger_id:
                raise one.error
        return "the ledger is there, and has no entry that counts" if ledger_id in self.empty else None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the ledgers that cannot be read at all; they have no uuid."""
        return (
            Unreadable(one.ledger_id, "", one.error.key or "", one.error) for one in self.lacking if not one.is_beside
        )

    def ledger_ids(self) -> Iterator[int]:
        """Yield their ids."""
        yield from self.empty
        yield from (one.ledger_id for one in self.lacking if one.ledger_id != UNKNOWN)

    def counts(self) -> dict[str, int]:
        """Return how many there are."""
        return {
            "ledgers without entries": len(self.empty),
            "topics without entries": len(self.topics),
            "ledgers that cannot be read, or not to their end": len(self.lacking),
            "files that are not what they should be": len(self.troubles),
            **self.notes,
        }

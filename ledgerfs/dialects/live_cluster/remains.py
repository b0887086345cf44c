"""What a living cluster lists besides ledgers that can be read: empty ones, those of which too little is known, topics without any."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import LedgerfsError
from ledgerfs.ledgers.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.ledgers.remains import Unreadable


class Unknown(NamedTuple):
    """A ledger, or all of a topic, of which the cluster does not tell enough to be read.

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

    """

    name: int
    ledger_id: int
    kind: GapKind
    error: LedgerfsError


@dataclass(frozen=True, slots=True)
class LiveRemains:
    """Ledgers in which nothing can be read yet, or ever (`ledgerfs.ledgers.remains.Remains`).

    Attributes
    ----------
    empty
        Ids of listed ledgers without an entry that is confirmed.
    topics
        Rows of the names that have no other ledgers, or none at all.
    transaction_logs
        How many managed ledgers are logs about transactions, whose entries are no messages.
    unknown
        Ledgers and topics of which too little could be learned; reading their topics is an error.

    """

    empty: frozenset[int] = frozenset()
    topics: frozenset[int] = frozenset()
    transaction_logs: int = 0
    unknown: tuple[Unknown, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.empty or self.topics or self.unknown)

    @property
    def is_lasting(self) -> bool:
        """Whether all is known: who uses a listing of another time does without what came since, but bookies may be back soon."""
        return not self.unknown

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "LiveRemains":
        """Return the same with other rows of names: ``new_row`` of each old one."""
        unknown = tuple(one._replace(name=int(new_row[one.name])) for one in self.unknown)
        return replace(self, topics=frozenset(int(new_row[row]) for row in self.topics), unknown=unknown)

    def why_not(self, ledger_id: int) -> str | None:
        """Return that there is nothing to read in a ledger; raises why one cannot be read."""
        for one in self.unknown:
            if one.ledger_id == ledger_id:
                raise one.error
        return "the ledger is there, and has no confirmed entry yet" if ledger_id in self.empty else None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the ledgers of which too little is known; they have no uuid."""
        return (Unreadable(one.ledger_id, "", one.error.key or "", one.error) for one in self.unknown)

    def ledger_ids(self) -> Iterator[int]:
        """Yield their ids."""
        yield from self.empty
        yield from (one.ledger_id for one in self.unknown if one.ledger_id != UNKNOWN)

    def counts(self) -> dict[str, int]:
        """Return how many there are."""
        return {
            "ledgers without entries": len(self.empty),
            "topics without entries": len(self.topics),
            "ledgers of which too little is known": len(self.unknown),
            "logs of transactions, which are no topics": self.transaction_logs,
        }

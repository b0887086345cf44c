"""The look at a cluster right before ledgers that nothing names are deleted: one for all of them, since each reads all that may name any.

It holds for the deletions that follow it. These check what they can by themselves, such as the version of the ledger's node.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.clusters.orphans import unnamed_ledgers
from ledgerfs.clusters.surveying import look_again
from ledgerfs.errors import LedgerfsError, StoppedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ledgerfs.clusters.answers import BookieReads
    from ledgerfs.clusters.tables import Table
    from ledgerfs.lifecycle.acting.turn import Turn
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

_HOLDS_S = 30.0


class OrphanLook:
    """Looks once, and again once that is too long ago: after 30 s, or as long as the look itself took. For one thread.

    Parameters
    ----------
    turn
        Ends a look with the service.
    clock
        Seconds that only grow.

    """

    __slots__ = ("_bookies", "_clock", "_cluster", "_error", "_free", "_listed", "_seen", "_turn", "_until_s")

    def __init__(
        self,
        cluster: "LivingCluster",
        bookies: "BookieReads | None",
        turn: "Turn",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._bookies = bookies
        self._turn = turn
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Have the next question look anew, also if the last look failed: for another plan."""
        self._seen: frozenset[int] = frozenset()
        self._free: frozenset[int] = frozenset()
        self._listed: Table | None = None
        self._error: LedgerfsError | None = None
        self._until_s = 0.0

    def free_of(self, wanted: "Iterable[int]", due: "Iterable[int]", now_ms: int) -> frozenset[int]:
        """Return which of ``wanted`` nothing names, nor may name; whoever has to look looks at all that are ``due`` with them.

        Raises `StoppedError`, and as `look_again`, once a plan: what cannot be looked at for one topic cannot be for the next one either.
        """
        ids = frozenset(wanted)
        if self._error is not None:
            raise self._error
        if not ids <= self._seen or self._clock() >= self._until_s:
            self._look(ids | frozenset(due), now_ms)
        return self._free & ids

    def names_offload(self, ledger_id: int, uuid: str, due: "Iterable[int]", now_ms: int) -> bool:
        """Whether the list of any topic names an offload, complete or not: one may have been restored under another name; as `free_of`."""
        if self._error is not None:
            raise self._error
        if self._listed is None or self._clock() >= self._until_s:
            self._look(frozenset(due), now_ms)
        digits, listed = uuid.replace("-", ""), self._listed
        high, low = int(digits[:16], 16), int(digits[16:], 16)
        return listed is not None and bool(
            (
                (listed["ledger_id"] == ledger_id)
                & (listed["uuid_high"] == np.uint64(high))
                & (listed["uuid_low"] == np.uint64(low))
            ).any()
        )

    def _look(self, ids: frozenset[int], now_ms: int) -> None:
        began_s = self._clock()
        try:
            found = look_again(
                self._cluster,
                np.array(sorted(ids), np.int64),
                self._bookies,
                lambda *_: self._turn.require_going(),
                skips_denied=True,
            )
        except StoppedError:
            raise
        except LedgerfsError as error:
            self._error = error
            raise
        self._listed = found.listed[found.listed["has_context"]]
        self._free = frozenset(unnamed_ledgers(found, now_ms, 0).rows["ledger_id"].tolist())
        self._seen, ended_s = ids, self._clock()
        self._until_s = ended_s + max(_HOLDS_S, ended_s - began_s)

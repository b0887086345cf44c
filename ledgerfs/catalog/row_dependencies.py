"""Validity of stored rows (materialized files, exports): the other ledgers that they depend on, and whether these have changed.

A ledger may arrive late, between or before others. Then rows of other ledgers may change: rows joined from parts in several ledgers, rows
with missing parts, and rows of a transaction without an outcome. It may also show that ids are not in the order of time, so that a ledger
that was pruned because of other ledgers has rows in the range of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.formats.array_types import Int64

_FIRST, _LAST = 0, 2**63 - 1
_ANY = _LAST - 1
"""The end of a range of all ledgers that add no rows themselves, but may show that others have rows in a range of time."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The other ledgers that the rows of some ledgers depend on.

    Attributes
    ----------
    first, last
        Range of ledger ids (inclusive): any ledger in it that is added, removed or replaced may change the rows. None without such a
        range.
    sources
        Ids of the other ledgers that the rows were made from, ascending: without these, the rows cannot be made again.

    """

    first: int | None = None
    last: int | None = None
    sources: tuple[int, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether later uploads, of ledgers before or after, cannot change the rows."""
        return self.first is None

    @property
    def is_open_ended(self) -> bool:
        """Whether ledgers after the last one may add rows."""
        return self.last == _LAST

    def latest(self, ids: Int64, since: Int64) -> int:
        """Return the greatest number in ``since`` of those ledgers of ``ids`` (ascending) that rows depend on; -1 without any."""
        latest = -1
        if self.sources:
            places = np.searchsorted(ids, self.sources)
            latest = max(
                (int(since[at]) for at in places[places < ids.size] if int(ids[at]) in self.sources), default=-1
            )
        if self.first is None or self.last is None:
            return latest
        low, high = np.searchsorted(ids, self.first, "left"), np.searchsorted(ids, self.last, "right")
        return int(since[low:high].max(initial=latest))

    @classmethod
    def of(cls, ids: tuple[int, int, int], found: "Unsettled", sources: Iterable[int]) -> "Basis":
        """Return the basis of the rows of some ledgers; ``ids`` are the previous, the first and the last ledger."""
        before, first, last = ids
        ranges = []
        if found.open_transactions:
            ranges.append((before, _LAST))
        if found.incomplete:
            ranges.append((_FIRST, _LAST if found.awaits_parts else last))
        if found.joined_since is not None:
            ranges.append((min(found.joined_since, first), last))
        if found.reported_across is not None:
            ranges.append(found.reported_across)
        if found.left_out_by_others:
            ranges.append((_FIRST, _ANY))
        if not ranges:
            return cls(sources=tuple(sources))
        return cls(min(first for first, _ in ranges), max(last for _, last in ranges), tuple(sources))

    @property
    def is_by_times(self) -> bool:
        """Whether rows depend on all ledgers, but only for pruning by time."""
        return self.last == _ANY

    @classmethod
    def unknown(cls) -> "Basis":
        """Return the basis of rows that any ledger may change."""
        return cls(_FIRST, _LAST)

    @classmethod
    def parse(cls, reported: Any) -> "Basis":  # noqa: ANN401  (JSON)
        """Return the basis for its fields in JSON; raises ``ValueError`` or ``TypeError`` for anything else."""
        first, last, sources = reported
        if first is None or last is None:
            return cls(sources=tuple(map(int, sources)))
        return cls(int(first), int(last), tuple(map(int, sources)))


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Findings of a read that later ledgers may change.

    Attributes
    ----------
    open_transactions
        Whether a message belonged to a transaction without a marker after it.
    incomplete
        Whether a chunked message lacked parts, or a part belonged to a message that had ended before the read began.
    awaits_parts
        Whether a chunked message lacked further parts at the end of the topic.
    joined_since
        The first ledger of a message that was joined from several; None without one.
    told_across
        If outcomes came from markers in other ledgers: the range of ids for other markers of these transactions.
    left_out_by_others
        Whether a ledger was pruned from a range of time because of other ledgers (`ledgerfs.catalog.ledger_times`).

    """

    open_transactions: bool = False
    incomplete: bool = False
    awaits_parts: bool = False
    joined_since: int | None = None
    reported_across: tuple[int, int] | None = None
    left_out_by_others: bool = False


def state_of(refs: Iterable[LedgerRef]) -> bytes:
    """Return a digest that changes if a ledger of a topic is added, removed or replaced."""
    found = sorted((ref.ledger_id, ref.version) for ref in refs)
    return sha256(repr(found).encode(errors="surrogateescape")).digest()

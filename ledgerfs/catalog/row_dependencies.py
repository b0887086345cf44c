"""How long rows are valid: the ledgers of a topic that they depend on besides their own, and whether these are still the same.

A ledger may come late: not only after the others, but between or before them. It changes rows of other ledgers that were joined from parts
in several ledgers, lacked parts, or belonged to a transaction without an outcome; and it may show that ids are not in the order of time, so
that a ledger that was left out of a range of time because of the others has rows of it. Everything that is made of rows and kept (views,
exports) follows the rule of this module.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from ledgerfs.catalog.ledger_ref import LedgerRef

_DIGEST_BYTES = 16
_FIRST, _LAST = 0, 2**63 - 1


@dataclass(frozen=True, slots=True)
class Basis:
    """The ledgers that rows depend on besides those that they are in.

    Attributes
    ----------
    first, last
        Ids of ledgers, both ends included: any ledger between them that is added, removed or replaced may change the rows. None without
        such a range.
    sources
        Ids of the ledgers besides their own that the rows were made from, ascending: without these, they could not be made again.

    """

    first: int | None = None
    last: int | None = None
    sources: tuple[int, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether no ledger that is uploaded later, before or after, can change the rows."""
        return self.first is None

    @property
    def is_open_ended(self) -> bool:
        """Whether ledgers after all that there are may add rows to these."""
        return self.last == _LAST

    @classmethod
    def of(cls, ids: tuple[int, int, int], found: "Unsettled", sources: Iterable[int]) -> "Basis":
        """Return the basis of the rows of some ledgers, given the ids of the ledger before them, the first, and the last."""
        before, first, last = ids
        ranges = []
        if found.open_transactions:
            ranges.append((before, _LAST))
        if found.incomplete:
            ranges.append((_FIRST, _LAST if found.awaits_parts else last))
        if found.joined_since is not None:
            ranges.append((min(found.joined_since, first), last))
        if found.told_across is not None:
            ranges.append(found.told_across)
        if found.left_out_by_others:
            ranges.append((_FIRST, _LAST))
        if not ranges:
            return cls(sources=tuple(sources))
        return cls(min(first for first, _ in ranges), max(last for _, last in ranges), tuple(sources))

    @classmethod
    def unknown(cls) -> "Basis":
        """Return the basis of rows that any ledger may change."""
        return cls(_FIRST, _LAST)

    @classmethod
    def parse(cls, told: Any) -> "Basis":  # noqa: ANN401  (JSON)
        """Return the basis of its fields as JSON; raises ``ValueError`` or ``TypeError`` for anything else."""
        first, last, sources = told
        if first is None or last is None:
            return cls(sources=tuple(map(int, sources)))
        return cls(int(first), int(last), tuple(map(int, sources)))


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What reading found that later ledgers may change.

    Attributes
    ----------
    open_transactions
        Whether a message belonged to a transaction without a marker after it.
    incomplete
        Whether a chunked message lacked parts, or a part was of a message that had ended before reading began.
    awaits_parts
        Whether a chunked message waited for more parts at the end of the topic.
    joined_since
        The first of the ledgers that a message was joined from; None if none was joined from several.
    told_across
        If outcomes came from markers in other ledgers: the ids between which other markers of these transactions could come.
    left_out_by_others
        Whether a ledger was left out of a range of time because of other ledgers (`ledgerfs.catalog.ledger_times`).

    """

    open_transactions: bool = False
    incomplete: bool = False
    awaits_parts: bool = False
    joined_since: int | None = None
    told_across: tuple[int, int] | None = None
    left_out_by_others: bool = False


class TopicState:
    """The current ledgers of a topic: for any range of ids a short text that changes with each of them.

    Its digests are sums of those of the ledgers, so that many ranges of a topic with many ledgers cost little.
    """

    def __init__(self, refs: Iterable[LedgerRef]) -> None:
        ordered = sorted(refs, key=lambda ref: ref.ledger_id)
        self.ids = [ref.ledger_id for ref in ordered]
        self._refs = ordered

    def of(self, basis: Basis) -> str:
        """Return the state of the ledgers that rows depend on; empty without any."""
        if basis.first is None or basis.last is None:
            return ""
        low, high = bisect_left(self.ids, basis.first), bisect_right(self.ids, basis.last)
        total = (self._sums[high] - self._sums[low]) % (1 << 8 * _DIGEST_BYTES)
        return f"{total:0{2 * _DIGEST_BYTES}x}"

    @property
    def whole(self) -> str:
        """The state of all ledgers."""
        return self.of(Basis.unknown())

    @cached_property
    def present(self) -> Container[int]:
        """The ids of the ledgers."""
        return frozenset(self.ids)

    def holds(self, basis: Basis, state: str) -> bool:
        """Whether rows that were made in this state are still valid."""
        return basis.is_final or self.of(basis) == state

    def can_remake(self, basis: Basis) -> bool:
        """Whether all ledgers that rows were made from still exist, so that making them again loses no row."""
        return all(source in self.present for source in basis.sources)

    @cached_property
    def _sums(self) -> list[int]:
        digests = (
            int.from_bytes(blake2b(f"{ref.ledger_id} {ref.version}".encode(), digest_size=_DIGEST_BYTES).digest())
            for ref in self._refs
        )
        return list(accumulate(digests, initial=0))

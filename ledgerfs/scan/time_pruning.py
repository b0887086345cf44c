"""Find the entries of a topic that can be in a range of time, without reading the others.

Whole ledgers are pruned by their times in the catalog (`ledgerfs.catalog.ledger_times`): all before the first that may have messages of
the range, and all after the last. In these two, blocks are pruned: a ledger that a broker wrote is nearly ordered by time, so the publish
time of a block's first entry, which costs one small read, limits those before and after it. Such reads bisect the blocks until the rest is
not worth another one. An imported ledger may have any order, and is read whole. Reading too much is never wrong, since rows are filtered;
uncertain times (damage, other clusters) prune nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from ledgerfs.catalog.ledger_times import LedgerTimes, TimeRange
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError, NotFoundError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.entry_fields import first_local_time
from ledgerfs.scan.topic_entries import Place, Reach

_GLANCE = 4096
"""Bytes of the first read at a block: almost always all metadata of its first entry, and often all of the entry."""

_WORTH_A_GLANCE = 2 << 20
"""Bytes that take about as long to read as the store needs to answer a request."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning.

    Attributes
    ----------
    reach
        The entries that can be in the range of time.
    is_by_others
        Whether a ledger was pruned because of other ledgers' times: any ledger that is uploaded later may change that.

    """

    reach: Reach
    is_by_others: bool = False


@dataclass(frozen=True, slots=True)
class TimePruning:
    """Prunes ledgers by a range of time.

    Attributes
    ----------
    ledgers
        All ledgers of the topic.
    part
        The entries to prune.
    limits
        Limits of the publish times of all ledgers; None to find them from the ledgers.
    check_checksums
        Whether a publish time is only valid if its entry's CRC32C is right.

    """

    ledgers: Sequence[LedgerReader]
    part: Reach
    times: TimeRange
    limits: LedgerTimes | None = None
    check_checksums: bool = True

    def pruned(self) -> Pruned:
        """Return a reach with all entries of the part that can be in the range."""
        wanted = self.part.ledgers
        if not self.times.has_limits or not wanted:
            return Pruned(self.part)
        limits = self.limits or LedgerTimes.of_refs(ledger.ref for ledger in self.ledgers)
        found = np.flatnonzero(limits.may_have(self.times)[wanted.start : wanted.stop]) + wanted.start
        by_others = np.flatnonzero(limits.are_left_out_by_others(self.times)[wanted.start : wanted.stop]) + wanted.start
        if not found.size:
            return Pruned(Reach(self.part.start, self.part.start), bool(by_others.size))
        ledgers = range(int(found[0]), int(found[-1]) + 1)
        start, stop = self._start(ledgers, limits), self._stop(ledgers, limits)
        is_by_others = (
            bool(np.any((by_others < ledgers.start) | (by_others >= ledgers.stop)))
            # The deciding block is in another ledger of these, before or after the whole ones that it prunes.
            or start.number > ledgers.start
            or stop.number < ledgers[-1]
        )
        start, stop = max(self.part.start, start), min(self.part.stop, stop)
        return Pruned(Reach(start, max(start, stop)), is_by_others)

    def _start(self, ledgers: range, limits: LedgerTimes) -> Place:
        """Return the place of a block in the first ledgers before which no entry is in the range."""
        first, high = ledgers.start, ledgers.start + 1
        if self.times.start_ms is None or not self.ledgers[first].ref.is_ordered:
            return Place(first, 0)
        # Later ledgers of unknown creation time are searched together with it.
        while (
            high in ledgers and limits.is_in_order[high - 1] and limits.is_in_order[high] and not limits.is_known[high]
        ):
            high += 1
        blocks = _Blocks(self.ledgers, range(first, high), self.check_checksums)
        found = blocks.halve(self.part, lambda block: blocks.reports(block, self.times.is_behind))
        return blocks.place(found[0])

    def _stop(self, ledgers: range, limits: LedgerTimes) -> Place:
        """Return the place of a block in the last ledgers from which on no entry is in the range."""
        low, last = ledgers.stop - 1, ledgers.stop - 1
        if self.times.end_ms is None or not self.ledgers[last].ref.is_ordered:
            return Place(ledgers.stop, 0)
        while (
            low - 1 in ledgers and limits.is_in_order[low - 1] and limits.is_in_order[low] and not limits.is_known[low]
        ):
            low -= 1
        blocks = _Blocks(self.ledgers, range(low, ledgers.stop), self.check_checksums)
        found = blocks.halve(self.part, lambda block: not blocks.reports(block, self.times.is_before))
        return blocks.place(found[1])


@dataclass(slots=True)
class _Blocks:
    """The blocks of some ledgers, numbered across them, and the publish times at which they begin."""

    ledgers: Sequence[LedgerReader]
    numbers: range
    check_checksums: bool
    _starts: list[int] = field(init=False)
    _worth: int = field(init=False)

    def __post_init__(self) -> None:
        refs = [self.ledgers[number].ref for number in self.numbers]
        self._starts = list(accumulate((ref.cuts for ref in refs), initial=0))
        size = sum(ref.stored for ref in refs) // max(1, self._starts[-1])
        self._worth = max(2, _WORTH_A_GLANCE // max(1, size))

    def place(self, block: int) -> Place:
        """Return where a block begins; after the last one, where the next ledger begins."""
        if block == self._starts[-1]:
            return Place(self.numbers.stop, 0)
        row = bisect_right(self._starts, block) - 1
        number = self.numbers[row]
        return Place(number, int(self.ledgers[number].cuts()[block - self._starts[row]]))

    def halve(self, part: Reach, is_below: Callable[[int], bool]) -> tuple[int, int]:
        """Bisect a part: return two blocks, close enough for no further read, or an end; ``is_below`` the first, and not the second."""
        low, high = self._first_from(part.start), self._first_from(part.stop)
        while high - low >= self._worth:
            middle = (low + high) // 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low, high

    def _first_from(self, place: Place) -> int:
        """Return the first block that does not begin before a place; 0, or the number of blocks, if that is outside these ledgers."""
        if place.number not in self.numbers:
            return 0 if place.number < self.numbers.start else self._starts[-1]
        start = self._starts[place.number - self.numbers.start]
        if not place.entry:
            return start
        return start + int(np.searchsorted(self.ledgers[place.number].cuts(), place.entry))

    def reports(self, block: int, is_cut: Callable[[int], bool]) -> bool:
        """Whether the time at which a block begins is known and fulfils ``is_cut``."""
        row = bisect_right(self._starts, block) - 1
        ledger, number = self.ledgers[self.numbers[row]], block - self._starts[row]
        try:
            look = _look(ledger, number, _GLANCE, check_checksums=self.check_checksums)
            if not look.is_whole and (look.time_ms is None or is_cut(look.time_ms)):
                # A damaged time must not hide a block: before it prunes, the whole entry has to be read, and valid.
                look = _look(ledger, number, look.size, check_checksums=self.check_checksums)
        except (CorruptLedgerError, NotFoundError):
            # Reading the entry later reports the error.
            return False
        return look.is_whole and look.time_ms is not None and is_cut(look.time_ms)


@dataclass(frozen=True, slots=True)
class _Look:
    """The first bytes of a block's first entry: its publish time if known, its size, and whether all of it was read."""

    time_ms: int | None
    size: int
    is_whole: bool


def _look(ledger: LedgerReader, block: int, size: int, *, check_checksums: bool) -> _Look:
    first = int(ledger.cuts()[block])
    glance = ledger.glance(first, size)
    is_whole = len(glance.front) == glance.size
    # The metadata precedes the payload, so the first bytes of an entry have its time; its checksum needs all of them.
    batch = EntryBatch(first, glance.front, np.array([0]), np.array([len(glance.front)]))
    options = DecodeOptions(include_markers=True, check_checksums=check_checksums and is_whole, on_corrupt="skip")
    entries, sound = TopicDecoder("", options).walk(batch, ledger.ref.ledger_id)
    time = first_local_time(entries) if sound[0] else None
    return _Look(time, glance.size, is_whole)

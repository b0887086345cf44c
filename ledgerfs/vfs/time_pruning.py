"""Which entries of a topic can be in a range of time, told without reading those that cannot.

A topic is nearly ordered by time: what comes later was published later, but for clocks that differ. So a time known at one place says
something of all before and behind it. Two kinds are known: when a ledger was created, from the catalog, and when the first entry of a
block was published, for one small read. Blocks are halved with such reads until the rest is not worth another. Reading more than
necessary is never wrong, since rows are filtered; what is not known for sure (damage, other clusters' times) cuts nothing off.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.block import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records
from ledgerfs.messages.decode import DecodeOptions, TopicDecoder
from ledgerfs.vfs.entry_fields import first_local_time
from ledgerfs.vfs.layout import LedgerReader
from ledgerfs.vfs.moments import CLOCK_SLACK_MS
from ledgerfs.vfs.topic_entries import Place, Reach

_GLANCE = 4096
"""Bytes of a first look at a block; nearly always the first entry's metadata, if not all of it."""

_WORTH_A_GLANCE = 2 << 20
"""Bytes that take about as long to read as a request takes to be answered."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Publish times from ``start_ms`` on and before ``end_ms``, ms since 1970 UTC, None for no limit; and how far clocks may be off."""

    start_ms: int | None
    end_ms: int | None
    slack_ms: int = CLOCK_SLACK_MS

    def misses_all_before(self, time_ms: int) -> bool:
        """Whether everything before a place of this time was published before the range."""
        return self.start_ms is not None and time_ms + self.slack_ms < self.start_ms

    def misses_all_behind(self, time_ms: int) -> bool:
        """Whether everything from a place of this time on was published behind the range."""
        return self.end_ms is not None and time_ms - self.slack_ms >= self.end_ms


@dataclass(frozen=True, slots=True)
class TimePruning:
    """Cuts ledgers to a range of time.

    Attributes
    ----------
    part
        The entries that are wanted at all.
    check_checksums
        Whether a publish time is trusted only if its entry's CRC32C is right.

    """

    ledgers: Sequence[LedgerReader]
    part: Reach
    times: TimeRange
    check_checksums: bool = True

    def reach(self) -> Reach:
        """Return where all entries stand that can be in the range."""
        start = max(self.part.start, self._start())
        stop = min(self.part.stop, self._stop())
        return Reach(start, max(start, stop))

    def _start(self) -> Place:
        if self.times.start_ms is None:
            return self.part.start
        created, wanted = self._created(), self.part.ledgers
        low = max((n for n, time in created.items() if self.times.misses_all_before(time)), default=wanted.start)
        high = min((n for n in created if n > low), default=wanted.stop)
        blocks = _Blocks(self.ledgers, range(low, high), self.check_checksums)
        found = blocks.halve(self.part, lambda block: blocks.tells(block, self.times.misses_all_before))
        return blocks.place(found[0])

    def _stop(self) -> Place:
        if self.times.end_ms is None:
            return self.part.stop
        created, wanted = self._created(), self.part.ledgers
        high = min((n for n, time in created.items() if self.times.misses_all_behind(time)), default=wanted.stop)
        low = max((n for n in created if n < high), default=wanted.start)
        blocks = _Blocks(self.ledgers, range(low, high), self.check_checksums)
        found = blocks.halve(self.part, lambda block: not blocks.tells(block, self.times.misses_all_behind))
        return blocks.place(found[1])

    def _created(self) -> dict[int, int]:
        """Return the ledgers of the part, and the next one, whose creation is known; only an old or odd index does not tell it."""
        wanted = self.part.ledgers
        numbers = range(wanted.start, min(wanted.stop + 1, len(self.ledgers)))
        times = ((number, self.ledgers[number].ref.created_ms) for number in numbers)
        return {number: time for number, time in times if time is not None}


@dataclass(slots=True)
class _Blocks:
    """The blocks of some ledgers, numbered through, and the times at which they begin."""

    ledgers: Sequence[LedgerReader]
    numbers: range
    check_checksums: bool
    _starts: list[int] = field(init=False)
    _worth: int = field(init=False)

    def __post_init__(self) -> None:
        refs = [self.ledgers[number].ref for number in self.numbers]
        self._starts = list(accumulate((ref.blocks for ref in refs), initial=0))
        size = sum(ref.data.size for ref in refs) // max(1, self._starts[-1])
        self._worth = max(2, _WORTH_A_GLANCE // max(1, size))

    def place(self, block: int) -> Place:
        """Return where a block begins; behind the last one, where the next ledger does."""
        if block == self._starts[-1]:
            return Place(self.numbers.stop, 0)
        row = bisect_right(self._starts, block) - 1
        number = self.numbers[row]
        return Place(number, self.ledgers[number].index.blocks[block - self._starts[row]].first_entry)

    def halve(self, part: Reach, is_below: Callable[[int], bool]) -> tuple[int, int]:
        """Return two blocks of a part with too little between them for another look; ``is_below`` the first, not the second, or an end."""
        low, high = self._first_from(part.start), self._first_from(part.stop)
        while high - low >= self._worth:
            middle = (low + high) // 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low, high

    def _first_from(self, place: Place) -> int:
        """Return the first block that does not begin before a place; 0 or the number of blocks where that is in none of these ledgers."""
        if place.number not in self.numbers:
            return 0 if place.number < self.numbers.start else self._starts[-1]
        start = self._starts[place.number - self.numbers.start]
        if not place.entry:
            return start
        table = self.ledgers[place.number].index.blocks
        return start + bisect_left(table, place.entry, key=lambda block: block.first_entry)

    def tells(self, block: int, is_cut: Callable[[int], bool]) -> bool:
        """Whether the time at which a block begins is known and ``is_cut``."""
        row = bisect_right(self._starts, block) - 1
        ledger, number = self.ledgers[self.numbers[row]], block - self._starts[row]
        try:
            look = _look(ledger, number, _GLANCE, check_checksums=self.check_checksums)
            if not look.is_whole and (look.time_ms is None or is_cut(look.time_ms)):
                # A damaged time must not hide a block: what would cut has to be whole, and sound.
                look = _look(ledger, number, look.size, check_checksums=self.check_checksums)
        except CorruptLedgerError:
            return False
        return look.is_whole and look.time_ms is not None and is_cut(look.time_ms)


@dataclass(frozen=True, slots=True)
class _Look:
    """What is seen of a block's first entry: its publish time if that can be told, the size of its record, whether all of that was seen."""

    time_ms: int | None
    size: int
    is_whole: bool


def _look(ledger: LedgerReader, block: int, size: int, *, check_checksums: bool) -> _Look:
    first = ledger.index.blocks[block].first_entry
    front = memoryview(ledger.block_front(block, size))
    scan = scan_records(front, 0, first, 1)
    batch, is_whole = scan.batch, scan.stop == ScanStop.COMPLETE
    if not is_whole:
        if scan.stop != ScanStop.MORE_BYTES or scan.found is None:
            return _Look(None, 0, is_whole=True)
        # Metadata stands before the payload, so the front of an entry is enough to tell its time, but not its checksum.
        shown = len(front) - RECORD_HEADER_BYTES
        batch = EntryBatch(first, front, np.array([RECORD_HEADER_BYTES]), np.array([shown]))
    options = DecodeOptions(include_markers=True, check_checksums=check_checksums and is_whole, on_corrupt="skip")
    entries, sound = TopicDecoder("", options).walk(batch, ledger.ref.ledger_id)
    time = first_local_time(entries) if sound[0] else None
    return _Look(time, RECORD_HEADER_BYTES + (scan.found or 0), is_whole)

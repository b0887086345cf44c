"""The entries of a topic, one ledger after the other."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.reader import LedgerReader, OnDamage, Span
from ledgerfs.messages.decode.entries import Skipped


class Place(NamedTuple):
    """Where an entry is: the position of its ledger in the topic, and its id. Places order as the topic does."""

    number: int
    entry: int


class Reach(NamedTuple):
    """Entries of a topic from one place on, and before another."""

    start: Place
    stop: Place

    @classmethod
    def of(cls, ledgers: range) -> "Reach":
        """Return all entries of consecutive ledgers."""
        return cls(Place(ledgers.start, 0), Place(ledgers.stop, 0))

    @property
    def ledgers(self) -> range:
        """The positions of the ledgers that it has entries of."""
        return range(self.start.number, self.stop.number + (self.stop.entry > 0))


def read_entries(
    ledgers: Sequence[LedgerReader], reach: Reach, skipped: list[Skipped] | None = None
) -> Iterator[tuple[Place, EntryBatch]]:
    """Yield the entries of ``reach`` a window at a time, each with the place of its first one.

    The next ledger is fetched while the end of one is read. Damaged records raise `CorruptLedgerError`, unless there is a list
    ``skipped``: then they are added to that, and reading goes on with the next cut.
    """
    spans = [(number, span) for number, span in _spans(ledgers, reach, skipped) if span.first <= span.last]
    # Ledgers with equal streams are read together; comparing the streams of all spans costs nothing.
    for stream, group in groupby(spans, key=lambda one: one[1].ledger.stream):
        numbers, together = zip(*group, strict=True)
        for i, batch in stream(together):
            yield Place(numbers[i], batch.first_entry), batch


def _spans(ledgers: Sequence[LedgerReader], reach: Reach, skipped: list[Skipped] | None) -> Iterator[tuple[int, Span]]:
    start, stop = reach
    for number in reach.ledgers:
        ledger = ledgers[number]
        first = start.entry if number == start.number else ledger.first_entry
        last = stop.entry - 1 if number == stop.number else ledger.last_entry
        yield number, Span(ledger, first, last, None if skipped is None else _noting(ledger.ref.ledger_id, skipped))


def _noting(ledger_id: int, skipped: list[Skipped]) -> OnDamage:
    def note(first: int, last: int, error: CorruptLedgerError) -> None:
        skipped.append(Skipped(ledger_id, first, last, str(error)))

    return note

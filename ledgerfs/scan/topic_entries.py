"""The entries of a topic, one ledger after the other."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ledgerfs.catalog.reader import LedgerReader, OnDamage, Span
from ledgerfs.errors import AccessDeniedError, CorruptLedgerError, StoreError, StoreUnreachableError
from ledgerfs.formats.records import EntryBatch
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
        """The positions of the ledgers with its entries."""
        return range(self.start.number, self.stop.number + (self.stop.entry > 0))


def read_entries(
    ledgers: Sequence[LedgerReader],
    reach: Reach,
    skipped: list[Skipped] | None = None,
    refused: list[Skipped] | None = None,
) -> Iterator[tuple[Place, EntryBatch]]:
    """Yield the entries of ``reach`` a window at a time, each with the place of its first one.

    Fetches the next ledger while the end of one is read. Damaged records raise `CorruptLedgerError`; with a list ``skipped``, they are
    added to that, and reading resumes at the next split point. If the store refuses an object, raises the store's error; with a list
    ``refused``, adds the rest of its ledger to that, and reads the next ledger.
    """
    spans = [(number, span) for number, span in _spans(ledgers, reach, skipped) if span.first <= span.last]
    while spans:
        number, span = spans[0]
        next_place = Place(number, span.first)
        try:
            for place, batch in _read_spans(spans):
                next_place = Place(place.number, batch.last_entry + 1)
                yield place, batch
            return  # noqa: TRY300  (an error of the loop is what is caught)
        except (AccessDeniedError, StoreError) as error:
            if refused is None or isinstance(error, StoreUnreachableError):
                raise
            spans = [one for one in spans if Place(one[0], one[1].last) >= next_place]
            number, span = spans.pop(0)
            first = next_place.entry if number == next_place.number else span.first
            refused.append(Skipped(span.ledger.ref.ledger_id, first, span.last, str(error)))


def _read_spans(spans: Sequence[tuple[int, Span]]) -> Iterator[tuple[Place, EntryBatch]]:
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

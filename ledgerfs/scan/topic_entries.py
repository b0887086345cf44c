"""The entries of a topic, one ledger behind the other."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ledgerfs.cache.object_window import open_parts
from ledgerfs.errors import CorruptLedgerError, LedgerfsError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.dialect import LedgerReader, OnDamage
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.storage.objects import ReadRequest

_INDEXES_AHEAD = 4


class Place(NamedTuple):
    """Where an entry is: its ledger's position among those of the topic, and its id in there. Places order as the topic does."""

    number: int
    entry: int


class Reach(NamedTuple):
    """Entries of a topic from one place on, and before another."""

    start: Place
    stop: Place

    @classmethod
    def of(cls, ledgers: range) -> "Reach":
        """Return all entries of ledgers that follow each other."""
        return cls(Place(ledgers.start, 0), Place(ledgers.stop, 0))

    @property
    def ledgers(self) -> range:
        """The ledgers that it has entries of."""
        return range(self.start.number, self.stop.number + (self.stop.entry > 0))


class _Span(NamedTuple):
    """The entries that are wanted of one ledger, both ends included."""

    number: int
    first: int
    last: int


def read_entries(
    ledgers: Sequence[LedgerReader], reach: Reach, skipped: list[Skipped] | None = None
) -> Iterator[tuple[Place, EntryBatch]]:
    """Yield the entries of ``reach`` a window at a time, each with the place of its first one.

    The next ledger is on its way while the end of one is read. Damaged records raise `CorruptLedgerError`, unless there is a list
    ``skipped``: then that gets a note, and reading goes on with the next block.
    """
    spans = [span for span in _spans(ledgers, reach) if span.first <= span.last]
    if not spans:
        return
    with open_parts(ledgers[spans[0].number].store, _plan(ledgers, spans)) as parts:
        for number, first, last in spans:
            ledger = ledgers[number]
            on_damage = None if skipped is None else _noting(ledger.ref.ledger_id, skipped)
            for batch in ledger.batches(first, last, parts, on_damage):
                yield Place(number, batch.first_entry), batch


def _spans(ledgers: Sequence[LedgerReader], reach: Reach) -> Iterator[_Span]:
    start, stop = reach
    for number in reach.ledgers:
        ledger = ledgers[number]
        first = start.entry if number == start.number else ledger.first_entry
        last = stop.entry - 1 if number == stop.number else ledger.last_entry
        yield _Span(number, first, last)


def _plan(ledgers: Sequence[LedgerReader], spans: Sequence[_Span]) -> Iterator[ReadRequest]:
    for i, (number, first, last) in enumerate(spans):
        for span in spans[i + 1 : i + 1 + _INDEXES_AHEAD] if i == 0 else spans[i + _INDEXES_AHEAD :][:1]:
            ledgers[span.number].expect()
        try:
            yield from ledgers[number].plan(first, last, is_known=i > 0)
        except LedgerfsError:
            # Raised again when this ledger's turn has come, behind all that is before it.
            continue


def _noting(ledger_id: int, skipped: list[Skipped]) -> OnDamage:
    def note(first: int, last: int, error: CorruptLedgerError) -> None:
        skipped.append(Skipped(ledger_id, first, last, str(error)))

    return note

"""The entries of a topic, one ledger behind the other."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode import Skipped
from ledgerfs.vfs.layout import LedgerReader


class Place(NamedTuple):
    """Where an entry is: its ledger's position among those of the topic, and its id in there. Places order as the topic does."""

    number: int
    entry: int


def read_entries(
    ledgers: Sequence[LedgerReader], start: Place, stop: Place, skipped: list[Skipped] | None = None
) -> Iterator[tuple[Place, EntryBatch]]:
    """Yield the entries from ``start`` on and before ``stop`` a window at a time, each with the place of its first one.

    Damaged records raise `CorruptLedgerError`, unless there is a list ``skipped``: then that gets a note, and reading goes on with the
    next block.
    """
    for number in range(start.number, min(stop.number + 1, len(ledgers))):
        ledger = ledgers[number]
        first = start.entry if number == start.number else ledger.first_entry
        last = stop.entry - 1 if number == stop.number else ledger.last_entry
        if first > last:
            continue
        batches = ledger.batches(first, last) if skipped is None else _around_damage(ledger, first, last, skipped)
        for batch in batches:
            yield Place(number, batch.first_entry), batch


def _around_damage(ledger: LedgerReader, first: int, last: int, skipped: list[Skipped]) -> Iterator[EntryBatch]:
    inside = (block.first_entry for block in ledger.index.blocks if first < block.first_entry <= last)
    for entry, behind in pairwise([first, *inside, last + 1]):
        following = entry
        try:
            for batch in ledger.batches(entry, behind - 1):
                following = batch.first_entry + len(batch)
                yield batch
        except CorruptLedgerError as error:
            skipped.append(Skipped(ledger.ref.ledger_id, following, behind - 1, str(error)))

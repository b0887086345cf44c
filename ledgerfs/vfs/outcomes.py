"""Outcomes of transactions: their markers may stand in a later ledger than their messages, or nowhere yet."""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from ledgerfs.messages.metadata_walk import Int64Table, walk_metadata
from ledgerfs.vfs.entry_fields import Rows, Transaction, markers_at, outcomes_in, transactions_at
from ledgerfs.vfs.layout import LedgerReader
from ledgerfs.vfs.topic_entries import Place, Reach, read_entries

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.decode import Skipped


OPEN = "open"
"""The state of a transaction without an outcome up to the topic's end."""

_MOST_LEDGERS = 64


class Outcomes:
    """What became of transactions, read ahead only as far as it takes to know: a topic without transactions costs nothing.

    Parameters
    ----------
    ledgers
        All of the topic.
    known
        What is known already, and what will be.

    Attributes
    ----------
    any_open
        Whether a transaction was asked for that has no outcome up to the topic's end.

    """

    def __init__(
        self, ledgers: Sequence[LedgerReader], known: MutableMapping[Transaction, str], *, is_damage_skipped: bool
    ) -> None:
        self.any_open = False
        self._ledgers = ledgers
        # Damage is told where a scan itself comes by it; here it is only passed.
        self._skipped: list[Skipped] | None = [] if is_damage_skipped else None
        self._states = known
        self._ahead: Iterator[tuple[Place, EntryBatch]] | None = None

    def look_ahead(self, place: Place, entries: Int64Table, rows: Rows) -> None:
        """Find the outcomes of the transactions of ``rows``, reading on from where it ended before; at first from ``place``.

        A transaction's marker never stands before its messages.
        """
        unknown = {one for one in transactions_at(entries, rows) if one not in self._states}
        if self._ahead is None and unknown:
            self._ahead = self._entries_from(place)
        while unknown:
            assert self._ahead is not None  # noqa: S101  (of the first unknown one)
            found = next(self._ahead, None)
            ended = dict.fromkeys(unknown, OPEN) if found is None else outcomes_in(walk_metadata(found[1]))
            self._states.update(ended)
            unknown.difference_update(ended)

    def state_of(self, transaction: Transaction) -> str:
        """Return ``committed``, ``aborted`` or `OPEN` of one that `look_ahead` looked for."""
        state = self._states.get(transaction, OPEN)
        self.any_open |= state == OPEN
        return state

    def _entries_from(self, place: Place) -> "Iterator[tuple[Place, EntryBatch]]":
        """Yield all entries from a place to the topic's end; few ledgers at a time at first, since an outcome is seldom far away."""
        start, ledgers = place, 1
        while start.number < len(self._ledgers):
            stop = Place(min(start.number + ledgers, len(self._ledgers)), 0)
            yield from read_entries(self._ledgers, Reach(start, stop), self._skipped)
            ledgers, start = min(2 * ledgers, _MOST_LEDGERS), stop

    def are_visible(self, entries: Int64Table, rows: Rows) -> list[bool]:
        """Return for each row of a transaction whether it is of a committed one, or is a marker itself."""
        pairs = zip(markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        return [is_marker or self.state_of(transaction) == "committed" for is_marker, transaction in pairs]

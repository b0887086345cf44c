"""Where positions of the lost cluster are in the new one: the same place, or the end of what is there before it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position


class Positions:
    """Moves the positions of one topic.

    Parameters
    ----------
    ledgers
        Of each restored ledger, ascending by old id: the old id, the new one, and its entries.
    end
        The id of a ledger behind all of these.
    renumbered
        {old id: entries} of ledgers that had so many when the positions were noted, and have others now, as where batches were split since.
        Which of their messages a position within them means is not known any more.

    """

    __slots__ = ("_end", "_ledgers", "_old", "_renumbered")

    def __init__(
        self, ledgers: Sequence[tuple[int, int, int]], end: int, renumbered: Mapping[int, int] | None = None
    ) -> None:
        self._ledgers = ledgers
        self._old = [old for old, _, _ in ledgers]
        self._end = end
        self._renumbered = renumbered or {}

    def moved(self, at: Position) -> Position:
        """Return the position behind which what is left of the messages behind ``at`` begins, and perhaps some before it."""
        return self._moved(at, is_up=False)

    def moved_up(self, at: Position) -> Position:
        """Return the same for where a range of acknowledged messages begins: perhaps behind some of these, and never before it."""
        return self._moved(at, is_up=True)

    def _moved(self, at: Position, *, is_up: bool) -> Position:
        row = bisect_left(self._old, at.ledger_id)
        if row < len(self._old) and self._old[row] == at.ledger_id:
            old, new, entries = self._ledgers[row]
            former = self._renumbered.get(old, entries)
            last = max(-1, min(at.entry_id, former - 1))
            if former != entries and last != -1:
                last = entries - 1 if is_up or last == former - 1 else -1
            return Position(new, last)
        if row:
            _, new, entries = self._ledgers[row - 1]
            return Position(new, entries - 1)
        return self.first

    def renumbered_behind(self, at: Position) -> list[int]:
        """Return the old ids of the renumbered ledgers that have messages behind a position of the new cluster."""
        if not self._renumbered:
            return []
        return [
            old for old, new, entries in self._ledgers if old in self._renumbered and at < Position(new, entries - 1)
        ]

    @property
    def first(self) -> Position:
        """The position before everything."""
        return Position(self._ledgers[0][1] if self._ledgers else self._end, -1)

    @property
    def last(self) -> Position:
        """The position of the last entry that is there; before everything if there is none."""
        if not self._ledgers:
            return self.first
        _, new, entries = self._ledgers[-1]
        return Position(new, entries - 1)

"""Where positions of the lost cluster are in the new one: the same place, or the end of what is there before it."""

from bisect import bisect_left
from collections.abc import Sequence

from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position


class Positions:
    """Moves the positions of one topic.

    Parameters
    ----------
    ledgers
        Of each restored ledger, ascending by old id: the old id, the new one, and its entries.
    end
        The id of a ledger behind all of these.

    """

    __slots__ = ("_end", "_ledgers", "_old")

    def __init__(self, ledgers: Sequence[tuple[int, int, int]], end: int) -> None:
        self._ledgers = ledgers
        self._old = [old for old, _, _ in ledgers]
        self._end = end

    def moved(self, at: Position) -> Position:
        """Return the position behind which what is left of the messages behind ``at`` begins."""
        row = bisect_left(self._old, at.ledger_id)
        if row < len(self._old) and self._old[row] == at.ledger_id:
            _, new, entries = self._ledgers[row]
            return Position(new, max(-1, min(at.entry_id, entries - 1)))
        if row:
            _, new, entries = self._ledgers[row - 1]
            return Position(new, entries - 1)
        return self.first

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

"""A window of entries that are requested together: the bookie asked for each, the entries that arrived, and the refusals."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs_cluster.bookies.refusals import UNREACHABLE, WRONG_BYTES, Refusal
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode
from ledgerfs_cluster.formats.bookkeeper.stored_entries import Fault, check_entries

Lost = tuple[int, list[Refusal]]
"""An entry that no replica returned, and the reply of each replica."""

_NOT_ASKED = -1


class Window:
    """Entries ``first`` to ``last`` of one ensemble.

    Parameters
    ----------
    bookies
        The ensemble; entry e is on bookies[(e + k) % len(bookies)] for k below ``write_quorum``.

    """

    __slots__ = (
        "_asked",
        "_buffers",
        "_entries",
        "_origin",
        "_refused",
        "_sizes",
        "_starts",
        "_tried",
        "bookies",
        "first",
        "last",
        "write_quorum",
    )

    def __init__(self, first: int, last: int, bookies: tuple[str, ...], write_quorum: int) -> None:
        self.first, self.last = first, last
        self.bookies = bookies
        self.write_quorum = write_quorum
        self._entries = np.arange(first, last + 1, dtype=np.int64)
        size = self._entries.size
        # Per entry: the number in the ensemble of the bookie that is asked, a bit for each replica that was asked in vain, the buffer with
        # the entry, and the position in it.
        self._asked = np.full(size, _NOT_ASKED, np.int64)
        self._tried = np.zeros(size, np.int64)
        self._origin = np.full(size, _NOT_ASKED, np.int64)
        self._starts, self._sizes = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._buffers: list[memoryview] = []
        self._refused: dict[int, list[Refusal]] = {}

    def to_ask(self, is_away: Callable[[str], bool]) -> Iterator[tuple[str, Int64]]:
        """Yield (bookie, entries) for all entries that are not requested, each from its next replica; bookies that are away come last."""
        rows = np.flatnonzero((self._asked == _NOT_ASKED) & (self._origin < 0))
        if not rows.size:
            return
        away = np.array([is_away(bookie) for bookie in self.bookies])
        for only_near in (True, False):
            for replica in range(self.write_quorum):
                holder = (self._entries[rows] + replica) % len(self.bookies)
                is_next = (self._asked[rows] == _NOT_ASKED) & (self._tried[rows] >> replica & 1 == 0)
                if only_near:
                    is_next &= ~away[holder]
                self._asked[rows[is_next]] = holder[is_next]
        asked = self._asked[rows]
        for number in np.unique(asked[asked >= 0]).tolist():
            yield self.bookies[number], self._entries[rows[asked == number]]

    def ask_all_of(self, bookie: str) -> None:
        """Note that one bookie is asked for all entries."""
        self._asked[:] = self.bookies.index(bookie)

    def waits_for(self) -> str | None:
        """Return a bookie with outstanding entries; None if there is none."""
        waiting = self._asked[self._asked >= 0]
        return self.bookies[int(waiting[0])] if waiting.size else None

    def count_of(self, bookie: str) -> int:
        """Return how many entries a bookie is asked for."""
        return int(np.count_nonzero(self._asked == self.bookies.index(bookie))) if bookie in self.bookies else 0

    def take(self, bookie: str, buffer: memoryview, entries: Int64, codes: Int64, starts: Int64, sizes: Int64) -> None:  # noqa: PLR0917
        """Take the replies of a bookie to its requests; all arrays have shape (replies,)."""
        rows = entries - self.first
        is_expected = self._asked[rows] == self.bookies.index(bookie)
        is_there = is_expected & (codes == ReplyCode.OK)
        self._put(rows[is_there], buffer, starts[is_there], sizes[is_there])
        for row, code in zip(
            rows[is_expected & ~is_there].tolist(), codes[is_expected & ~is_there].tolist(), strict=True
        ):
            self._refuse(row, bookie, code)

    def put(self, bookie: str, buffer: memoryview, first: int, starts: Int64, sizes: Int64) -> None:
        """Take the entries of a batch from ``first`` on; ignore those that this bookie is not asked for."""
        count = min(starts.size, self.last - first + 1)
        rows = np.arange(count) + (first - self.first)
        is_expected = self._asked[rows] == self.bookies.index(bookie)
        self._put(rows[is_expected], buffer, starts[:count][is_expected], sizes[:count][is_expected])

    def give_up_on(self, bookie: str) -> None:
        """Note that a bookie will not send the entries that it is asked for."""
        if bookie in self.bookies:
            for row in np.flatnonzero(self._asked == self.bookies.index(bookie)).tolist():
                self._refuse(row, bookie, UNREACHABLE)

    def ask_again(self) -> None:
        """Forget which bookie each entry is requested from; no replica counts as tried."""
        self._asked[:] = _NOT_ASKED

    def result(self, digest: Digest, ledger_id: int) -> "tuple[EntryBatch | None, list[Lost]] | None":
        """Return the entries before the first lost one, None if that is the first of all, and all lost entries, ascending.

        None instead if some entries had wrong bytes: request these again.
        """
        rows = np.flatnonzero(self._origin >= 0)
        buffer, starts = self._joined(rows)
        checked = check_entries(buffer, starts, self._sizes[rows], ledger_id, self._entries[rows], digest)
        if not checked.are_sound:
            for row in rows[checked.wrong != Fault.NONE].tolist():
                self._refuse(row, self.bookies[int(self._origin[row]) % len(self.bookies)], WRONG_BYTES)
                self._origin[row] = _NOT_ASKED
            return None
        lost = np.flatnonzero(self._origin < 0).tolist()
        count = lost[0] if lost else rows.size
        batch = EntryBatch(self.first, buffer, checked.starts[:count], checked.sizes[:count]) if count else None
        return batch, [(int(self._entries[row]), self._refused.get(row, [])) for row in lost]

    def _put(self, rows: npt.NDArray[np.intp], buffer: memoryview, starts: Int64, sizes: Int64) -> None:
        if rows.size:
            # Wrong bytes are blamed on a bookie: store its number together with the buffer's number.
            self._origin[rows] = len(self._buffers) * len(self.bookies) + self._asked[rows]
            self._starts[rows], self._sizes[rows] = starts, sizes
            self._asked[rows] = _NOT_ASKED
            self._buffers.append(buffer)

    def _refuse(self, row: int, bookie: str, code: int) -> None:
        """Note that a bookie does not return an entry."""
        self._asked[row] = _NOT_ASKED
        replica = (self.bookies.index(bookie) - int(self._entries[row])) % len(self.bookies)
        self._tried[row] |= 1 << replica
        self._refused.setdefault(row, []).append(Refusal(bookie, code))

    def _joined(self, rows: npt.NDArray[np.intp]) -> tuple[memoryview, Int64]:
        """Return one buffer with all replies, and the start of each entry in it."""
        if len(self._buffers) == 1:
            return self._buffers[0], self._starts[rows]
        numbers = self._origin[rows] // len(self.bookies)
        sizes = [len(buffer) for buffer in self._buffers]
        offsets = np.cumsum([0, *sizes])[:-1]
        joined = empty(sum(sizes), np.uint8)
        for start, buffer in zip(offsets.tolist(), self._buffers, strict=True):
            joined[start : start + len(buffer)] = buffer
        return joined.data.toreadonly(), self._starts[rows] + offsets[numbers]

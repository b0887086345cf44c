"""Read entries of one ledger from its bookies: request several windows ahead, and try each replica before an entry is given up.

Where all replicas of an entry are on the same bookies (the ensemble is not larger than the write quorum), one bookie gets a request for a
whole window; a striped ledger is read entry by entry. The caller judges missing entries: that needs the ledger's metadata.
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.errors import StoreUnreachableError
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.pool import Leases
from ledgerfs_cluster.bookies.window import Lost, Window
from ledgerfs_cluster.errors import CorruptReplyError
from ledgerfs_cluster.formats.bookkeeper.replies import Operation, ReplyCode, batch_entries
from ledgerfs_cluster.formats.bookkeeper.requests import batch_request, read_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.bookies.connection import Received
    from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode

_WINDOW_BYTES = 1 << 20
_MOST_ENTRIES = 1024
_FEW_ENTRIES = 16
_LARGE_WINDOW_BYTES = 2 << 20
"""A window of large entries has at most `_FEW_ENTRIES` or these bytes: a window costs as much as many entries."""

_MOST_AHEAD = 4
"""Windows that are requested ahead, to keep a bookie busy; more only fills its buffers."""

_STORED_OVERHEAD = 64
"""Bytes of an entry in a reply besides its payload."""


class Lack(NamedTuple):
    """The entries that no replica returns, ascending, each with the replies of its bookies; the ledger metadata decides if it is lost."""

    entries: list[Lost]


class _Batch(NamedTuple):
    """An outstanding batch: its bookie and its first entry."""

    bookie: str
    first: int


class LedgerReading:
    """One read of consecutive entries of a ledger. For one thread.

    Parameters
    ----------
    node
        The ledger's metadata, with the ensembles.
    entry_bytes
        Approximate size of an entry, bytes.
    is_stopping
        Returns whether to stop waiting for the pool's rate; None to wait always.

    """

    __slots__ = (
        "_batches",
        "_entry_bytes",
        "_is_stopping",
        "_leases",
        "_next_id",
        "_node",
        "_pool",
        "_traffic",
        "_windows",
    )

    def __init__(
        self,
        leases: Leases,
        node: "LedgerNode",
        entry_bytes: int,
        traffic: Traffic,
        is_stopping: "Callable[[], bool] | None" = None,
    ) -> None:
        self._pool = leases.pool
        self._is_stopping = is_stopping
        self._leases = leases
        self._node = node
        self._entry_bytes = max(1, entry_bytes) + _STORED_OVERHEAD
        self._traffic = traffic
        self._windows: dict[int, Window] = {}
        self._batches: dict[int, _Batch] = {}
        self._next_id = 0

    def windows(self, first: int, last: int) -> "Iterator[EntryBatch | Lack]":
        """Yield the entries ``first`` to ``last``, window by window, then a `Lack` if entries are missing; raises as `BookiePool.pace`."""
        waiting: deque[int] = deque()
        while waiting or first <= last:
            while first <= last and len(waiting) < _MOST_AHEAD:
                end = self._end_of_window(first, last)
                waiting.append(self._begin(first, end))
                first = end + 1
            batch, lost = self._collect(waiting.popleft())
            if batch is not None:
                yield batch
            if lost:
                yield Lack(lost)
                return

    def _end_of_window(self, first: int, last: int) -> int:
        few = min(_FEW_ENTRIES, _LARGE_WINDOW_BYTES // self._entry_bytes)
        count = min(_MOST_ENTRIES, max(1, few, _WINDOW_BYTES // self._entry_bytes))
        behind = (one.first_entry for one in self._node.ensembles if one.first_entry > first)
        return min(last, first + count - 1, next(behind, last + 1) - 1)

    def _begin(self, first: int, last: int) -> int:
        """Request a window ahead; return its number."""
        ensemble = self._node.ensemble_of(first)
        window = Window(first, last, ensemble.bookies, self._node.write_quorum)
        number, self._next_id = self._next_id, self._next_id + 1
        bookie = self._batch_bookie(number, ensemble.bookies) if last > first else None
        self._windows[number] = window
        if bookie is None or not self._ask_batch(number, window, bookie, first):
            self._ask(window)
        return number

    def _batch_bookie(self, number: int, bookies: tuple[str, ...]) -> str | None:
        """Return the bookie to ask for a whole window; None if none has all its entries and answers batches."""
        if len(bookies) != self._node.write_quorum:
            return None
        turned = (bookies[(number + k) % len(bookies)] for k in range(len(bookies)))
        return next((one for one in turned if self._pool.answers_batches(one) and not self._pool.is_away(one)), None)

    def _ask_batch(self, number: int, window: Window, bookie: str, first: int) -> bool:
        count = window.last - first + 1
        if first == window.first:
            window.ask_all_of(bookie)
        self._batches[number] = _Batch(bookie, first)
        most = max(_WINDOW_BYTES, count * self._entry_bytes) * 2
        return self._send(bookie, batch_request(self._node.ledger_id, first, number, count, most), 1, count)

    def _ask(self, window: Window) -> None:
        """Request each entry that is not requested yet from its next replica, until all are requested or given up."""
        while True:
            reported = [
                self._send(bookie, read_requests(self._node.ledger_id, entries), entries.size, entries.size)
                for bookie, entries in list(window.to_ask(self._pool.is_away))
            ]
            if all(reported):
                return

    def _send(self, bookie: str, requests: bytes, count: int, entries: int) -> bool:
        self._pool.pace(bookie, entries * self._entry_bytes, self._is_stopping)
        try:
            self._leases.of(bookie).send(requests, count)
        except StoreUnreachableError:
            self._failed(bookie)
            return False
        self._traffic.count(requests=1, bytes_asked=entries * self._entry_bytes)
        return True

    def _collect(self, number: int) -> "tuple[EntryBatch | None, list[Lost]]":
        """Return the result of a window, once each entry arrived or is lost."""
        window = self._windows[number]
        while True:
            while (bookie := window.waits_for()) is not None:
                self._receive(bookie, window)
                self._ask(window)
            self._ask(window)
            if window.waits_for() is not None:
                continue
            found = window.result(self._node.digest, self._node.ledger_id)
            if found is not None:
                break
            self._ask(window)
        del self._windows[number]
        self._batches.pop(number, None)
        batch, lost = found
        if batch is not None:
            self._traffic.count(bytes_used=int(batch.lengths.sum()))
        return batch, lost

    def _receive(self, bookie: str, window: Window) -> None:
        """Wait for replies of a bookie, and pass each to its window."""
        connection = self._leases.get(bookie)
        if connection is None or connection.outstanding <= 0:
            self._failed(bookie)
            return
        try:
            received = connection.receive(min(connection.outstanding, window.count_of(bookie)))
            self._traffic.count(bytes_received=received.replies.position)
            self._sort(bookie, received)
        except (StoreUnreachableError, CorruptReplyError):
            self._failed(bookie)

    def _sort(self, bookie: str, received: "Received") -> None:
        replies = received.replies
        buffer = received.buffer[: replies.position]
        is_ours = replies.ledgers == self._node.ledger_id
        is_batch = is_ours & (replies.operations == Operation.BATCH_READ)
        for row in np.flatnonzero(is_batch).tolist():
            self._take_batch(bookie, buffer, received, row)
        is_single = is_ours & ~is_batch
        if not is_single.any():
            return
        for window in list(self._windows.values()):
            rows = np.flatnonzero(is_single & (replies.entries >= window.first) & (replies.entries <= window.last))
            if rows.size:
                entries, codes = replies.entries[rows], replies.codes[rows]
                window.take(bookie, buffer, entries, codes, replies.starts[rows], replies.sizes[rows])

    def _take_batch(self, bookie: str, buffer: memoryview, received: "Received", row: int) -> None:
        """Take the entries of a batch; request the rest again, entry by entry if the batch was empty."""
        replies = received.replies
        first, code = int(replies.entries[row]), int(replies.codes[row])
        number = self._batch_of(bookie, first, int(replies.request_ids[row]))
        if number is None:
            return
        del self._batches[number]
        window = self._windows[number]
        if code in {ReplyCode.BAD_REQUEST, ReplyCode.BAD_VERSION}:
            self._pool.note_single(bookie)
        if code == ReplyCode.OK:
            starts, sizes = batch_entries(buffer, int(replies.starts[row]), int(replies.sizes[row]), key=bookie)
            window.put(bookie, buffer, first, starts, sizes)
            following = first + starts.size
            if following > window.last:
                return
            if starts.size and self._ask_batch(number, window, bookie, following):
                return
        window.ask_again()
        self._ask(window)

    def _batch_of(self, bookie: str, first: int, request_id: int) -> int | None:
        """Return the window that a bookie's batch is for; None if it was not requested."""
        asked = _Batch(bookie, first)
        if self._batches.get(request_id) == asked:
            return request_id
        # A bookie that refuses may not repeat the request's id.
        return next((number for number, one in self._batches.items() if request_id < 0 and one == asked), None)

    def _failed(self, bookie: str) -> None:
        """Ask other bookies instead of one that hung up, timed out, or sent a damaged reply."""
        connection = self._leases.get(bookie)
        # An idle connection may have ended long ago, when the bookie was stopped.
        is_new = connection is not None and not connection.is_used
        self._leases.drop(bookie)
        batches = [number for number, one in self._batches.items() if one.bookie == bookie]
        if batches and is_new:
            # Bookies before 4.17 hang up on a batch.
            self._pool.note_single(bookie)
        for number in batches:
            del self._batches[number]
        for window in list(self._windows.values()):
            window.give_up_on(bookie)

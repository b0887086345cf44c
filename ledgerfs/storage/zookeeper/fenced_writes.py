"""Commits that only the holder of a lock can make, and each of them once, whatever becomes of connections.

The holder has two ephemeral nodes, made together: the lock, and its *mark*, whose name nobody else ever uses. Each commit requires the lock
as it was made, and sets the mark to a number of its own, at the version that the mark has. So

* it is refused when the session is over (both nodes are gone), when somebody deleted the lock, and when another process has the lock: who
  takes it drops the marks of all others in the same commit;
* after a lost answer the mark tells whether it was done. If it was not, it may still lie in a buffer of some server. Another number is
  written at that same version, after which it can be done no more, and it is safe to send it again.
"""

import time
from collections.abc import Sequence

from ledgerfs.errors import LedgerfsError, LockLostError, StoreError, StoreUnreachableError
from ledgerfs.storage.zookeeper.change_requests import Refusal
from ledgerfs.storage.zookeeper.changing_session import Fate, OneSession, Written
from ledgerfs.storage.zookeeper.operations import Operation, RequireNode, SetNode

_TRIES = 3
_PAUSE_S = 0.05
_FENCES = 2
_NO_NODE, _BAD_VERSION = -101, -103


class FencedWrites:
    """The commits of the holder of a lock. For one thread at a time.

    Attributes
    ----------
    is_lost
        Whether nothing is written any more.

    """

    __slots__ = ("_lock_path", "_mark", "_number", "_session", "_version", "is_lost")

    def __init__(self, session: OneSession, lock_path: str, mark: str) -> None:
        self._session = session
        self._lock_path = lock_path
        self._mark = mark
        self._number = 0
        self._version = 0
        self.is_lost = False

    def write(self, operations: Sequence[Operation]) -> Refusal | None:
        """Do all operations; return which one was refused, after which nothing was done.

        Raises `LockLostError`, and `StoreUnreachableError` if the connection broke at each try and nothing was done.
        """
        if self.is_lost:
            raise self.lose("the lock was lost, or released")
        try:
            return self._write(operations)
        except LedgerfsError:
            raise
        except BaseException:
            # Ctrl-C, say: whether the commit was done will not be known, so it was the last one.
            self.lose("interrupted")
            raise

    def lose(self, reason: str, *, is_uncertain: bool = False) -> LockLostError:
        """Write nothing any more; return the error that says why."""
        if not self.is_lost:
            self.is_lost = True
            self._session.leave()
        return LockLostError.of(reason, self._lock_path, is_uncertain=is_uncertain)

    def _write(self, operations: Sequence[Operation]) -> Refusal | None:
        losses = 0
        until = time.monotonic() + 2 * self._session.timeout_s
        while True:
            refused = self._made_anew(operations)
            if refused is not None:
                return refused
            number = self._next()
            written = self._sent([*self._fences(number), *operations])
            if written.is_done:
                self._version += 1
                return None
            if written.refusal is not None:
                return self._outside(written.refusal)
            if written.fate is Fate.UNKNOWN:
                if self._was_done(number):
                    return None
                losses += 1
            is_tried = losses == _TRIES or time.monotonic() > until
            if is_tried and not self._session.is_over:
                reason = f"the connection to ZooKeeper broke at each try ({written.trouble}); nothing was done"
                raise StoreUnreachableError(reason, key=operations[0].path if operations else self._lock_path)
            time.sleep(_PAUSE_S)

    def _made_anew(self, operations: Sequence[Operation]) -> Refusal | None:
        """Return which operation is for a node that is gone, or was deleted and made anew; None if none is."""
        for at, one in enumerate(operations):
            if isinstance(one, SetNode) and one.created_ms is not None:
                try:
                    node = self._session.node(one.path)
                except StoreUnreachableError as error:
                    raise self.lose(error.reason) from error
                if node is None or node.created_ms != one.created_ms:
                    return Refusal(at, _NO_NODE if node is None else _BAD_VERSION)
        return None

    def _sent(self, operations: Sequence[Operation]) -> Written:
        try:
            return self._session.write(operations)
        except StoreUnreachableError as error:
            raise self.lose(error.reason) from error

    def _was_done(self, number: int) -> bool:
        """Find out whether a commit was done whose answer was lost; if not, it never will be."""
        ours = {number}
        until = time.monotonic() + 2 * self._session.timeout_s
        while time.monotonic() < until:
            found = self._mark_as_it_is()
            if found is None:
                break
            data, version = found
            if version == self._version + 1 and data in ours:
                self._version = version
                return data == number
            if version != self._version:
                break
            instead = self._next()
            ours.add(instead)
            written = self._uncertain_write(self._fences(instead))
            if written.is_done:
                self._version += 1
                return False
            time.sleep(_PAUSE_S)
        raise self.lose("the nodes of the lock are gone, or others than they were", is_uncertain=True)

    def _mark_as_it_is(self) -> tuple[int, int] | None:
        """Return number and version of the mark; None if it is gone."""
        try:
            node = self._session.node(self._mark)
        except StoreError as error:
            raise self.lose(error.reason, is_uncertain=True) from error
        if node is None:
            return None
        return (int(node.data) if node.data.isdigit() else -1), node.version

    def _uncertain_write(self, operations: Sequence[Operation]) -> Written:
        try:
            return self._session.write(operations)
        except StoreUnreachableError as error:
            raise self.lose(error.reason, is_uncertain=True) from error

    def _fences(self, number: int) -> list[Operation]:
        return [RequireNode(self._lock_path, 0), SetNode(self._mark, b"%d" % number, self._version)]

    def _outside(self, refused: Refusal) -> Refusal:
        """Return which of the caller's operations was refused; raise `LockLostError` for one of the fences."""
        if refused.at >= _FENCES:
            return Refusal(refused.at - _FENCES, refused.code)
        what = "is gone" if refused.code == _NO_NODE else f"was changed (error {refused.code})"
        raise self.lose(f"the lock of this process {what}; another process may have it")

    def _next(self) -> int:
        self._number += 1
        return self._number

"""Commits that only the holder of a lock can make, and each of them once, whatever becomes of connections.

The holder has two ephemeral nodes, made together: the lock, and its *mark*, whose name nobody else ever uses. Each commit requires the lock
as it was made, and sets the mark to a number of its own, at the version that the mark has. So

* it is refused when the session is over (both nodes are gone), when an operator deleted the lock, and when another process has the lock:
  taking it drops the marks of all others in the same commit;
* after a lost answer the mark shows whether it was done. If it was not, it may still lie in a buffer of some server. Another number is
  written at that same version, after which it can be done no more, and it is safe to send it again.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError, StoreError, StoreUnreachableError, UnsupportedWriteError
from ledgerfs_cluster.errors import LockLostError
from ledgerfs_cluster.zookeeper.node import Node, Operation, RequireNode, SetNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader
from ledgerfs_cluster.zookeeper.packets import BAD_VERSION, NO_NODE, Commit, Refusal, refusal_in

if TYPE_CHECKING:
    from ledgerfs_cluster.zookeeper.client import Client

MOST_BYTES = 1_040_000
"""Of one commit: a server takes packets of less than 1 MiB (``jute.maxbuffer``) and breaks the connection of whoever sends more."""

_TRIES = 3
_PAUSE_S = 0.05
_FENCES = 2


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A commit without an answer: whether it may have been done, or may still be, and the reason in words."""

    may_be_done: bool
    reason: str


def send(client: "Client", operations: Sequence[Operation]) -> Refusal | Unanswered | None:
    """Do all operations, or none, without a second try; return None if they were done.

    Raises `UnsupportedWriteError` for more bytes than a server takes.
    """
    request = Commit([(one.opcode, one.body(client.full(one.path))) for one in operations])
    if request.size > MOST_BYTES:
        largest = max(operations, key=lambda one: len(getattr(one, "data", b"")))
        reason = f"a change of {request.size:,} bytes; a ZooKeeper takes {MOST_BYTES:,} at once"
        raise UnsupportedWriteError(reason, key=largest.path)
    reason = "the connection to ZooKeeper broke"
    try:
        (reply,) = client.replies(client.ask([request], operations[0].path))
        if not isinstance(reply, int):
            return refusal_in(reply, len(operations))
    except (struct.error, ValueError) as error:
        return Unanswered(may_be_done=True, reason=f"what was received is no answer of ZooKeeper's: {error}")
    except LedgerfsError as error:
        reason = error.reason
    except BaseException:
        request.withdraw()
        raise
    # kazoo may have answered what it still holds: if its thread could not be woken, or Ctrl-C came while it was.
    return Unanswered(not request.withdraw(), reason)


class FencedWrites:
    """The commits of the holder of a lock. For one thread at a time.

    Attributes
    ----------
    is_lost
        Whether nothing is written any more.

    """

    __slots__ = ("_client", "_lock_path", "_mark", "_number", "_reader", "_version", "is_lost")

    def __init__(self, client: "Client", lock_path: str, mark: str) -> None:
        self._client = client
        self._reader = NodeReader(client)
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
            self._client.leave()
        return LockLostError.of(reason, self._lock_path, is_uncertain=is_uncertain)

    def newest(self, path: str) -> Node | None:
        """Return a node as it is now; None if there is none. Raises `LockLostError` if no server answers in time."""
        try:
            return self._reader.newest(path)
        except StoreUnreachableError as error:
            raise self.lose(error.reason) from error

    def _write(self, operations: Sequence[Operation]) -> Refusal | None:
        losses = 0
        until = time.monotonic() + 2 * self._client.timeout_s
        while True:
            refused = self._made_again(operations)
            if refused is not None:
                return refused
            number = self._next()
            outcome = send(self._client, [*self._fences(number), *operations])
            if outcome is None:
                self._version += 1
                return None
            if isinstance(outcome, Refusal):
                return self._outside(outcome)
            if outcome.may_be_done:
                if self._was_done(number):
                    return None
                losses += 1
            if self._client.is_over:
                raise self.lose(outcome.reason)
            if losses == _TRIES or time.monotonic() > until:
                reason = f"the connection to ZooKeeper broke at each try ({outcome.reason}); nothing was done"
                raise StoreUnreachableError(reason, key=operations[0].path if operations else self._lock_path)
            time.sleep(_PAUSE_S)

    def _made_again(self, operations: Sequence[Operation]) -> Refusal | None:
        """Return which operation is for a node that is gone, or was deleted and made again; None if none is."""
        for at, one in enumerate(operations):
            if isinstance(one, SetNode) and one.created_ms is not None:
                node = self.newest(one.path)
                if node is None or node.created_ms != one.created_ms:
                    return Refusal(at, NO_NODE if node is None else BAD_VERSION)
        return None

    def _was_done(self, number: int) -> bool:
        """Find out whether a commit was done whose answer was lost; if not, it never will be."""
        ours = {number}
        until = time.monotonic() + 2 * self._client.timeout_s
        while time.monotonic() < until:
            try:
                node = self._reader.newest(self._mark)
            except StoreError as error:
                raise self.lose(error.reason, is_uncertain=True) from error
            if node is None:
                break
            done = int(node.data) if node.data.isdigit() else -1
            if node.version == self._version + 1 and done in ours:
                self._version = node.version
                return done == number
            if node.version != self._version:
                break
            instead = self._next()
            ours.add(instead)
            if send(self._client, self._fences(instead)) is None:
                self._version += 1
                return False
            time.sleep(_PAUSE_S)
        raise self.lose("the nodes of the lock are gone, or others than they were", is_uncertain=True)

    def _fences(self, number: int) -> list[Operation]:
        return [RequireNode(self._lock_path, 0), SetNode(self._mark, b"%d" % number, self._version)]

    def _outside(self, refused: Refusal) -> Refusal:
        """Return which of the caller's operations was refused; raise `LockLostError` for one of the fences."""
        if refused.at >= _FENCES:
            return Refusal(refused.at - _FENCES, refused.code)
        what = "is gone" if refused.code == NO_NODE else f"was changed (error {refused.code})"
        raise self.lose(f"the lock of this process {what}; another process may have it")

    def _next(self) -> int:
        self._number += 1
        return self._number

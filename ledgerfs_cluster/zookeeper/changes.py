"""The one way that anything of a cluster's metadata is changed: all or nothing, by the holder of the cluster's lock alone, each once.

Several nodes are changed with one commit, which names the version of each that it was decided from. What others changed meanwhile makes it
fail as a whole. `ledgerfs_cluster.zookeeper.nodes.Nodes` reads, and cannot write.

The holder has two ephemeral nodes, made together: the lock, and its *mark*, whose name nobody else ever uses. Each commit requires the lock
as it was made, and sets the mark to a number of its own, at the version that the mark has. So

* it is refused when the session is over (both nodes are gone), when an operator deleted the lock, and when another process has the lock:
  taking it drops the marks of all others in the same commit;
* after a lost answer the mark shows whether it was done. If it was not, it may still lie in a buffer of some server. Another number is
  written at that same version, after which it can be done no more, and it is safe to send it again.
"""

import datetime as dt
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    InvalidNameError,
    LedgerfsError,
    ObjectNotFoundError,
    StoreError,
    StoreUnreachableError,
    UnsupportedWriteError,
)
from ledgerfs.forked import ForkLock, start_again_in_child
from ledgerfs.storage.credentials import without_credentials
from ledgerfs_cluster.errors import ChangedMeanwhileError, LockHeldError, LockLostError
from ledgerfs_cluster.zookeeper.node import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    Commit,
    DropNode,
    MakeNode,
    Node,
    Operation,
    Refusal,
    RequireNode,
    SetNode,
    failure,
    parent_of,
    refusal_in,
)
from ledgerfs_cluster.zookeeper.nodes import NodeReader, Nodes, client_for
from ledgerfs_cluster.zookeeper.settings import Settings

if TYPE_CHECKING:
    from ledgerfs_cluster.zookeeper.client import Client

__all__ = [
    "LOCK_PATH",
    "MARKS_PATH",
    "ClusterLock",
    "DropNode",
    "LockHolder",
    "MakeNode",
    "Operation",
    "RequireNode",
    "SetNode",
]

LOCK_PATH = "/ledgerfs/lifecycle/lock"
"""The lock: ephemeral; its data is what its holder says of itself."""
MARKS_PATH = "/ledgerfs/lifecycle/holders"
"""Below it is the mark of the holder, ephemeral, too."""

MOST_BYTES = 1_040_000
"""Of one commit: a server takes packets of less than 1 MiB (``jute.maxbuffer``) and breaks the connection of whoever sends more."""

_SENDS = 3
_PAUSE_S = 0.05
_FENCES = 2

_TRIES = 5
_FOUND = {NO_NODE: "gone", BAD_VERSION: "other version", NODE_EXISTS: "there already", NOT_EMPTY: "not empty"}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has the lock of a cluster, in its own words, and since when (ms since 1970 UTC)."""

    holder: bytes
    since_ms: int


class ClusterLock:
    """The lock of a cluster, in a session of its own. Its commits are all that ledgerfs writes into a ZooKeeper.

    For all threads of the process that took it, one at a time; a forked child has no part in it. For ``with``, which releases it.
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_is_given_up",
        "_is_inherited",
        "_lock",
        "_mark",
        "_number",
        "_reader",
        "_version",
    )

    def __init__(self, client: "Client", mark: str) -> None:
        self._client = client
        self._reader = NodeReader(client)
        self._mark = mark
        self._number = self._version = 0
        self._is_given_up = False
        self._is_inherited = False
        self._lock = ForkLock()
        start_again_in_child(self)

    def after_fork(self) -> None:
        """Have no part in the parent's lock."""
        self._is_inherited = True

    @classmethod
    def take(cls, settings: Settings, holder: bytes) -> Self:
        """Take the lock of the cluster that has this ZooKeeper.

        Parameters
        ----------
        settings
            Those of the `Nodes` that the cluster is read with (`Nodes.settings`). The lock is lost after ``timeout_s`` without a server.
        holder
            What is told to others that want it: JSON with host, process and the like, without secrets.

        Raises
        ------
        LockHeldError
            Another process has it, or had it and ended less than its session's timeout ago. Nothing was changed.
        BucketNotFoundError
            The folder (chroot) of the servers is not there.
        AccessDeniedError
            The login is refused, or may not write.
        StoreUnreachableError
            No server answered in time.
        UnusableUrlError
            kazoo is not installed, or there is no server in the settings.

        """
        client = client_for(replace(settings, most_per_second=None), is_renewed=False)
        mark = f"{MARKS_PATH}/{secrets.token_hex(16)}"
        try:
            _take(client, mark, holder, without_credentials(settings.servers))
        except BaseException:
            client.leave()
            raise
        return cls(client, mark)

    @staticmethod
    def holder_of(nodes: Nodes) -> LockHolder | None:
        """Return who has the lock, without asking for it; None if nobody has. Raises the errors of `Nodes.get`."""
        try:
            node = nodes.get(LOCK_PATH)
        except ObjectNotFoundError:
            return None
        return LockHolder(node.data, node.created_ms)

    @property
    def is_lost(self) -> bool:
        """Whether it is known, without asking, that nothing can be committed any more."""
        return self._is_inherited or self._is_given_up or self._client.is_over

    def node(self, path: str) -> Node | None:
        """Return a node as it is now, after all that was committed before, by anybody; None if there is none.

        `Nodes` reads from a server that may be behind. What is deleted by what a node says, and is not a node, is decided by this.
        Raises `StoreUnreachableError`, also once the lock is lost, `AccessDeniedError`, and `StoreError`.
        """
        self._require_own()
        return self._reader.newest(path)

    def newest(self) -> NodeReader:
        """Return what reads several nodes, none of them older than this moment, and behind a commit none older than that commit.

        One request to the leader of the servers for all of them. Raises the errors of `node`.
        """
        self._require_own()
        self._reader.catch_up()
        return self._reader

    def commit(self, operations: Sequence[Operation]) -> None:
        """Do all of it, or nothing, and that once; with no operations: make sure that the lock is held.

        What is missing above a `MakeNode` is made before, in a commit of its own.

        Raises
        ------
        ChangedMeanwhileError
            A node is not what its operation says. Nothing was done; the lock is still held.
        LockLostError
            The session is over, or the lock is gone. Its ``is_uncertain`` says whether the commit may have been done; if not, nothing was.
            Every later commit raises it, too.
        AccessDeniedError
            A node belongs to others. Nothing was done.
        StoreUnreachableError
            The connection broke at several tries. Nothing was done; the lock is still held.
        UnsupportedWriteError
            More bytes than a ZooKeeper takes at once. Nothing was done.

        """
        operations = list(operations)
        for one in operations:
            if (
                one.path == LOCK_PATH
                or one.path.startswith(f"{MARKS_PATH}/")
                or (isinstance(one, MakeNode) and one.is_ephemeral)
            ):
                raise InvalidNameError("the nodes of the lock are not for commits", key=one.path)
        self._require_own()
        with self._lock:
            self._make_parents(operations)
            refused = self._write(operations)
            if refused is not None:
                raise self._error(operations[refused.at], refused)

    def release(self) -> None:
        """Give the lock back; nothing happens if it is lost, or released already. In a forked child the parent keeps it."""
        with self._lock:
            self._is_given_up = True
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _require_own(self) -> None:
        if self._is_inherited:
            reason = "a forked child has no part in the lock of its parent"
            raise LockLostError.of(reason, LOCK_PATH, is_uncertain=False)

    def _make_parents(self, operations: Sequence[Operation]) -> None:
        """Make what is missing above the nodes that are to be made, unless the same commit makes it."""
        made: set[str] = set()
        for one in operations:
            if isinstance(one, MakeNode):
                parent = parent_of(one.path)
                if parent not in made:
                    self._make_folder(parent)
                made |= {parent, one.path}

    def _make_folder(self, path: str) -> None:
        for _ in range(_TRIES):
            missing = _missing(self._newest, path)
            refused = self._write(missing) if missing else None
            if refused is None:
                return
            if refused.code not in {NO_NODE, NODE_EXISTS}:
                raise self._error(missing[refused.at], refused)
        raise ChangedMeanwhileError.of("gone", path)

    def _error(self, operation: Operation, refused: Refusal) -> LedgerfsError:
        path = operation.path
        if isinstance(operation, MakeNode) and refused.code == NO_NODE:
            path = parent_of(path)
        return _refused(path, refused.code)

    def _write(self, operations: Sequence[Operation]) -> Refusal | None:
        """Do all operations; return which one was refused, after which nothing was done.

        Raises `LockLostError`, and `StoreUnreachableError` if the connection broke at each try and nothing was done.
        """
        if self._is_given_up:
            raise self._lose("the lock was lost, or released")
        try:
            return self._fenced(operations)
        except LedgerfsError:
            raise
        except BaseException:
            # Ctrl-C, say: whether the commit was done will not be known, so it was the last one.
            self._lose("interrupted")
            raise

    def _lose(self, reason: str, *, is_uncertain: bool = False) -> LockLostError:
        """Write nothing any more; return the error that says why."""
        if not self._is_given_up:
            self._is_given_up = True
            self._client.leave()
        return LockLostError.of(reason, LOCK_PATH, is_uncertain=is_uncertain)

    def _newest(self, path: str) -> Node | None:
        """Return a node as it is now; None if there is none. Raises `LockLostError` if no server answers in time."""
        try:
            return self._reader.newest(path)
        except StoreUnreachableError as error:
            raise self._lose(error.reason) from error

    def _fenced(self, operations: Sequence[Operation]) -> Refusal | None:
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
                raise self._lose(outcome.reason)
            if losses == _SENDS or time.monotonic() > until:
                reason = f"the connection to ZooKeeper broke at each try ({outcome.reason}); nothing was done"
                raise StoreUnreachableError(reason, key=operations[0].path if operations else LOCK_PATH)
            time.sleep(_PAUSE_S)

    def _made_again(self, operations: Sequence[Operation]) -> Refusal | None:
        """Return which operation is for a node that is gone, or was deleted and made again; None if none is."""
        for at, one in enumerate(operations):
            if isinstance(one, SetNode) and one.created_ms is not None:
                node = self._newest(one.path)
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
                raise self._lose(error.reason, is_uncertain=True) from error
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
        raise self._lose("the nodes of the lock are gone, or others than they were", is_uncertain=True)

    def _fences(self, number: int) -> list[Operation]:
        return [RequireNode(LOCK_PATH, 0), SetNode(self._mark, b"%d" % number, self._version)]

    def _outside(self, refused: Refusal) -> Refusal:
        """Return which of the caller's operations was refused; raise `LockLostError` for one of the fences."""
        if refused.at >= _FENCES:
            return Refusal(refused.at - _FENCES, refused.code)
        what = "is gone" if refused.code == NO_NODE else f"was changed (error {refused.code})"
        raise self._lose(f"the lock of this process {what}; another process may have it")

    def _next(self) -> int:
        self._number += 1
        return self._number


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


def _take(client: "Client", mark: str, holder: bytes, servers: str) -> None:
    """Make the lock and the mark, which is how the lock is known to be ours after a lost answer."""
    reader = NodeReader(client)
    trouble = "others change its nodes all the time"
    for _ in range(_TRIES):
        found = reader.newest(LOCK_PATH)
        if found is not None:
            if reader.newest(mark) is not None:
                return
            raise _held(LockHolder(found.data, found.created_ms))
        operations = [*_missing(reader.newest, MARKS_PATH, servers), *_marks_of_others(reader)]
        operations += [MakeNode(LOCK_PATH, holder, is_ephemeral=True), MakeNode(mark, b"0", is_ephemeral=True)]
        outcome = send(client, operations)
        if outcome is None:
            return
        if isinstance(outcome, Unanswered):
            trouble = outcome.reason
        elif outcome.code not in _FOUND:
            raise _refused(LOCK_PATH, outcome.code)
    raise StoreUnreachableError(f"could not take the lock in {_TRIES} tries: {trouble}", key=LOCK_PATH)


def _marks_of_others(reader: NodeReader) -> Iterator[Operation]:
    """Yield how to drop the marks of those whose lock an operator deleted: they commit nothing once another has it."""
    reader.catch_up()
    try:
        names = reader.children(MARKS_PATH)
    except ObjectNotFoundError:
        return
    for node in reader.get_many(f"{MARKS_PATH}/{name}" for name in names):
        if isinstance(node, Node):
            yield DropNode(node.path, node.version)
        elif not isinstance(node, ObjectNotFoundError):
            raise node


def _missing(newest: Callable[[str], Node | None], path: str, servers: str = "") -> list[Operation]:
    """Return how to make a folder: the missing ones above it first."""
    missing: list[Operation] = []
    while newest(path) is None:
        if path == "/":
            raise BucketNotFoundError("these servers have no such folder (chroot)", key=servers)
        missing.append(MakeNode(path, b""))
        path = parent_of(path)
    return missing[::-1]


def _refused(path: str, code: int) -> LedgerfsError:
    if code in _FOUND:
        return ChangedMeanwhileError.of(_FOUND[code], path)
    if code == NO_AUTH:
        reason = "ZooKeeper does not let this user change this node; check username and password. Nothing was done"
        return AccessDeniedError(reason, key=path)
    return failure(code, path)


def _held(held: LockHolder) -> LockHeldError:
    since = dt.datetime.fromtimestamp(held.since_ms / 1000, dt.UTC).isoformat(timespec="seconds")
    reason = (
        f"held since {since} by {held.holder[:500].decode('utf-8', 'replace')}; the lock of a process that has ended "
        "goes by itself when the session of that process does"
    )
    return LockHeldError.of(held.holder, reason, LOCK_PATH)

"""Change a cluster's metadata: atomic commits, each at most once, only by the holder of the cluster's lock.

One commit changes several nodes, and contains the version of each node that it was decided from. If one of them has changed meanwhile, the
whole commit fails. `ledgerfs_cluster.zookeeper.nodes.Nodes` reads, and cannot write.

The holder has two ephemeral nodes, created together: the lock, and its *mark*, which has a unique name. Each commit requires the unchanged
lock, and sets the mark to a number of its own, at the mark's current version. So

* a commit is refused when the session is over (both nodes are gone), when an operator deleted the lock, and when another process has it:
  taking the lock drops all other marks in the same commit;
* after a lost answer the mark shows whether the commit was done. If not, a server may still have it in a buffer. Then another number is
  written at that same version; after that the old commit must fail, and it is safe to send it again.
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
"""The lock: ephemeral; its data describe its holder."""
MARKS_PATH = "/ledgerfs/lifecycle/holders"
"""Parent of the holder's mark, which is ephemeral, too."""

MOST_BYTES = 1_040_000
"""Size of one commit: a server accepts packets of less than 1 MiB (``jute.maxbuffer``), and breaks the connection for larger ones."""

_SENDS = 3
_PAUSE_S = 0.05
_FENCES = 2

_TRIES = 5
_FOUND = {NO_NODE: "gone", BAD_VERSION: "other version", NODE_EXISTS: "there already", NOT_EMPTY: "not empty"}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Holder of a cluster's lock: the data that it wrote, and since when (ms since 1970 UTC)."""

    holder: bytes
    since_ms: int


class ClusterLock:
    """The lock of a cluster, in its own session. Its commits are the only writes of ledgerfs to a ZooKeeper.

    Shared by all threads of the process that took it, one at a time; a forked child cannot use it. Leaving ``with`` releases it.
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
        """Detach a forked child from the parent's lock."""
        self._is_inherited = True

    @classmethod
    def take(cls, settings: Settings, holder: bytes) -> Self:
        """Take the lock of the cluster at this ZooKeeper.

        Parameters
        ----------
        settings
            Those of the `Nodes` that read the cluster (`Nodes.settings`). The lock is lost after ``timeout_s`` without a server.
        holder
            Description for others that want the lock: JSON with host, process and the like, without secrets.

        Raises
        ------
        LockHeldError
            Another process has it, or stopped less than its session's timeout ago without releasing it. Nothing was changed.
        BucketNotFoundError
            The chroot of the servers does not exist.
        AccessDeniedError
            The login is refused, or must not write.
        StoreUnreachableError
            No server answered in time.
        UnusableUrlError
            kazoo is not installed, or the settings contain no server.

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
        """Return the lock's holder without taking the lock; None if it is free. Raises the errors of `Nodes.get`."""
        try:
            node = nodes.get(LOCK_PATH)
        except ObjectNotFoundError:
            return None
        return LockHolder(node.data, node.created_ms)

    @property
    def is_lost(self) -> bool:
        """Whether the lock is known to be lost; sends no request."""
        return self._is_inherited or self._is_given_up or self._client.is_over

    def node(self, path: str) -> Node | None:
        """Return a node after all earlier commits of any client; None if it does not exist.

        `Nodes` reads from a server that may be behind. Use this before a node's data decide about a deletion outside ZooKeeper.
        Raises `StoreUnreachableError`, also once the lock is lost, `AccessDeniedError`, and `StoreError`.
        """
        self._require_own()
        return self._reader.newest(path)

    def newest(self) -> NodeReader:
        """Return a reader whose nodes are not older than this moment, and after a commit not older than that commit.

        Sends one request to the servers' leader for all of them. Raises the errors of `node`.
        """
        self._require_own()
        self._reader.catch_up()
        return self._reader

    def commit(self, operations: Sequence[Operation]) -> None:
        """Commit all operations or none, once; without operations: check that the lock is held.

        Creates missing parents of a `MakeNode` before, in a separate commit.

        Raises
        ------
        ChangedMeanwhileError
            A node does not match its operation. Nothing was done; the lock is still held.
        LockLostError
            The session is over, or the lock is gone. ``is_uncertain``: the commit may have been done; otherwise nothing was. All later
            commits raise it, too.
        AccessDeniedError
            A node belongs to another login. Nothing was done.
        StoreUnreachableError
            The connection broke at each try. Nothing was done; the lock is still held.
        UnsupportedWriteError
            The commit exceeds ZooKeeper's packet size. Nothing was done.

        """
        operations = list(operations)
        for one in operations:
            if (
                one.path == LOCK_PATH
                or one.path.startswith(f"{MARKS_PATH}/")
                or (isinstance(one, MakeNode) and one.is_ephemeral)
            ):
                raise InvalidNameError("a commit must not change the nodes of the lock", key=one.path)
        self._require_own()
        with self._lock:
            self._make_parents(operations)
            refused = self._write(operations)
            if refused is not None:
                raise self._error(operations[refused.at], refused)

    def release(self) -> None:
        """Release the lock; does nothing if it is lost or already released. In a forked child the parent keeps it."""
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
            reason = "a forked child process cannot use the lock of its parent process"
            raise LockLostError.of(reason, LOCK_PATH, is_uncertain=False)

    def _make_parents(self, operations: Sequence[Operation]) -> None:
        """Create missing parents of new nodes, except those that the same commit creates."""
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
        """Commit the operations; return the refused one, in which case nothing was done.

        Raises `LockLostError`, and `StoreUnreachableError` if the connection broke at each try and nothing was done.
        """
        if self._is_given_up:
            raise self._lose("the lock was lost, or released")
        try:
            return self._fenced(operations)
        except LedgerfsError:
            raise
        except BaseException:
            # Interrupted, for example by Ctrl-C: the commit's result stays unknown, so no commit may follow.
            self._lose("interrupted")
            raise

    def _lose(self, reason: str, *, is_uncertain: bool = False) -> LockLostError:
        """Allow no further commits; return the error with the reason."""
        if not self._is_given_up:
            self._is_given_up = True
            self._client.leave()
        return LockLostError.of(reason, LOCK_PATH, is_uncertain=is_uncertain)

    def _newest(self, path: str) -> Node | None:
        """Return a node as it is now; None if it does not exist. Raises `LockLostError` if no server answers in time."""
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
                reason = f"every try to commit failed: {outcome.reason}; nothing was changed"
                raise StoreUnreachableError(reason, key=operations[0].path if operations else LOCK_PATH)
            time.sleep(_PAUSE_S)

    def _made_again(self, operations: Sequence[Operation]) -> Refusal | None:
        """Return the first operation for a node that is gone, or was deleted and created again; None without any."""
        for at, one in enumerate(operations):
            if isinstance(one, SetNode) and one.created_ms is not None:
                node = self._newest(one.path)
                if node is None or node.created_ms != one.created_ms:
                    return Refusal(at, NO_NODE if node is None else BAD_VERSION)
        return None

    def _was_done(self, number: int) -> bool:
        """Return whether a commit with a lost answer was done; if False, it never will be."""
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
        raise self._lose("the nodes of the lock were deleted or replaced", is_uncertain=True)

    def _fences(self, number: int) -> list[Operation]:
        return [RequireNode(LOCK_PATH, 0), SetNode(self._mark, b"%d" % number, self._version)]

    def _outside(self, refused: Refusal) -> Refusal:
        """Return the refused operation of the caller; raise `LockLostError` for one of the fences."""
        if refused.at >= _FENCES:
            return Refusal(refused.at - _FENCES, refused.code)
        change = "was deleted" if refused.code == NO_NODE else f"was changed (error {refused.code})"
        raise self._lose(f"the lock of this process {change}; another process may hold it")

    def _next(self) -> int:
        self._number += 1
        return self._number


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A commit without an answer: whether it may have been done or may still be, and the reason."""

    may_be_done: bool
    reason: str


def send(client: "Client", operations: Sequence[Operation]) -> Refusal | Unanswered | None:
    """Commit the operations without a second try; return None if they were done.

    Raises `UnsupportedWriteError` above ZooKeeper's packet size.
    """
    request = Commit([(one.opcode, one.body(client.full(one.path))) for one in operations])
    if request.size > MOST_BYTES:
        largest = max(operations, key=lambda one: len(getattr(one, "data", b"")))
        reason = f"the change has {request.size:,} bytes, but ZooKeeper accepts at most {MOST_BYTES:,} at once"
        raise UnsupportedWriteError(reason, key=largest.path)
    reason = "the connection to ZooKeeper broke"
    try:
        (reply,) = client.replies(client.ask([request], operations[0].path))
        if not isinstance(reply, int):
            return refusal_in(reply, len(operations))
    except (struct.error, ValueError) as error:
        return Unanswered(may_be_done=True, reason=f"the server did not send a valid ZooKeeper reply: {error}")
    except LedgerfsError as error:
        reason = error.reason
    except BaseException:
        request.withdraw()
        raise
    # kazoo may have failed unsent requests: if its thread could not be woken, or after Ctrl-C.
    return Unanswered(not request.withdraw(), reason)


def _take(client: "Client", mark: str, holder: bytes, servers: str) -> None:
    """Create the lock and the mark; after a lost answer the mark shows that the lock is ours."""
    reader = NodeReader(client)
    trouble = "other clients keep changing its nodes"
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
    raise StoreUnreachableError(f"cannot take the lock in {_TRIES} tries: {trouble}", key=LOCK_PATH)


def _marks_of_others(reader: NodeReader) -> Iterator[Operation]:
    """Yield operations that drop the marks of holders whose lock an operator deleted: they cannot commit once another has the lock."""
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
    """Return the operations that create a folder, missing parents first."""
    missing: list[Operation] = []
    while newest(path) is None:
        if path == "/":
            raise BucketNotFoundError(
                "ZooKeeper has no such path (chroot); check the path after the servers (host:port/path)", key=servers
            )
        missing.append(MakeNode(path, b""))
        path = parent_of(path)
    return missing[::-1]


def _refused(path: str, code: int) -> LedgerfsError:
    if code in _FOUND:
        return ChangedMeanwhileError.of(_FOUND[code], path)
    if code == NO_AUTH:
        reason = (
            "ZooKeeper does not allow this user to change this node; check username and password. Nothing was changed"
        )
        return AccessDeniedError(reason, key=path)
    return failure(code, path)


def _held(held: LockHolder) -> LockHeldError:
    since = dt.datetime.fromtimestamp(held.since_ms / 1000, dt.UTC).isoformat(timespec="seconds")
    reason = (
        f"the lock has been held since {since} by {held.holder[:500].decode('utf-8', 'replace')}; stop that process, or wait: the lock "
        "of a dead process is released when its ZooKeeper session expires"
    )
    return LockHeldError.of(held.holder, reason, LOCK_PATH)

"""The one way that anything of a cluster's metadata is changed: all or nothing, by the holder of the cluster's lock alone, each once.

Several nodes are changed with one commit, which names the version of each that it was decided from. What others changed meanwhile makes it
fail as a whole. `ledgerfs_cluster.zookeeper.nodes.Nodes` reads, and cannot write.
"""

import datetime as dt
import os
import secrets
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
    StoreUnreachableError,
)
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs_cluster.errors import ChangedMeanwhileError, LockHeldError, LockLostError
from ledgerfs_cluster.zookeeper.fenced_writes import FencedWrites, Unanswered, send
from ledgerfs_cluster.zookeeper.node import DropNode, MakeNode, Node, Operation, RequireNode, SetNode, parent_of
from ledgerfs_cluster.zookeeper.nodes import NodeReader, Nodes, client_for
from ledgerfs_cluster.zookeeper.packets import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    Refusal,
    failure,
)
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
"""Below it is the mark of the holder (`ledgerfs_cluster.zookeeper.fenced_writes`), ephemeral, too."""

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

    __slots__ = ("_client", "_known", "_lock", "_process", "_reader", "_writes")

    def __init__(self, client: "Client", mark: str) -> None:
        self._client = client
        self._reader = NodeReader(client)
        self._writes = FencedWrites(client, LOCK_PATH, mark)
        self._process = os.getpid()
        self._lock = ForkLock()
        self._known: set[str] = set()

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
        return self._process != os.getpid() or self._writes.is_lost or self._client.is_over

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
            refused = self._writes.write(operations)
            if refused is not None:
                raise self._error(operations[refused.at], refused)

    def release(self) -> None:
        """Give the lock back; nothing happens if it is lost, or released already. In a forked child the parent keeps it."""
        with self._lock:
            self._writes.is_lost = True
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _require_own(self) -> None:
        if self._process != os.getpid():
            reason = "a forked child has no part in the lock of its parent"
            raise LockLostError.of(reason, LOCK_PATH, is_uncertain=False)

    def _make_parents(self, operations: Sequence[Operation]) -> None:
        """Make what is missing above the nodes that are to be made, unless the same commit makes it."""
        made: set[str] = set()
        for one in operations:
            if isinstance(one, MakeNode):
                parent = parent_of(one.path)
                if parent not in made | self._known:
                    self._make_folder(parent)
                made.add(one.path)

    def _make_folder(self, path: str) -> None:
        for _ in range(_TRIES):
            missing = _missing(self._writes.newest, path)
            refused = self._writes.write(missing) if missing else None
            if refused is None:
                self._known.add(path)
                return
            if refused.code not in {NO_NODE, NODE_EXISTS}:
                raise self._error(missing[refused.at], refused)
        raise ChangedMeanwhileError.of("gone", path)

    def _error(self, operation: Operation, refused: Refusal) -> LedgerfsError:
        path = operation.path
        if isinstance(operation, MakeNode) and refused.code == NO_NODE:
            path = parent_of(path)
            self._known.discard(path)
        return _refused(path, refused.code)


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
    raise StoreUnreachableError(f"the lock was not to be had in {_TRIES} tries: {trouble}", key=LOCK_PATH)


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
            raise BucketNotFoundError("these servers have no such path, below which a cluster would be", key=servers)
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

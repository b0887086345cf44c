"""Read nodes of a ZooKeeper: one at a time, or many with few packets."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ledgerfs.errors import InvalidNameError, LedgerfsError, ObjectNotFoundError, UnusableUrlError
from ledgerfs.storage.credentials import without_credentials
from ledgerfs_cluster.zookeeper.node import (
    GET_CHILDREN,
    GET_DATA,
    SYNC,
    AskOne,
    Node,
    Parse,
    ReadMany,
    Result,
    children_at,
    failure,
    many_results,
    node_at,
    one_result,
)
from ledgerfs_cluster.zookeeper.settings import Settings

if TYPE_CHECKING:
    from ledgerfs_cluster.zookeeper.client import Asked, Client

__all__ = ["Node", "NodeReader", "Nodes"]

# A server accepts requests of less than 1 MiB (jute.maxbuffer). It holds whole replies in memory, twice while it builds one, and nodes have
# up to 1 MiB each: 512 such nodes under way crashed a ZooKeeper with a heap of 512 MiB. A node costs 12 µs at 16 a packet, 4 µs at 128.
_REQUEST_BYTES = 256 << 10
_REPLY_BYTES = 2 << 20
_FIRST_NODES = 8
_MOST_NODES = 16
_PACKETS_AHEAD = 8


class NodeReader:
    """Reads nodes over a client, in any thread. Reads of one process never go back in time.

    The first read may be from a server that is behind: see `catch_up`. A deposed leader that has not noticed it is behind even then: data
    that must be current even in that case are read in the session of a lock, after a commit
    (`ledgerfs_cluster.zookeeper.changes.ClusterLock`).
    """

    __slots__ = ("_client",)

    def __init__(self, client: "Client") -> None:
        self._client = client

    def get(self, path: str) -> Node:
        """Return one node.

        Raises
        ------
        ObjectNotFoundError
            The node does not exist.
        AccessDeniedError
            The server refuses access to it, or refuses the login.
        StoreUnreachableError
            No server answered in time, or the session of a lock is over.
        StoreError
            The server answered with another error, or with an invalid reply (`WrongBodyError`).

        """
        return self._one(GET_DATA, path, node_at)

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node in the order of ``paths``, or the error that `get` would raise for this node alone.

        Requests at most 128 nodes ahead of the caller. Raises `StoreUnreachableError`, and `AccessDeniedError` for a refused login.
        """
        return self._many(GET_DATA, iter(paths), node_at)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's direct children. Raises the errors of `get`."""
        return self._one(GET_CHILDREN, path, children_at)

    def children_many(self, paths: Iterable[str]) -> Iterator[list[str] | LedgerfsError]:
        """Yield the sorted names of each node's direct children, as `get_many` yields nodes."""
        return self._many(GET_CHILDREN, iter(paths), children_at)

    def catch_up(self) -> None:
        """Ensure that later reads of this process are not older than this moment: a server may be behind the others.

        Sends one request, which the server passes on to the leader. Raises the errors of `get`.
        """
        (reply,) = self._client.replies(self._client.ask([AskOne(SYNC, self._client.full("/"))], "/"))
        if isinstance(reply, int):
            raise failure(reply, "/")

    def newest(self, path: str) -> Node | None:
        """Return a node as it is now, or None if it does not exist: `catch_up` and `get` in one step. Raises the errors of `get`."""
        try:
            return self._one(GET_DATA, path, node_at, is_newest=True)
        except ObjectNotFoundError:
            return None

    def _many(self, opcode: int, paths: Iterator[str], parse: Parse[Result]) -> Iterator[Result | LedgerfsError]:
        """Yield the results of all paths, in order: each packet has as many nodes as their sizes allow, and a few packets are under way."""
        client, rate = self._client, self._client.pace.rate
        # With a rate limit, ten packets a second; and only one under way, as a packet that waits for the limit would also delay the results
        # of the one before it.
        most = _MOST_NODES if rate is None else min(max(1, int(rate / 10)), _MOST_NODES)
        ahead = _PACKETS_AHEAD if rate is None else 1
        count = min(_FIRST_NODES, most)
        waiting: deque[tuple[list[str], Asked]] = deque()
        while True:
            while len(waiting) < ahead and (some := _taken(paths, count)):
                request = ReadMany(opcode, [client.full(path) for path in some])
                waiting.append((some, client.ask([request], some[0], len(some))))
            if not waiting:
                return
            some, asked = waiting.popleft()
            (reply,) = client.replies(asked)
            if isinstance(reply, int):
                raise failure(reply, some[0])
            fitting = len(some) * _REPLY_BYTES // len(reply[0])
            count = max(1, min(fitting, 2 * count, most))
            yield from many_results(reply, opcode, some, parse)

    def _one(self, opcode: int, path: str, parse: Parse[Result], *, is_newest: bool = False) -> Result:
        _require_path(path)
        full = self._client.full(path)
        requests = [AskOne(SYNC, full)] if is_newest else []
        requests.append(AskOne(opcode, full))
        *_, reply = self._client.replies(self._client.ask(requests, path))
        result = one_result(reply, path, parse)
        if isinstance(result, LedgerfsError):
            raise result
        return result


class Nodes(NodeReader):
    """The nodes of a ZooKeeper, with one session a process, opened on first use. Read-only: it creates no nodes and no watches.

    Safe in threads, in forked children, which get their own sessions, and in pickles.

    Parameters
    ----------
    servers, options
        See `Settings`.

    Raises
    ------
    UnusableUrlError
        ``servers`` contains none, or kazoo is not installed.
    InvalidOptionError
        A time or rate is not positive.

    """

    __slots__ = ("__weakref__", "settings")

    def __init__(self, servers: str, **options: Any) -> None:  # noqa: ANN401
        self.settings = Settings(servers, **options)
        super().__init__(client_for(self.settings))

    def __repr__(self) -> str:
        return f"Nodes({self.settings.servers!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self.settings,))

    def close(self) -> None:
        """End the session of this process; the next request opens another."""
        self._client.close()


def client_for(settings: Settings, *, is_renewed: bool = True) -> "Client":
    """Return a client. Raises `UnusableUrlError` without kazoo, or for invalid servers."""
    try:
        from ledgerfs_cluster.zookeeper.client import Client  # kazoo is optional, and slow to import
        from ledgerfs_cluster.zookeeper.session import require_servers
    except ImportError as error:
        key = without_credentials(settings.servers)
        raise UnusableUrlError(f"{error}; pip install '.[cluster]' in a clone", key=key) from error
    require_servers(settings.servers)
    return Client(settings, is_renewed=is_renewed)


def _taken(paths: Iterator[str], most: int) -> list[str]:
    """Return the paths of the next packet."""
    some: list[str] = []
    size = 0
    while len(some) < most and size < _REQUEST_BYTES and (path := next(paths, None)) is not None:
        size += _require_path(path)
        some.append(path)
    return some


def _require_path(path: str) -> int:
    """Return the length of a path in bytes; raise `InvalidNameError` for an invalid path."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise InvalidNameError("not a valid ZooKeeper path: it cannot be encoded as UTF-8", key=repr(path)) from error
    if not path.startswith("/") or size > _REQUEST_BYTES:
        raise InvalidNameError("a ZooKeeper path must begin with / and be shorter than 256 KiB", key=path[:200])
    return size


def _restored(settings: Settings) -> Nodes:
    return Nodes(**{name: getattr(settings, name) for name in Settings.__dataclass_fields__})

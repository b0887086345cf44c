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

# A server takes requests of less than 1 MiB (jute.maxbuffer). It keeps whole replies in memory, twice while it makes one, and nodes have up
# to 1 MiB each: 512 such nodes under way ended a ZooKeeper with a heap of 512 MiB. At 16 a packet a node costs 12 µs, at 128 it costs 4.
_REQUEST_BYTES = 256 << 10
_REPLY_BYTES = 2 << 20
_FIRST_NODES = 8
_MOST_NODES = 16
_PACKETS_AHEAD = 8


class NodeReader:
    """Reads nodes over a client, in any thread. Reads of one process never go back in time.

    The first read may be of a server that is behind: see `catch_up`. A leader that was deposed, and has not noticed it yet, is behind
    itself: what must not be wrong even then is read in the session of a lock, behind a commit
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
            There is no such node.
        AccessDeniedError
            The server does not show it, or refuses the login.
        StoreUnreachableError
            No server answered in time, or the session of a lock is over.
        StoreError
            The server answered with another error, or with what is no answer (`WrongBodyError`).

        """
        return self._one(GET_DATA, path, node_at)

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node, in the order of ``paths``, or the error that `get` raises about this node alone.

        At most 128 nodes are asked for ahead of the caller. Raises `StoreUnreachableError`, and `AccessDeniedError` for a refused login.
        """
        return self._many(GET_DATA, iter(paths), node_at)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the nodes right below one. Raises the errors of `get`."""
        return self._one(GET_CHILDREN, path, children_at)

    def children_many(self, paths: Iterable[str]) -> Iterator[list[str] | LedgerfsError]:
        """Yield the sorted names of the nodes right below each, as `get_many` yields nodes."""
        return self._many(GET_CHILDREN, iter(paths), children_at)

    def catch_up(self) -> None:
        """Have all reads of this process from now on be no older than this moment: a server may be behind the others.

        One request, which the server passes on to the leader of the servers. Raises the errors of `get`.
        """
        (reply,) = self._client.replies(self._client.ask([AskOne(SYNC, self._client.full("/"))], "/"))
        if isinstance(reply, int):
            raise failure(reply, "/")

    def newest(self, path: str) -> Node | None:
        """Return a node as it is now, or None if there is none; `catch_up` and `get` in one step. Raises the errors of `get`."""
        try:
            return self._one(GET_DATA, path, node_at, is_newest=True)
        except ObjectNotFoundError:
            return None

    def _many(self, opcode: int, paths: Iterator[str], parse: Parse[Result]) -> Iterator[Result | LedgerfsError]:
        """Yield the results of all paths, in order: as many nodes in each packet as their sizes allow, and a few packets under way."""
        client, rate = self._client, self._client.pace.rate
        # With a bound on its rate, ten packets in a second; and one that waits for its turn would keep the results of the one before it
        # waiting, too.
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
    """The nodes of a ZooKeeper, with one session a process, opened on first use.

    Safe in threads, in forked children, which get sessions of their own, and in pickles. Nothing is ever written: no node, no watch.

    Parameters
    ----------
    servers, options
        See `Settings`.

    Raises
    ------
    UnusableUrlError
        ``servers`` names none, or kazoo is not installed.
    InvalidOptionError
        A time or rate that is not positive.

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
    """Return a client. Raises `UnusableUrlError` without kazoo, or for servers that are none."""
    try:
        from ledgerfs_cluster.zookeeper.client import Client  # kazoo is optional, and takes its time to import
        from ledgerfs_cluster.zookeeper.session import require_servers
    except ImportError as error:
        key = without_credentials(settings.servers)
        raise UnusableUrlError(f"{error}; pip install 'ledgerfs[cluster]'", key=key) from error
    require_servers(settings.servers)
    return Client(settings, is_renewed=is_renewed)


def _taken(paths: Iterator[str], most: int) -> list[str]:
    """Take the paths of the next packet."""
    some: list[str] = []
    size = 0
    while len(some) < most and size < _REQUEST_BYTES and (path := next(paths, None)) is not None:
        size += _require_path(path)
        some.append(path)
    return some


def _require_path(path: str) -> int:
    """Return how many bytes a path has; raise `InvalidNameError` for what is none."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise InvalidNameError("no text that ZooKeeper could have as a path", key=repr(path)) from error
    if not path.startswith("/") or size > _REQUEST_BYTES:
        raise InvalidNameError("a path of ZooKeeper begins with / and has less than 256 KiB", key=path[:200])
    return size


def _restored(settings: Settings) -> Nodes:
    return Nodes(**{name: getattr(settings, name) for name in Settings.__dataclass_fields__})

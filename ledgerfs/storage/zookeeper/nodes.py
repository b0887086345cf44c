"""Read nodes of a ZooKeeper: one at a time, or many with few packets."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ledgerfs.errors import InvalidNameError, InvalidOptionError, LedgerfsError, UnusableUrlError, WrongBodyError
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.zookeeper.change_requests import Sync
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.replies import Parse, children_at, failure, many_results, node_at, one_result
from ledgerfs.storage.zookeeper.requests import GET_CHILDREN, GET_DATA, ReadMany, ReadOne
from ledgerfs.storage.zookeeper.settings import Settings

if TYPE_CHECKING:
    from ledgerfs.storage.zookeeper.asking import Asked, Asker

__all__ = ["Node", "Nodes"]

Result = TypeVar("Result")

# A server takes requests of less than 1 MiB (jute.maxbuffer). It keeps whole replies in memory, twice while it makes one, and nodes have up
# to 1 MiB each: 512 such nodes under way ended a ZooKeeper with a heap of 512 MiB. At 16 a packet a node costs 12 µs, at 128 it costs 4.
_REQUEST_BYTES = 256 << 10
_REPLY_BYTES = 2 << 20
_FIRST_NODES = 8
_MOST_NODES = 16
_PACKETS_AHEAD = 8


class Nodes:
    """The nodes of a ZooKeeper, with one session a process, opened on first use.

    Safe in threads, in forked children, which get sessions of their own, and in pickles. Nothing is ever written: no node, no watch.

    Reads of one process never go back in time, but what is read first may be of a server that is behind: `catch_up`.

    Parameters
    ----------
    servers
        ``host:port,host:port``, and a folder (chroot) that all paths are below: ``host:port,host:port/folder``.
    timeout_s
        Seconds after which a server that never answered is given up, and which the session outlives without a connection. A request whose
        connection is lost is tried for twice as long.
    most_per_second
        How many nodes this process asks for in a second at most.
    username, password
        A login of the scheme ``digest``.
    use_ssl, verify_certs, check_hostname, ca, certfile, keyfile
        As kazoo has them. Names of hosts are checked unless certificates are not verified at all.

    Raises
    ------
    UnusableUrlError
        ``servers`` names none, or kazoo is not installed.
    InvalidOptionError
        A time or rate that is not positive.

    """

    __slots__ = ("__weakref__", "_asker", "_settings")

    def __init__(
        self,
        servers: str,
        *,
        timeout_s: float = 10,
        most_per_second: float | None = None,
        username: str | None = None,
        password: str | None = None,
        use_ssl: bool = False,
        verify_certs: bool = True,
        check_hostname: bool = True,
        ca: str | None = None,
        certfile: str | None = None,
        keyfile: str | None = None,
    ) -> None:
        for name, number in (("timeout_s", timeout_s), ("most_per_second", most_per_second)):
            if number is not None and not number > 0:
                raise InvalidOptionError(f"must be greater than 0, not {number}", key=name)
        if username is not None and ":" in username:
            raise InvalidOptionError("a name with a colon cannot be told to ZooKeeper", key="username")
        self._settings = Settings(
            servers=servers,
            timeout_s=timeout_s,
            most_per_second=most_per_second,
            username=username,
            password=password,
            use_ssl=use_ssl,
            verify_certs=verify_certs,
            check_hostname=check_hostname,
            ca=ca,
            certfile=certfile,
            keyfile=keyfile,
        )
        self._asker = _asker_for(self._settings)

    def __repr__(self) -> str:
        return f"Nodes({self._settings.servers!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self._settings,))

    @property
    def settings(self) -> Settings:
        """What they were made with, for who opens a session of their own."""
        return self._settings

    def get(self, path: str) -> Node:
        """Return one node.

        Raises
        ------
        ObjectNotFoundError
            There is no such node.
        AccessDeniedError
            The server does not show it, or refuses the login.
        StoreUnreachableError
            No server answered in time.
        StoreError
            The server answered with another error, or with what is no answer (`WrongBodyError`).

        """
        return _raised(self._one(GET_DATA, path, node_at))

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node, in the order of ``paths``, or the error that `get` raises about this node alone.

        At most 128 nodes are asked for ahead of the caller. Raises `StoreUnreachableError`, and `AccessDeniedError` for a refused login.
        """
        return self._many(GET_DATA, paths, node_at)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the nodes right below one. Raises the errors of `get`."""
        return _raised(self._one(GET_CHILDREN, path, children_at))

    def children_many(self, paths: Iterable[str]) -> Iterator[list[str] | LedgerfsError]:
        """Yield the sorted names of the nodes right below each, as `get_many` yields nodes."""
        return self._many(GET_CHILDREN, paths, children_at)

    def catch_up(self) -> None:
        """Have all that this process reads from now on be no older than this moment: a server may be behind the others.

        One request, which the server passes on to the leader of the servers. A leader that was deposed, and does not know it yet, is behind
        itself: what must not be wrong even then is read in the session of a lock, behind a commit
        (`ledgerfs.storage.zookeeper.changes.ClusterLock`). Raises the errors of `get`.
        """
        reply = self._asker.reply(self._asker.ask(Sync(self._asker.full("/")), "/"))
        if isinstance(reply, int):
            raise failure(reply, "/")

    def close(self) -> None:
        """End the session of this process; the next request opens another."""
        self._asker.close()

    def _one(self, opcode: int, path: str, parse: Parse[Result]) -> Result | LedgerfsError:
        _require_path(path)
        return _Packets(self._asker, opcode, parse).one(path)

    def _many(self, opcode: int, paths: Iterable[str], parse: Parse[Result]) -> Iterator[Result | LedgerfsError]:
        packets = _Packets(self._asker, opcode, parse)
        return packets.results(iter(paths))


@dataclass(slots=True)
class _Packet:
    """Paths that were asked for: all with one request, or each with its own."""

    paths: list[str]
    asked: "list[Asked]"


class _Packets(Generic[Result]):
    """The packets of one call: as many nodes in each as their sizes allow, and a few packets under way."""

    __slots__ = ("_ahead", "_asker", "_most", "_nodes", "_opcode", "_parse")

    def __init__(self, asker: "Asker", opcode: int, parse: Parse[Result]) -> None:
        self._asker = asker
        self._opcode = opcode
        self._parse = parse
        at_once = asker.pace.most_at_once
        self._most = _MOST_NODES if at_once is None else min(at_once, _MOST_NODES)
        self._nodes = min(_FIRST_NODES, self._most)
        # With a bound on its rate, a packet that waits for its turn would keep the results of the one before it waiting, too.
        self._ahead = _PACKETS_AHEAD if at_once is None else 1

    def one(self, path: str) -> Result | LedgerfsError:
        """Return the result of one node."""
        return self._single(self._asked(path))

    def results(self, paths: Iterator[str]) -> Iterator[Result | LedgerfsError]:
        """Yield the results of all paths, in order."""
        waiting: deque[_Packet] = deque()
        while True:
            while len(waiting) < self._ahead and (some := _taken(paths, self._nodes)):
                waiting.append(self._sent(some))
            if not waiting:
                return
            yield from self._received(waiting.popleft())

    def _sent(self, paths: list[str]) -> _Packet:
        if len(paths) == 1 or not self._asker.session().reads_many:
            return _Packet(paths, [self._asked(path) for path in paths])
        request = ReadMany(self._opcode, [self._asker.full(path) for path in paths])
        return _Packet(paths, [self._asker.ask(request, paths[0], len(paths))])

    def _asked(self, path: str) -> "Asked":
        return self._asker.ask(ReadOne(self._opcode, self._asker.full(path)), path)

    def _received(self, packet: _Packet) -> Sequence[Result | LedgerfsError]:
        first = packet.asked[0]
        if not isinstance(first.request, ReadMany):
            return [self._single(asked) for asked in packet.asked]
        found = self._whole(first, packet.paths)
        if found is not None:
            return found
        singles = [self._single(asked) for asked in [self._asked(path) for path in packet.paths]]
        if first.losses:
            # What is answered singly, but not as a packet, is no fault of the connection.
            self._asker.session().reads_many = False
        return singles

    def _whole(self, asked: "Asked", paths: Sequence[str]) -> list[Result | LedgerfsError] | None:
        """Return the results of a packet; None if its paths have to be asked for singly."""
        reply = self._asker.reply(asked)
        if isinstance(reply, int):
            return None
        packet, at = reply
        try:
            found = many_results(packet, at, self._opcode, paths, self._parse)
        except WrongBodyError:
            return None
        fitting = len(paths) * _REPLY_BYTES // len(packet)
        self._nodes = max(1, min(fitting, 2 * self._nodes, self._most))
        return found

    def _single(self, asked: "Asked") -> Result | LedgerfsError:
        reply = self._asker.reply(asked)
        if isinstance(reply, int):
            return failure(reply, asked.path)
        try:
            return one_result(*reply, asked.path, self._parse)
        except WrongBodyError as error:
            return error


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


def _raised(result: Result | LedgerfsError) -> Result:
    if isinstance(result, LedgerfsError):
        raise result
    return result


def _restored(settings: Settings) -> Nodes:
    return Nodes(**{name: getattr(settings, name) for name in Settings.__dataclass_fields__})


def _asker_for(settings: Settings) -> "Asker":
    """Return what asks for nodes. Raises `UnusableUrlError` without kazoo, or for servers that are none."""
    try:
        from ledgerfs.storage.zookeeper.asking import Asker  # kazoo is optional, and takes its time to import
        from ledgerfs.storage.zookeeper.session import require_servers
    except ImportError as error:
        key = without_credentials(settings.servers)
        raise UnusableUrlError(f"{error}; pip install 'ledgerfs[cluster]'", key=key) from error
    require_servers(settings.servers)
    return Asker(settings)

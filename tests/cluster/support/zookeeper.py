"""ZooKeeper's protocol on loopback, over nodes that tests set; it takes writes if a test wants them, and fails as servers and networks do.

Its answers were compared with those of ZooKeeper 3.9, byte for byte but for the ids of transactions.
"""

import contextlib
import itertools
import socket
import ssl
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from threading import Lock, Thread
from types import TracebackType
from typing import BinaryIO, Self

from tests.cluster.support.zookeeper_tree import (
    END,
    EXISTS,
    GET_CHILDREN,
    GET_CHILDREN_2,
    GET_DATA,
    MULTI,
    NO_AUTH,
    NO_NODE,
    OPERATION,
    SYNC,
    UNIMPLEMENTED,
    WRITES,
    RefusedError,
    Tree,
    operations,
    text,
)

__all__ = ["GET_CHILDREN", "GET_CHILDREN_2", "GET_DATA", "MULTI", "NO_AUTH", "NO_NODE", "SYNC"]

CLOSE, PING, MULTI_READ, AUTH = -11, 11, 22, 100
READS = {CLOSE, EXISTS, GET_DATA, GET_CHILDREN, PING, GET_CHILDREN_2, MULTI_READ, AUTH}

_HEADER = struct.Struct("!iqi")
_CONNECT = struct.Struct("!iqiq")
_CONNECTED = struct.Struct("!iiqi16s?")
_LARGEST_FRAME = 1 << 20
"""In bytes, as a real one has it (``jute.maxbuffer``)."""


Frame = Callable[[bytes], bytes]


class WriteFault(Enum):
    """What becomes of a write, of its answer, and of the session that sent it."""

    NONE = auto()
    LOST_BEFORE = auto()
    """Its connection breaks; it is never done."""
    LOST_AFTER = auto()
    """It is done; its connection breaks before the answer."""
    LATE = auto()
    """Its connection breaks; it is done after the next read of data was answered, as one that still lay in the buffer of a server."""
    EXPIRED_BEFORE = auto()
    """Its session ends, and it is never done."""
    EXPIRED_AFTER = auto()
    """It is done; its session ends before the answer."""


class ZooKeeperServer:
    """A server for ``with``, a thread a connection. Faults begin with the next request.

    ``requests`` counts by opcode; ``asked`` counts paths. ``not_reads`` holds each request that is no read: (opcode, path or ""), reads
    that set a watch, too. ``drop_after`` counts answers until all connections break;
    ``knows_multi_read`` makes it a server before 3.6; ``hangs`` lets it read and never answer; ``instead`` has, by opcode, what
    makes all bytes that are sent of an answer (its header and body, without the length).

    With ``takes_writes`` nodes are made, set and deleted, and ``not_reads`` does not hold that. ``writes`` holds the paths of each write
    that came; ``write_faults`` has what becomes of the next ones, one after the other; ``at_write`` is called before each.
    ``on_change`` is told of each write by a client that was done: {path: (data before, data after)}, None where there is no node. It is
    called while nobody else is answered, and must ask nothing of the server itself.
    """

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: Counter[int] = Counter()
        self.asked: Counter[str] = Counter()
        self.not_reads: list[tuple[int, str]] = []
        self.logins: list[tuple[str, bytes]] = []
        self.drop_after: int | None = None
        self.knows_multi_read = True
        self.hangs = False
        self.instead: dict[int, Frame] = {}
        self.connections_made = 0
        self.takes_writes = False
        self.writes: list[tuple[str, ...]] = []
        self.write_faults: deque[WriteFault] = deque()
        self.at_write: Callable[[], object] | None = None
        self.on_change: Callable[[Mapping[str, tuple[bytes | None, bytes | None]]], object] | None = None
        self._late: list[tuple[int, bytes, int]] = []
        self._tree = Tree()
        self._behind: Tree | None = None
        self._seen: dict[int, Tree] = {}
        self._session_ids = itertools.count(0x1000_0000_0001)
        self._sessions: set[int] = set()
        self._connections: set[socket.socket] = set()
        self._lock = Lock()
        self._listener: socket.socket | None = None
        self._port = port

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def nodes(self) -> dict[str, bytes]:
        """The data of all nodes, as they are now."""
        with self._lock:
            return {path: node.data for path, node in self._tree.nodes.items()}

    @property
    def versions(self) -> dict[str, int]:
        """How often the data of each node was set."""
        with self._lock:
            return {path: node.version for path, node in self._tree.nodes.items()}

    def fall_behind(self) -> None:
        """Be a follower that hears nothing of its leader by itself from now on: it answers reads with the nodes as they are now.

        A session that writes, or asks for a sync, sees them as they are then. Who has seen more than this server has is sent away.
        """
        with self._lock:
            self._behind = self._tree.as_it_is()
            self._seen.clear()

    def keep_up(self) -> None:
        """Be as the others are again."""
        with self._lock:
            self._behind = None
            self._seen.clear()

    def _as_seen(self, session: int) -> Tree:
        """Return the nodes that a session is shown, with the lock."""
        return self._seen.get(session, self._behind or self._tree)

    def get(self, path: str) -> tuple[bytes, int] | None:
        """Return data and version of a node; None if there is none."""
        with self._lock:
            node = self._tree.nodes.get(path)
            return None if node is None else (node.data, node.version)

    def set(self, path: str, data: bytes, *, created_ms: int | None = None, version: int | None = None) -> bool:
        """Make or change a node; its parents are made. With ``version`` only one of that version is changed: whether it was is returned."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            transaction = self._tree.next()
            node = self._tree.nodes.get(path)
            if version is not None and (node is None or node.version != version):
                return False
            if node is None:
                node = self._tree.make(path, now, transaction)
            else:
                node.version += 1
            self._tree.put(node, data, now, transaction)
            if created_ms is not None:
                node.created_ms = created_ms
            return True

    def delete(self, path: str) -> None:
        """Remove a node and all below it."""
        with self._lock:
            self._tree.remove(path, self._tree.next())

    def no_auth(self, path: str) -> None:
        """Refuse to show a node to anybody."""
        self._tree.no_auth.add(path)

    def as_to_all(self, path: str) -> None:
        """Show a node to everybody again."""
        self._tree.no_auth.discard(path)

    def drop_connections(self) -> None:
        """Break all connections; clients may come again, into their sessions."""
        with self._lock:
            broken, self._connections = self._connections, set()
        for connection in broken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def expire_sessions(self) -> None:
        """Break all connections, and know none of their sessions when they come again."""
        with self._lock:
            for session in list(self._sessions):
                self._end(session)
        self.drop_connections()

    def expire_owner(self, path: str) -> None:
        """Know the session no more that made an ephemeral node, if there is such a node; its connection is told with its next write."""
        with self._lock:
            node = self._tree.nodes.get(path)
            if node is not None:
                self._end(node.owner)

    def refuse(self) -> None:
        """Break all connections and listen no more."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop_connections()

    def listen(self) -> None:
        """Listen, after `refuse` at the same address."""
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=64)
        self._port = self._listener.getsockname()[1]
        Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _end(self, session: int) -> None:
        """Know a session no more, with the lock."""
        self._sessions.discard(session)
        self._seen.pop(session, None)
        self._tree.end(session)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if self._listener is not listener:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add(connection)
                self.connections_made += 1
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, EOFError), self._secured(connection) as secured:
                received = secured.makefile("rb")
                session = self._connect(secured, received)
                if session:
                    while self._answer(secured, _frame(received), session):
                        pass
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _secured(self, connection: socket.socket) -> socket.socket:
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)

    def _connect(self, connection: socket.socket, received: BinaryIO) -> int:
        """Answer who comes, and return their session; 0 if there is none."""
        greeting = _frame(received)
        if len(greeting) < _CONNECT.size:
            return 0  # somebody else's client: the address was another server's a moment ago
        _, newest, timeout_ms, session = _CONNECT.unpack_from(greeting)
        if self.hangs:
            _frame(received)  # waits until the client goes
            return 0
        with self._lock:
            if newest > self._as_seen(session).newest:
                return 0
            is_known = not session or session in self._sessions
            session = session or next(self._session_ids)
            if is_known:
                self._sessions.add(session)
        body = _CONNECTED.pack(0, timeout_ms if is_known else 0, session if is_known else 0, 16, b"p" * 16, False)
        self._send(connection, 0, body)
        return session if is_known else 0

    def _answer(self, connection: socket.socket, request: bytes, session: int) -> bool:
        """Answer one request; False ends the connection."""
        xid, opcode = struct.unpack_from("!ii", request)
        self.requests[opcode] += 1
        if self.hangs:
            return True
        if opcode != PING and self._is_to_drop():
            self.drop_connections()
            return False
        if opcode in WRITES and self.takes_writes and self._is_lost(opcode, request[8:], session):
            return False
        with self._lock:
            code, body = self._result(opcode, request[8:], session)
            if opcode == SYNC or opcode in WRITES:
                self._catch_up(session)
            newest = self._tree.next() if self._behind is None else self._as_seen(session).newest
        self._send(connection, opcode, _HEADER.pack(xid, newest, code) + body)
        if opcode == GET_DATA:
            self._do_late()
        return opcode != CLOSE and code != UNIMPLEMENTED

    def _catch_up(self, session: int) -> None:
        if self._behind is not None:
            self._seen[session] = self._tree.as_it_is()

    def _is_to_drop(self) -> bool:
        if self.drop_after is None:
            return False
        self.drop_after -= 1
        if self.drop_after >= 0:
            return False
        self.drop_after = None
        return True

    def _send(self, connection: socket.socket, opcode: int, body: bytes) -> None:
        instead = self.instead.get(opcode)
        sent = struct.pack("!i", len(body)) + body if instead is None else instead(body)
        if sent:
            connection.sendall(sent)

    def _is_lost(self, opcode: int, request: bytes, session: int) -> bool:
        """Do to a write what is to become of it; return whether it gets no answer."""
        if self.at_write is not None:
            self.at_write()
        fault = self.write_faults.popleft() if self.write_faults else WriteFault.NONE
        if fault is WriteFault.NONE:
            return False
        with self._lock:
            if fault in {WriteFault.LOST_AFTER, WriteFault.EXPIRED_AFTER}:
                self._result(opcode, request, session)
            if fault in {WriteFault.EXPIRED_BEFORE, WriteFault.EXPIRED_AFTER}:
                self._end(session)
            if fault is WriteFault.LATE:
                self._late.append((opcode, request, session))
        self.drop_connections()
        return True

    def _do_late(self) -> None:
        with self._lock:
            late, self._late = self._late, []
            for opcode, request, session in late:
                if session in self._sessions:
                    self._result(opcode, request, session)

    def _result(self, opcode: int, request: bytes, session: int) -> tuple[int, bytes]:
        if opcode == AUTH:
            scheme, at = text(request, 4)
            login, _ = text(request, at)
            self.logins.append((scheme, login.encode()))
        if opcode == CLOSE:
            self._end(session)
        if opcode in {PING, AUTH, CLOSE}:
            return 0, b""
        if opcode == MULTI_READ and self.knows_multi_read:
            return 0, self._read_many(request, session)
        try:
            if opcode == SYNC:
                return 0, request
            if self.takes_writes and opcode in WRITES:
                return 0, self._change(opcode, request, session)
            if opcode not in READS - {MULTI_READ}:
                if opcode != MULTI_READ:
                    self.not_reads.append((opcode, ""))
                return UNIMPLEMENTED, b""
            path, at = text(request, 0)
            self._note_watch(opcode, path, request[at])
            return 0, self._as_seen(session).read(opcode, path)
        except RefusedError as error:
            return error.code, b""

    def _change(self, opcode: int, request: bytes, session: int) -> bytes:
        paths = [path for _, path in operations(request)] if opcode == MULTI else [text(request, 0)[0]]
        self.writes.append(tuple(paths))
        before = {path: self._state(path) for path in paths}
        answer = self._tree.change(opcode, request, session)
        after = {path: (was, self._state(path)) for path, was in before.items()}
        # A node that is set as it was has another version.
        changed = {path: (was[0], now[0]) for path, (was, now) in after.items() if was != now}
        if changed and self.on_change is not None:
            self.on_change(changed)
        return answer

    def _state(self, path: str) -> tuple[bytes | None, int]:
        """Return data and version of a node, None and -1 of none."""
        node = self._tree.nodes.get(path)
        return (None, -1) if node is None else (node.data, node.version)

    def _note_watch(self, opcode: int, path: str, watch: int) -> None:
        self.asked[path] += 1
        if watch:
            self.not_reads.append((opcode, path))

    def _read_many(self, request: bytes, session: int) -> bytes:
        found, at = [], 0
        while True:
            opcode, is_end, _ = OPERATION.unpack_from(request, at)
            if is_end:
                return b"".join([*found, END])
            path, at = text(request, at + OPERATION.size)
            self._note_watch(opcode, path, request[at])
            at += 1
            try:
                found.append(OPERATION.pack(opcode, False, 0) + self._as_seen(session).read(opcode, path))
            except RefusedError as error:
                found.append(OPERATION.pack(-1, False, error.code) + struct.pack("!i", error.code))


def _frame(received: BinaryIO) -> bytes:
    (length,) = struct.unpack("!i", _exactly(received, 4))
    if not 0 <= length <= _LARGEST_FRAME:
        raise EOFError
    return _exactly(received, length)


def _exactly(received: BinaryIO, size: int) -> bytes:
    data = received.read(size)
    if len(data) < size:
        raise EOFError
    return data

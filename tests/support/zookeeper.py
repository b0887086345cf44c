"""ZooKeeper's protocol on loopback, over nodes that tests set; it answers reads only, and can fail as servers and networks do.

Its answers were compared with those of ZooKeeper 3.9, byte for byte but for the ids of transactions.
"""

import contextlib
import itertools
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from types import TracebackType
from typing import BinaryIO, Self

CLOSE, EXISTS, GET_DATA, GET_CHILDREN, PING, GET_CHILDREN_2, MULTI_READ, AUTH = -11, 3, 4, 8, 11, 12, 22, 100
NO_NODE, NO_AUTH, UNIMPLEMENTED = -101, -102, -6
READS = {CLOSE, EXISTS, GET_DATA, GET_CHILDREN, PING, GET_CHILDREN_2, MULTI_READ, AUTH}

_HEADER = struct.Struct("!iqi")
_OPERATION = struct.Struct("!i?i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_CONNECT = struct.Struct("!iqiq")
_CONNECTED = struct.Struct("!iiqi16s?")
_END = _OPERATION.pack(-1, True, -1)
_LARGEST_FRAME = 1 << 20
"""In bytes, as a real one has it (``jute.maxbuffer``)."""


Frame = Callable[[bytes], bytes]


@dataclass
class StoredNode:
    """A node as the server keeps it; times are in ms since 1970."""

    data: bytes
    created_ms: int
    changed_ms: int
    version: int = 0
    children_version: int = 0
    transactions: tuple[int, int, int] = (0, 0, 0)
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> bytes:
        created, changed, children = self.transactions
        return _STAT.pack(
            *(created, changed, self.created_ms, self.changed_ms, self.version, self.children_version, 0, 0),
            *(len(self.data), len(self.children), children),
        )


class _RefusedError(Exception):
    """An answer that is an error code alone."""


class ZooKeeperServer:
    """A server for ``with``, a thread a connection. Faults begin with the next request.

    ``requests`` counts by opcode; ``asked`` counts paths. ``not_reads`` holds each request that is no read: (opcode, path or ""), reads
    that set a watch, too. ``latency_s`` is waited before each answer; ``drop_after`` counts answers until all connections break;
    ``knows_multi_read`` makes it a server before 3.6; ``hangs`` lets it read and never answer; ``instead`` has, by opcode, what
    makes all bytes that are sent of an answer (its header and body, without the length).
    """

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: Counter[int] = Counter()
        self.asked: Counter[str] = Counter()
        self.not_reads: list[tuple[int, str]] = []
        self.logins: list[tuple[str, bytes]] = []
        self.latency_s = 0.0
        self.drop_after: int | None = None
        self.knows_multi_read = True
        self.hangs = False
        self.instead: dict[int, Frame] = {}
        self.connections_made = 0
        self._nodes: dict[str, StoredNode] = {}
        self._no_auth: set[str] = set()
        self._transactions = itertools.count(1)
        self._session_ids = itertools.count(0x1000_0000_0001)
        self._sessions: set[int] = set()
        self._connections: set[socket.socket] = set()
        self._lock = Lock()
        self._listener: socket.socket | None = None
        self._port = port
        self.set("/", b"")

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
            return {path: node.data for path, node in self._nodes.items()}

    def set(self, path: str, data: bytes, *, created_ms: int | None = None) -> None:
        """Make or change a node; its parents are made."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            transaction = next(self._transactions)
            node = self._nodes.get(path)
            if node is None:
                node = self._make(path, now, transaction)
            else:
                node.version += 1
            node.data, node.changed_ms = data, now
            node.transactions = (node.transactions[0], transaction, node.transactions[2])
            if created_ms is not None:
                node.created_ms = created_ms

    def delete(self, path: str) -> None:
        """Remove a node and all below it."""
        with self._lock:
            for one in [one for one in self._nodes if one == path or one.startswith(f"{path}/")]:
                del self._nodes[one]
            parent, _, name = path.rpartition("/")
            above = self._nodes[parent or "/"]
            del above.children[name]
            above.children_version += 1
            above.transactions = (*above.transactions[:2], next(self._transactions))

    def no_auth(self, path: str) -> None:
        """Refuse to show a node to anybody."""
        self._no_auth.add(path)

    def drop_connections(self) -> None:
        """Break all connections; clients may come again, into their sessions."""
        with self._lock:
            broken, self._connections = self._connections, set()
        for connection in broken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def expire_sessions(self) -> None:
        """Break all connections, and know none of their sessions when they come again."""
        self._sessions.clear()
        self.drop_connections()

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

    def _make(self, path: str, now: int, transaction: int) -> StoredNode:
        node = self._nodes[path] = StoredNode(b"", now, now, transactions=(transaction, transaction, transaction))
        if path != "/":
            parent, _, name = path.rpartition("/")
            above = self._nodes.get(parent or "/") or self._make(parent, now, transaction)
            above.children[name] = None
            above.children_version += 1
            above.transactions = (*above.transactions[:2], transaction)
        return node

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
                if self._connect(secured, received):
                    while self._answer(secured, _frame(received)):
                        pass
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _secured(self, connection: socket.socket) -> socket.socket:
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)

    def _connect(self, connection: socket.socket, received: BinaryIO) -> bool:
        greeting = _frame(received)
        if len(greeting) < _CONNECT.size:
            return False  # somebody else's client: the address was another server's a moment ago
        _, _, timeout_ms, session = _CONNECT.unpack_from(greeting)
        if self.hangs:
            return _frame(received) == b""  # waits until the client goes
        is_known = not session or session in self._sessions
        session = session or next(self._session_ids)
        self._sessions.add(session)
        body = _CONNECTED.pack(0, timeout_ms if is_known else 0, session if is_known else 0, 16, b"p" * 16, False)
        self._send(connection, 0, body)
        return is_known

    def _answer(self, connection: socket.socket, request: bytes) -> bool:
        """Answer one request; False ends the connection."""
        xid, opcode = struct.unpack_from("!ii", request)
        self.requests[opcode] += 1
        if self.hangs:
            return True
        if self.latency_s:
            time.sleep(self.latency_s)
        if opcode != PING and self._is_to_drop():
            self.drop_connections()
            return False
        with self._lock:
            code, body = self._result(opcode, request[8:])
            newest = next(self._transactions)
        self._send(connection, opcode, _HEADER.pack(xid, newest, code) + body)
        return opcode != CLOSE and code != UNIMPLEMENTED

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

    def _result(self, opcode: int, request: bytes) -> tuple[int, bytes]:
        if opcode == AUTH:
            scheme, at = _text(request, 4)
            login, _ = _text(request, at)
            self.logins.append((scheme, login.encode()))
        if opcode in {PING, AUTH, CLOSE}:
            return 0, b""
        if opcode == MULTI_READ and self.knows_multi_read:
            return 0, self._read_many(request)
        if opcode not in READS - {MULTI_READ}:
            if opcode != MULTI_READ:
                self.not_reads.append((opcode, ""))
            return UNIMPLEMENTED, b""
        path, at = _text(request, 0)
        self._note_watch(opcode, path, request[at])
        try:
            return 0, self._read(opcode, path)
        except _RefusedError as error:
            return error.args[0], b""

    def _note_watch(self, opcode: int, path: str, watch: int) -> None:
        self.asked[path] += 1
        if watch:
            self.not_reads.append((opcode, path))

    def _read_many(self, request: bytes) -> bytes:
        found, at = [], 0
        while True:
            opcode, is_end, _ = _OPERATION.unpack_from(request, at)
            if is_end:
                return b"".join([*found, _END])
            path, at = _text(request, at + _OPERATION.size)
            self._note_watch(opcode, path, request[at])
            at += 1
            try:
                found.append(_OPERATION.pack(opcode, False, 0) + self._read(opcode, path))
            except _RefusedError as error:
                found.append(_OPERATION.pack(-1, False, error.args[0]) + struct.pack("!i", error.args[0]))

    def _read(self, opcode: int, path: str) -> bytes:
        node = self._nodes.get(path)
        if node is None:
            raise _RefusedError(NO_NODE)
        if opcode == EXISTS:
            return node.stat()
        if path in self._no_auth:
            raise _RefusedError(NO_AUTH)
        if opcode == GET_DATA:
            return struct.pack("!i", len(node.data)) + node.data + node.stat()
        names = [name.encode() for name in node.children]
        body = b"".join([struct.pack("!i", len(names)), *(struct.pack("!i", len(name)) + name for name in names)])
        return body + node.stat() if opcode == GET_CHILDREN_2 else body


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


def _text(request: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!i", request, at)
    return request[at + 4 : at + 4 + length].decode(), at + 4 + length

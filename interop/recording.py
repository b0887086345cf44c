"""What is sent to a server, recorded on the way: whether there was anything but reads is told by the bytes, not by who sent them."""

import contextlib
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import NamedTuple

from interop.processes import free_ports

READ, BATCH_READ = 2, 7
GET_DATA, GET_CHILDREN, MULTI_READ = 4, 8, 22
_CLOSE, _EXISTS, _SYNC, _PING, _GET_CHILDREN_2 = -11, 3, 9, 11, 12
_WITH_WATCH = {_EXISTS, GET_DATA, GET_CHILDREN, _GET_CHILDREN_2}
_WITHOUT_PATH = {_CLOSE, _PING, _SYNC}

_FRAME = struct.Struct("!i")
_BOOKIE_HEADER = struct.Struct("!IQ")
_REQUEST = struct.Struct("!ii")
_OPERATION = struct.Struct("!i?i")
_CHUNK = 1 << 20


class BookieRequest(NamedTuple):
    """A request in the second version of BookKeeper's protocol; a flag of 1 would fence the ledger."""

    version: int
    operation: int
    flags: int
    size: int
    ledger_id: int


class ZooKeeperRequest(NamedTuple):
    """A request; of one that has several in it, each."""

    operation: int
    path: str
    watches: bool


@dataclass
class Recorder:
    """A port before a server's: passes on all that comes, and keeps what the server is sent.

    ``stop`` breaks its connections, as the end of the server does.
    """

    target_port: int = 0
    port: int = field(default_factory=lambda: free_ports(1)[0])
    _sent: list[bytearray] = field(default_factory=list)
    _listener: socket.socket | None = None
    _open: list[socket.socket] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        """Hang up on all, and listen no more."""
        with self._lock:
            listener, self._listener = self._listener, None
            broken, self._open = self._open, []
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for one in broken:
            _hang_up(one)

    def connections(self) -> list[bytes]:
        """Return what was sent so far over each connection."""
        with self._lock:
            return [bytes(sent) for sent in self._sent]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # stopped
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), 5)
            except OSError:
                client.close()
                continue
            sent = bytearray()
            with self._lock:
                if self._listener is not listener:
                    client.close()
                    server.close()
                    return
                self._open += [client, server]
                self._sent.append(sent)
            Thread(target=_pass_on, args=(client, server, sent), daemon=True).start()


def _pass_on(client: socket.socket, server: socket.socket, sent: bytearray) -> None:
    """Copy both ways until one hangs up; then hang up on the other."""
    with contextlib.suppress(OSError, ValueError):  # `stop` may hang up at any time, before the first byte too
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(None)
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for one in ready:
                data = one.recv(_CHUNK)
                if not data:
                    return
                if one is client:
                    sent += data
                (server if one is client else client).sendall(data)
    _hang_up(client)
    _hang_up(server)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def bookie_requests(recorder: Recorder) -> Iterator[BookieRequest]:
    """Yield all that a bookie was asked."""
    for sent in recorder.connections():
        for frame in _frames(sent):
            header, ledger_id = _BOOKIE_HEADER.unpack_from(frame)
            yield BookieRequest(header >> 24, header >> 16 & 0xFF, header & 0xFFFF, len(frame), ledger_id)


def zookeeper_requests(recorder: Recorder) -> Iterator[ZooKeeperRequest]:
    """Yield all that ZooKeeper was asked, but for the first of each connection, which opens a session."""
    for sent in recorder.connections():
        # Of a program that is ended as it begins there may be a connection that asks nothing.
        frames = list(_frames(sent))[1:]
        for frame in frames:
            _, operation = _REQUEST.unpack_from(frame)
            if operation == MULTI_READ:
                yield from _operations(frame)
            elif operation in _WITH_WATCH:
                yield _with_watch(operation, frame, _REQUEST.size)[0]
            else:
                yield ZooKeeperRequest(operation, "", watches=False)


def is_read(request: BookieRequest | ZooKeeperRequest) -> bool:
    """Whether a request changes nothing, and asks for no watch."""
    if isinstance(request, BookieRequest):
        return request[:4] in {(2, READ, 0, 20), (2, BATCH_READ, 0, 40)}
    return request.operation in _WITH_WATCH | _WITHOUT_PATH and not request.watches


def _operations(frame: bytes) -> Iterator[ZooKeeperRequest]:
    at = _REQUEST.size
    while True:
        operation, is_end, _ = _OPERATION.unpack_from(frame, at)
        if is_end:
            return
        request, at = _with_watch(operation, frame, at + _OPERATION.size)
        yield request


def _with_watch(operation: int, frame: bytes, at: int) -> tuple[ZooKeeperRequest, int]:
    (size,) = _FRAME.unpack_from(frame, at)
    behind = at + _FRAME.size + size
    path = frame[at + _FRAME.size : behind].decode()
    return ZooKeeperRequest(operation, path, watches=bool(frame[behind])), behind + 1


def _frames(sent: bytes) -> list[bytes]:
    """Return the whole frames of a connection, each without its length."""
    found = []
    at = 0
    while at + _FRAME.size <= len(sent):
        (size,) = _FRAME.unpack_from(sent, at)
        at += _FRAME.size
        if at + size <= len(sent):
            found.append(sent[at : at + size])
        at += size
    return found

"""Ports before those of servers, at which connections can be held, cut, and led elsewhere."""

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

_CHUNK = 1 << 16
_CONNECT_S = 5
_PAUSE_S = 0.02


@dataclass
class Link:
    """A port before a server's. For ``with``; any thread may call it.

    Attributes
    ----------
    target
        The port that new connections are led to; None to refuse them.
    patience_s
        For how long a server is waited for that does not listen yet, while whoever comes believes to be connected.

    """

    target: int | None
    patience_s: float = 0
    port: int = field(init=False)
    _goes_on: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _open: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    _abandoned: list[socket.socket] = field(default_factory=list)
    _listener: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._goes_on.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Hang up on all, and listen no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.target = None
        self.cut()
        self._goes_on.set()

    def cut(self) -> None:
        """Hang up on all; who comes again is led on."""
        with self._lock:
            cut, self._open = self._open, []
            abandoned, self._abandoned = self._abandoned, []
        for one in (*(end for pair in cut for end in pair), *abandoned):
            _hang_up(one)

    def abandon(self) -> None:
        """Hang up on clients alone, and refuse them; the server notices nothing until `cut`."""
        self.target = None
        with self._lock:
            cut, self._open = self._open, []
            self._abandoned += [server for _, server in cut]
        for client, _ in cut:
            _hang_up(client)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pass nothing on, and lose nothing, during the ``with``."""
        self._goes_on.clear()
        try:
            yield
        finally:
            self._goes_on.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = self._connected()
        if server is None:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(None)
        with self._lock:
            self._open.append((client, server))
        Thread(target=self._pass_on, args=(client, server, (client, server)), daemon=True).start()
        self._pass_on(server, client, (client, server))

    def _connected(self) -> socket.socket | None:
        until = time.monotonic() + self.patience_s
        while (target := self.target) is not None:
            try:
                return socket.create_connection(("127.0.0.1", target), _CONNECT_S)
            except OSError:
                if time.monotonic() > until:
                    break
                time.sleep(_PAUSE_S)
        return None

    def _pass_on(self, one: socket.socket, other: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(_CHUNK):
                self._goes_on.wait()
                other.sendall(data)
        with self._lock:
            if pair not in self._open:
                return  # cut, or abandoned
            self._open.remove(pair)
        for end in pair:
            _hang_up(end)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

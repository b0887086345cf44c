"""Bookies for tests: real servers on loopback that answer BookKeeper's V2 reads from a dictionary, note all else, and fail on demand.

What they answer is what a bookie of 4.17 was seen to answer (``docs/formats/bookkeeper.md``). They never take an entry from the wire:
whatever is no plain read is refused and stands in `BookieServer.not_reads`.
"""

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

OK, NO_LEDGER, NO_ENTRY, BAD_REQUEST, UNAUTHORISED, TOO_MANY_REQUESTS = 0, 1, 2, 100, 102, 106
READ, BATCH = 2, 7
NEWEST = -1
LARGEST_BATCH = 5 << 20
"""Bytes of the largest batch that a bookie sends, its first entry aside (``maxBatchReadSize``)."""

_V2 = 2
_FENCE = 1
_LARGEST_FRAME = 5 << 20
_SINGLE = struct.Struct(">iIqq")
_SINGLE_REPLY = struct.Struct(">iIIqq")
_BATCH = struct.Struct(">qqqiq")
_BATCH_REPLY = struct.Struct(">iIIqqq")
_SINGLE_HEADER = _V2 << 24 | READ << 16
_BATCH_HEADER = _V2 << 24 | BATCH << 16
_OPERATIONS = {1: "add", READ: "read", 3: "auth", 4: "read LAC", 5: "write LAC", 6: "bookie info", BATCH: "batch"}


class Asked(NamedTuple):
    """One read: of an entry (``most_entries`` 1, ``most_bytes`` 0), or of a batch that begins with it."""

    ledger_id: int
    entry_id: int
    most_entries: int = 1
    most_bytes: int = 0


_ZOOKEEPER_GREETINGS = range(44, 46)
"""Bytes of the packet with which a session of ZooKeeper begins; its first four are 0."""


class BookieServer:
    """A bookie: a thread on a loopback port. For ``with``; it may be filled and read at any time.

    Attributes
    ----------
    requests
        How many requests came, by kind: ``"read"``, ``"batch"``, or what stands in ``not_reads``.
    asked
        Every read, in the order they came.
    not_reads
        A sentence for everything that was no plain read: adds, fences, authentication, packets of V3. Tests assert that it is empty.
    reverse_replies
        Whether requests that came together are answered the last one first.
    is_unauthorised
        Whether every read is refused, as by a bookie that demands authentication.
    is_silent
        Whether requests are taken and never answered.
    trickle_s
        How long after each byte of a reply the next one is sent; 0 to send all at once.
    spoil
        Gets the bytes of replies that are to be sent together, and returns what is sent instead; None resets the connection.

    """

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self.requests: Counter[str] = Counter()
        self.asked: list[Asked] = []
        self.not_reads: list[str] = []
        self.reverse_replies = False
        self.is_unauthorised = False
        self.is_silent = False
        self.trickle_s = 0.0
        self.spoil: Callable[[bytes], bytes | None] | None = None
        self._ledgers: dict[int, dict[int, bytes]] = {}
        # Not sought among the entries, to which others may be added meanwhile.
        self._newest: dict[int, int] = {}
        self._sent_back = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._open: set[_Connection] = set()
        self._kept_port: socket.socket | None = None
        # The port is known, and nobody else's, from now on.
        self._listener: socket.socket | None = self._listen()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._kept_port is not None:
            self._kept_port.close()

    @property
    def address(self) -> str:
        """``host:port``; it stays, also after `kill`."""
        return f"{self._host}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    # What it holds.

    def add(self, ledger_id: int, entry_id: int, stored: bytes) -> None:
        """Keep an entry as it is stored and sent: header, digest, payload."""
        self._ledgers.setdefault(ledger_id, {})[entry_id] = stored
        self._newest[ledger_id] = max(entry_id, self._newest.get(ledger_id, NEWEST))

    def remove_ledger(self, ledger_id: int) -> None:
        """Forget a ledger, as a bookie does some time after it was deleted."""
        self._ledgers.pop(ledger_id, None)
        self._newest.pop(ledger_id, None)

    def remove_entry(self, ledger_id: int, entry_id: int) -> None:
        """Lose one entry."""
        del self._ledgers[ledger_id][entry_id]
        self._newest[ledger_id] = max(self._ledgers[ledger_id], default=NEWEST)

    def corrupt(self, ledger_id: int, entry_id: int, at: int = -1, bit: int = 0) -> None:
        """Flip one bit of a stored entry, in its last byte unless another place is told; doing so again mends it."""
        stored = bytearray(self._ledgers[ledger_id][entry_id])
        stored[at] ^= 1 << bit
        self._ledgers[ledger_id][entry_id] = bytes(stored)

    def entries(self, ledger_id: int) -> Mapping[int, bytes]:
        """Return the stored entries of a ledger by id; none if it is not known."""
        return self._ledgers.get(ledger_id, {})

    @property
    def ledgers(self) -> list[int]:
        return sorted(self._ledgers)

    # What befalls it.

    def start(self) -> None:
        """Take connections, again after `kill`, at the same address."""
        if self._thread is not None:
            return
        if self._listener is None:
            self._listener = self._listen()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(self._loop, self._listener, ready), daemon=True)
        self._thread.start()
        ready.wait()

    def kill(self) -> None:
        """Reset all connections and close the port: who connects is refused. What it holds stays."""
        listener, self._listener = self._listener, None
        if self._thread is not None:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = self._loop = None
        elif listener is not None:
            listener.close()
        if self._kept_port is None:
            self._kept_port = self._bound()

    def drop_connections(self) -> None:
        """Reset all connections; new ones are welcome."""
        if self._loop is None:
            return
        done = threading.Event()

        def drop() -> None:
            self._reset_all()
            done.set()

        self._loop.call_soon_threadsafe(drop)
        done.wait()

    def too_many(self, times: int) -> None:
        """Answer the next reads with "too many requests"."""
        self._sent_back = times

    # How it answers.

    def reply_to(self, packet: bytes | memoryview) -> bytes:
        """Return the reply to a packet, with its length before it; raises `ConnectionError` where a bookie closes the connection."""
        header = int.from_bytes(packet[:4])
        if header == _SINGLE_HEADER and len(packet) == 20:
            return self._single(*struct.unpack_from(">qq", packet, 4))
        if header == _BATCH_HEADER and len(packet) == 40:
            return self._batch(*_BATCH.unpack_from(packet, 4))
        return self._refusal(header, packet)

    def _single(self, ledger_id: int, entry_id: int) -> bytes:
        self.requests["read"] += 1
        self.asked.append(Asked(ledger_id, entry_id))
        code, entries = self._find(ledger_id)
        stored = b""
        if not code:
            # A bookie's answer to "the newest" names the entry that was asked for, which is none.
            found = entries.get(self._newest.get(ledger_id, NEWEST) if entry_id == NEWEST else entry_id)
            code, stored = (NO_ENTRY, b"") if found is None else (OK, found)
        return _SINGLE_REPLY.pack(24 + len(stored), _SINGLE_HEADER, code, ledger_id, entry_id) + stored

    def _batch(self, ledger_id: int, first: int, request_id: int, most_entries: int, most_bytes: int) -> bytes:
        self.requests["batch"] += 1
        self.asked.append(Asked(ledger_id, first, most_entries, most_bytes))
        code, entries = self._find(ledger_id)
        listed: list[bytes] = []
        if not code and first not in entries:
            code = NO_ENTRY
        if not code:
            room = min(most_bytes, LARGEST_BATCH) - 36
            for entry_id in range(first, first + (most_entries if most_entries > 0 else 1 << 31)):
                stored = entries.get(entry_id)
                if stored is None:
                    break
                room -= len(stored) + 4
                if listed and room < 0:
                    break
                listed += (len(stored).to_bytes(4), stored)
        body = b"".join(listed)
        return _BATCH_REPLY.pack(32 + len(body), _BATCH_HEADER, code, ledger_id, first, request_id) + body

    def _find(self, ledger_id: int) -> tuple[int, Mapping[int, bytes]]:
        if self.is_unauthorised:
            return UNAUTHORISED, {}
        if self._sent_back > 0:
            self._sent_back -= 1
            return TOO_MANY_REQUESTS, {}
        entries = self._ledgers.get(ledger_id)
        return (NO_LEDGER, {}) if entries is None else (OK, entries)

    def _refusal(self, header: int, packet: bytes | memoryview) -> bytes:
        """Note what is no plain read; packets that V2 knows are refused, and others close the connection."""
        version, code, flags = header >> 24, header >> 16 & 0xFF, header & 0xFFFF
        if header == 0 and len(packet) in _ZOOKEEPER_GREETINGS:
            # A session that looks for its ZooKeeper, of a test before, which listened at this port.
            raise ConnectionError("a session of ZooKeeper")
        if version != _V2:
            kind = "packet of V3" if version == 0x0A else f"packet of version {version}"
        else:
            kind = _OPERATIONS.get(code, f"operation {code}")
            kind += (
                " with the flag of fencing"
                if code == READ and flags & _FENCE
                else f" with flags {flags}"
                if flags
                else ""
            )
        self.requests[kind] += 1
        self.not_reads.append(f"{kind}: {bytes(packet[:60]).hex()}")
        if version != _V2 or len(packet) < 20:
            raise ConnectionError(kind)
        ledger_id, entry_id = struct.unpack_from(">qq", packet, 4)
        return _SINGLE_REPLY.pack(24, header & 0xFFFF0000, BAD_REQUEST, ledger_id, entry_id)

    # Its thread.

    def _listen(self) -> socket.socket:
        kept, self._kept_port = self._kept_port, None
        listener = self._bound()
        if kept is not None:
            kept.close()
        try:
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        return listener

    def _bound(self) -> socket.socket:
        """Return a socket that has the port, and refuses whoever connects: nobody else gets the port while it is not listened at."""
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self._host, self._port))
        except OSError:
            bound.close()
            raise
        return bound

    def _serve(self, loop: asyncio.AbstractEventLoop, listener: socket.socket, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(loop.create_server(lambda: _Connection(self), sock=listener))
        loop.call_soon(ready.set)
        try:
            loop.run_forever()
        finally:
            server.close()
            self._reset_all()
            # What was cut off is told to its protocol in the next turns of the loop.
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    def _reset_all(self) -> None:
        for one in tuple(self._open):
            one.reset()


class _Connection(asyncio.Protocol):
    """One client: packets come in pieces of any size, and what came together is answered together."""

    def __init__(self, bookie: BookieServer) -> None:
        self._bookie = bookie
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._bookie._open.add(self)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        self._bookie._open.discard(self)

    def pause_writing(self) -> None:
        # Who does not take his replies is asked for no more requests, as by a bookie.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def reset(self) -> None:
        """Close so that the client sees a reset."""
        with suppress(OSError):
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        bookie = self._bookie
        data = self._rest + data if self._rest else data
        replies: list[bytes] = []
        position, end = 0, len(data)
        try:
            while end - position >= 4:
                size = int.from_bytes(data[position : position + 4])
                if size > _LARGEST_FRAME:
                    # Netty's decoder of frames closes, too.
                    raise ConnectionError(f"a frame of {size} bytes")
                if end - position - 4 < size:
                    break
                replies.append(bookie.reply_to(data[position + 4 : position + 4 + size]))
                position += 4 + size
        except ConnectionError:
            self.reset()
            return
        self._rest = data[position:]
        if replies and not bookie.is_silent:
            self._answer(replies)

    def _answer(self, replies: list[bytes]) -> None:
        if self._bookie.reverse_replies:
            replies.reverse()
        sent: bytes | None = b"".join(replies)
        assert sent is not None
        if self._bookie.spoil is not None:
            sent = self._bookie.spoil(sent)
        if sent is None:
            self.reset()
        elif self._bookie.trickle_s:
            self._trickle(sent, 0)
        else:
            self._send(sent)

    def _trickle(self, data: bytes, at: int) -> None:
        self._send(data[at : at + 1])
        if at < len(data) and not self._transport.is_closing():
            asyncio.get_running_loop().call_later(self._bookie.trickle_s, self._trickle, data, at + 1)

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

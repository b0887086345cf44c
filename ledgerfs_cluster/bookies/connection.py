"""One connection to a bookie: requests are sent together, replies arrive in any order."""

import socket
import time
from typing import Final, NamedTuple

import numpy as np

from ledgerfs.errors import StoreTimeoutError, StoreUnreachableError, UnsupportedFormatError
from ledgerfs.forked import start_again_in_child
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs_cluster.formats.bookkeeper.replies import Replies, scan_replies

_FIRST_BUFFER: Final = 256 << 10
_MOST_GATHERED: Final = 2 << 20
"""Most bytes of replies to wait for together."""

_GATHERING_S: Final = 0.0005
"""Time to wait for more replies after the first, s: handling a group of replies costs as much as receiving many."""

_RECEIVE_BUFFER: Final = 4 << 20
"""The kernel's receive buffer, bytes: more than is ever requested ahead of small entries."""


_MOST_PATIENCE: Final = 6
"""A reply that trickles in may last so many time-outs: 5 MiB arrive in a minute over 1 Mbit/s."""


class Received(NamedTuple):
    """Replies that arrived together, and the buffer with their bytes, which no other reply uses."""

    buffer: memoryview
    replies: Replies


class BookieConnection:
    """A connection for one reader at a time.

    Raises `StoreUnreachableError` when the bookie does not answer or hangs up; the connection is then useless.

    Attributes
    ----------
    outstanding
        Requests without a reply yet; negative if the bookie sent unrequested replies.
    is_used
        Whether it was leased before: the bookie may have hung up since.
    is_inherited
        Whether a forked child has it from its parent, which still uses it.

    """

    __slots__ = (
        *("__weakref__", "_average", "_buffer", "_end", "_needed", "_socket", "_timeout_s"),
        *("address", "is_inherited", "is_used", "outstanding"),
    )

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self.outstanding = 0
        self.is_used = False
        self.is_inherited = False
        start_again_in_child(self)
        self._timeout_s = timeout_s
        self._buffer, self._end, self._needed, self._average = _buffer(_FIRST_BUFFER), 0, 0, 0
        host, port = host_and_port(address)
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        except OSError as error:
            raise StoreUnreachableError(f"the bookie cannot be reached: {_reported(error)}", key=address) from error

    def after_fork(self) -> None:
        """Note that the parent still uses it."""
        self.is_inherited = True

    @property
    def is_quiet(self) -> bool:
        """Whether every request has its reply, and no more bytes arrived: then another reader may use the connection."""
        return not (self.outstanding or self._end)

    def send(self, requests: bytes, count: int) -> None:
        """Send ``count`` requests."""
        self.outstanding += count
        try:
            self._socket.sendall(requests)
        except OSError as error:
            raise self._failed(error) from error

    def receive(self, wanted: int = 1) -> Received:
        """Wait for at least one whole reply, and return it with up to ``wanted`` in all if more arrive soon.

        Also raises `CorruptReplyError` for bytes that are not a reply.
        """
        give_up = time.monotonic() + _MOST_PATIENCE * self._timeout_s
        while True:
            self._fill(max(1, self._needed), give_up)
            self._gather(min(_MOST_GATHERED, wanted * self._average))
            replies = scan_replies(self._buffer, 0, self._end, key=self.address)
            if replies.position:
                return self._taken(replies)
            self._needed = replies.missing

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _fill(self, least: int, give_up: float) -> None:
        """Receive at least ``least`` bytes more, until the time ``give_up``."""
        goal = self._end + least
        while self._end < goal:
            # Room for no more than arrived so far: a length may be wrong.
            self._make_room(min(goal - self._end, max(self._end, _FIRST_BUFFER)))
            try:
                count = self._socket.recv_into(self._buffer[self._end :])
            except OSError as error:
                raise self._failed(error) from error
            self._end += self._heard(count)
            if self._end < goal and time.monotonic() > give_up:
                raise StoreTimeoutError(
                    "the bookie sends its reply too slowly, so the read stopped waiting", key=self.address
                )

    def _gather(self, goal: int) -> None:
        """Receive bytes that arrive soon, until there are ``goal``."""
        if self._end >= goal:
            return
        self._make_room(goal - self._end)
        self._socket.settimeout(_GATHERING_S)
        try:
            while self._end < goal:
                self._end += self._heard(self._socket.recv_into(self._buffer[self._end :]))
        except TimeoutError:
            return
        except StoreUnreachableError:
            raise
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self._socket.settimeout(self._timeout_s)

    def _make_room(self, size: int) -> None:
        if self._end + size > len(self._buffer):
            larger = _buffer(max(self._end + size, 2 * len(self._buffer)))
            larger[: self._end] = self._buffer[: self._end]
            self._buffer = larger

    def _taken(self, replies: Replies) -> Received:
        """Return the buffer, and begin another with the bytes after the last whole reply."""
        whole, end, count = self._buffer, self._end, len(replies.codes)
        rest = end - replies.position
        self._average = replies.position // count
        self.outstanding -= count
        expected = min(_MOST_GATHERED, max(0, self.outstanding) * self._average)
        self._buffer = _buffer(max(_FIRST_BUFFER, rest + expected))
        self._buffer[:rest] = whole[replies.position : end]
        self._end, self._needed = rest, replies.missing if rest else 0
        return Received(whole.toreadonly(), replies)

    def _heard(self, count: int) -> int:
        if not count:
            raise StoreUnreachableError("the bookie closed the connection", key=self.address)
        return count

    def _failed(self, error: OSError) -> StoreUnreachableError:
        if isinstance(error, TimeoutError):
            return StoreTimeoutError(f"the bookie did not reply within {self._timeout_s:g} s", key=self.address)
        return StoreUnreachableError(f"the connection to the bookie broke: {_reported(error)}", key=self.address)


def _buffer(size: int) -> memoryview:
    made: memoryview = empty(size, np.uint8).data
    return made


def host_and_port(address: str) -> tuple[str, int]:
    """Return host and port; raises `UnsupportedFormatError` for a bookie id that is not an address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        reason = (
            "the bookie is registered under an id that is not an address (host:port); ledgerfs cannot resolve such ids"
        )
        raise UnsupportedFormatError(reason, key=address)
    return host.strip("[]"), int(port)


def _reported(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

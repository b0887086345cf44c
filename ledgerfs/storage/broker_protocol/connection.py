"""One connection to a broker: questions and their answers, and entries in between, in the order in which they come."""

import socket
import time
from collections import deque
from itertools import count
from typing import Final, Self

import numpy as np

from ledgerfs.errors import AuthenticationError, CorruptReplyError
from ledgerfs.formats.broker_protocol.commands import Command, connect, parse_command, pong
from ledgerfs.formats.broker_protocol.frames import (
    FRAME_SLACK,
    LARGEST_MESSAGE,
    FrameStop,
    SentEntries,
    command_at,
    scan_frames,
)
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord
from ledgerfs.storage.broker_protocol.refusals import refusal
from ledgerfs.storage.broker_protocol.service import BrokerAddress, BrokerService

_BUFFER: Final = 1 << 20
_LEAST_ROOM: Final = 256 << 10
_LEAST_FLOW: Final = 4 << 10
"""Bytes after which more are waited for: answers are smaller."""

_MOST_GATHERED: Final = 512 << 10
_GATHERING_S: Final = 0.0005
_MOST_KEPT: Final = 256
"""Pieces of entries, mostly of half a MiB, that may come before the answer to a question."""

_RECEIVE_BUFFER: Final = 4 << 20
"""What the kernel may hold of entries that nobody has taken yet, bytes."""

_MOST_LARGEST: Final = 1 << 30
"""What is believed of a broker that says how large its messages may be, bytes."""

_SECONDS_PER_BYTE: Final = 4 / (1 << 20)


class BrokerConnection:
    """A connection, for one thread at a time. For ``with``, or `close`.

    Raises what sockets raise, and `ConnectionError` when the broker hangs up or closes the consumer; `CorruptReplyError` for what no broker
    sends; `AuthenticationError` and other refusals.

    Parameters
    ----------
    service
        Who asks.
    address
        Who is asked.
    proxied_to
        ``host:port`` of the broker behind the proxy at ``address``; None for whoever listens there.
    seconds
        How long connecting may take, and each answer.

    """

    __slots__ = (
        "_buffer",
        "_end",
        "_is_lent",
        "_largest",
        "_numbers",
        "_seconds",
        "_sent",
        "_socket",
        "_start",
        "address",
        "proxied_to",
    )

    def __init__(
        self, service: BrokerService, address: BrokerAddress, proxied_to: str | None = None, *, seconds: float
    ) -> None:
        self.address = address
        self.proxied_to = proxied_to
        self._seconds = seconds
        self._numbers = count(1)
        self._sent: deque[SentEntries] = deque()
        self._largest = LARGEST_MESSAGE + FRAME_SLACK
        self._buffer, self._start, self._end, self._is_lent = _buffer(_BUFFER), 0, 0, False
        self._socket = self._connected(service)
        try:
            self.send(connect(service.token, has_certificate=service.has_certificate, proxied_to=proxied_to))
            answer = self._answer(Command.CONNECTED)
        except BaseException:
            self.close()
            raise
        if answer.connected.largest_message > 0:
            self._largest = min(answer.connected.largest_message, _MOST_LARGEST) + FRAME_SLACK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Which broker it is, for errors."""
        return str(self.address) if self.proxied_to is None else f"{self.address} for {self.proxied_to}"

    @property
    def has_entries(self) -> bool:
        """Whether entries came already that nobody has taken."""
        return bool(self._sent)

    def number(self) -> int:
        """Return a number for the next question, or the next consumer."""
        return next(self._numbers)

    def send(self, frame: bytes) -> None:
        """Send a command."""
        self._socket.settimeout(self._seconds)
        self._socket.sendall(frame)

    def ask(self, frame: bytes, request_id: int) -> CommandRecord:
        """Send a question and return the answer to it, also where it is an error; entries that come before it are kept for `entries`."""
        self.send(frame)
        return self._answer(None, request_id)

    def entries(self, seconds: float) -> SentEntries | None:
        """Return the entries that came next, at least one; None if nothing came for so many seconds."""
        give_up = time.monotonic() + seconds
        while not self._sent:
            command = self._next(seconds)
            if command is not None and command.type == Command.ERROR:
                raise refusal(command.error.error, command.error.message, key=self.name)
            if not self._sent and (command is None or time.monotonic() > give_up):
                return None
        return self._sent.popleft()

    def close(self) -> None:
        """Hang up; a broker then forgets the consumers of the connection."""
        self._socket.close()

    def _connected(self, service: BrokerService) -> socket.socket:
        plain = socket.create_connection((self.address.host, self.address.port), self._seconds)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            context = service.context_of(self.address)
            return plain if context is None else context.wrap_socket(plain, server_hostname=self.address.host)
        except BaseException:
            plain.close()
            raise

    def _answer(self, kind: Command | None, request_id: int = 0) -> CommandRecord:
        """Wait for one command: of a kind, or the answer to a question."""
        give_up = time.monotonic() + self._seconds
        while True:
            command = self._next(max(0.001, give_up - time.monotonic()))
            if command is None:
                if time.monotonic() >= give_up or len(self._sent) > _MOST_KEPT:
                    raise TimeoutError(f"the broker did not answer for {self._seconds:g} s, or before many entries")
            elif command.type == kind or (kind is None and _question_of(command) == request_id):
                return command
            elif kind is not None and command.type == Command.ERROR:
                raise refusal(command.error.error, command.error.message, key=self.name)

    def _next(self, seconds: float) -> CommandRecord | None:
        """Return the next command that is for whoever asks; None once entries came, or nothing for so many seconds."""
        give_up = time.monotonic() + seconds
        while True:
            scan = scan_frames(self._buffer.data, self._start, self._end, largest=self._largest, key=self.name)
            self._start = scan.position
            if len(scan.found):
                self._sent.append(scan.found)
                self._is_lent = True
                return None
            if scan.stop is FrameStop.OTHER_COMMAND:
                command = self._taken(scan.size)
                if self._is_for_asking(command):
                    return command
                if time.monotonic() > give_up:
                    return None
            elif not self._fill(scan.size, seconds):
                return None

    def _taken(self, size: int) -> CommandRecord:
        """Take the whole frame at the beginning of what is left."""
        data = command_at(self._buffer.data, self._start)
        self._start += size
        command = parse_command(data, key=self.name)
        if command.type == Command.MESSAGE:
            raise CorruptReplyError("an entry comes without its ledger, its id, or whom it is for", key=self.name)
        return command

    def _is_for_asking(self, command: CommandRecord) -> bool:
        """Return whether a command is an answer; do what it wants otherwise. Those that are not known here want nothing."""
        if command.type == Command.PING:
            self.send(pong())
        elif command.type == Command.CLOSE_CONSUMER:
            raise ConnectionError("the broker closed the consumer, as it does when a topic is unloaded or moves")
        elif command.type == Command.LOGIN_CHALLENGE:
            reason = "the broker wants a login in several steps, or a new token, which is not supported"
            raise AuthenticationError(reason, key=self.name)
        return command.type in _ANSWERS

    def _fill(self, missing: int, seconds: float) -> bool:
        """Receive the bytes that are missing of the next frame, or more; return False if none came for some seconds, and none was there."""
        give_up = time.monotonic() + max(seconds, self._seconds) + missing * _SECONDS_PER_BYTE
        while missing > 0:
            self._make_room(missing)
            is_silent = self._start == self._end
            self._socket.settimeout(seconds if is_silent else self._seconds)
            try:
                received = self._socket.recv_into(self._buffer.data[self._end :])
            except TimeoutError:
                if is_silent:
                    return False
                raise
            if not received:
                raise ConnectionResetError("the broker hung up")
            self._end += received
            missing -= received
            if missing > 0 and time.monotonic() > give_up:
                raise TimeoutError("a frame of the broker comes too slowly to be waited for")
        if self._end - self._start > _LEAST_FLOW:
            self._gather()
        return True

    def _gather(self) -> None:
        """Receive what comes soon, as far as there is room: each handling of entries costs as much as many of them."""
        goal = min(self._buffer.size, self._start + _MOST_GATHERED)
        self._socket.settimeout(_GATHERING_S)
        while self._end < goal:
            try:
                received = self._socket.recv_into(self._buffer.data[self._end : goal])
            except TimeoutError:
                return
            if not received:  # which whoever receives next is told again
                return
            self._end += received

    def _make_room(self, missing: int) -> None:
        """Have room for some bytes more, though for no more than came already: a size may be a lie.

        What was handed on is never overwritten: then it goes on in a buffer of its own.
        """
        rest = self._end - self._start
        if not rest and not self._is_lent:
            self._start = self._end = 0
        room = max(_LEAST_ROOM, min(missing, rest))
        if self._buffer.size - self._end < room:
            larger = _buffer(max(_BUFFER, rest + room))
            larger[:rest] = self._buffer[self._start : self._end]
            self._buffer, self._start, self._end, self._is_lent = larger, 0, rest, False


_ANSWERS = frozenset(
    {Command.CONNECTED, Command.SUCCESS, Command.ERROR, Command.LOOKUP_ANSWER, Command.LAST_POSITION_ANSWER}
)


def _question_of(command: CommandRecord) -> int:
    """Return the number of the question that a command answers; 0 for one that answers none."""
    if command.type == Command.SUCCESS:
        return command.success.request_id
    if command.type == Command.ERROR:
        return command.error.request_id
    if command.type == Command.LOOKUP_ANSWER:
        return command.lookup_answer.request_id
    if command.type == Command.LAST_POSITION_ANSWER:
        return command.last_position_answer.request_id
    return 0


def _buffer(size: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.empty(size, np.uint8)

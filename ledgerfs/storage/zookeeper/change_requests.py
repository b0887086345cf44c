"""Requests of those who change nodes, as kazoo sends them for us, and what is answered to a commit."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar

from ledgerfs.storage.zookeeper.operations import packed
from ledgerfs.storage.zookeeper.requests import OPERATION, Reply

_SYNC, _MULTI = 9, 14
_END = OPERATION.pack(-1, True, -1)
_ERROR = -1
_CODE = struct.Struct("!i")
_NOT_REFUSED = 0


@dataclass(frozen=True, slots=True)
class Sync:
    """Have the server catch up with all that was done before; what is read after it in the same session is not older."""

    type: ClassVar[int] = _SYNC
    path: str

    def serialize(self) -> bytes:
        """Return the request without its header."""
        return packed(self.path.encode())

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply as it is."""
        return packet, offset


class Commit:
    """Several operations: all are done, or none. It is sent once at most, and knows whether it may have been.

    kazoo asks for the bytes right before it writes them to the connection, and answers all that it holds when a connection breaks, whether
    it was sent or not: what it never asked the bytes of was never sent, and never will be.
    """

    type: ClassVar[int] = _MULTI
    __slots__ = ("_data", "_is_withdrawn", "_lock", "_was_sent")

    def __init__(self, operations: Sequence[tuple[int, bytes]]) -> None:
        self._data = b"".join(
            [*(OPERATION.pack(opcode, False, -1) + body for opcode, body in operations), _END],
        )
        self._lock = Lock()
        self._is_withdrawn = False
        self._was_sent = False

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self._data)

    def serialize(self) -> bytes:
        """Return the request without its header."""
        with self._lock:
            if self._is_withdrawn or self._was_sent:
                # kazoo takes this for a broken connection, and makes another one.
                raise ConnectionError("a commit that is no longer wanted")
            self._was_sent = True
            return self._data

    def withdraw(self) -> bool:
        """Have it never sent; return False if it may have been sent already."""
        with self._lock:
            self._is_withdrawn = True
            return not self._was_sent

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply as it is (kazoo makes a list of it)."""
        return packet, offset


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing of a commit was done: which operation was refused, and with which error code."""

    at: int
    code: int


def refusal_in(reply: Reply, count: int) -> Refusal | None:
    """Return which of ``count`` operations the reply to a commit refuses; None if all were done.

    Those before it have the code 0, those after it the code -2. Raises `struct.error` and `ValueError` for what is no such reply.
    """
    packet, at = reply
    (kind, is_end, _), at = OPERATION.unpack_from(packet, at), at + OPERATION.size
    if is_end:
        raise ValueError("a reply without results")
    if kind != _ERROR:
        return None
    for index in range(count):
        (code,) = _CODE.unpack_from(packet, at)
        if code != _NOT_REFUSED:
            return Refusal(index, code)
        at += _CODE.size + OPERATION.size
    raise ValueError("a commit that failed without an error")

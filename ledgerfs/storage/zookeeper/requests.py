"""Requests that kazoo sends for us; their replies are passed on as they came.

kazoo has a class for each request of its own, with the same two methods. Ours read many nodes with one packet, which it knows nothing of
(`ReadMany`: ZooKeeper 3.6 and later), and leave parsing to the thread that waits: kazoo's own has to send and receive meanwhile.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

GET_DATA = 4
GET_CHILDREN = 8
_READ_MANY = 22

OPERATION = struct.Struct("!i?i")
"""What goes before each operation of a packet of several, in requests and in replies: opcode, whether this is the end, error."""

_LENGTH = struct.Struct("!i")
_END = OPERATION.pack(-1, True, -1)
_NO_WATCH = b"\0"

Reply = tuple[bytes, int]
"""A packet that was received, and where the reply begins in it."""


@dataclass(frozen=True, slots=True)
class ReadOne:
    """Read the data, or the children, of one node."""

    type: int
    path: str

    def serialize(self) -> bytes:
        """Return the request without its header."""
        path = self.path.encode()
        return _LENGTH.pack(len(path)) + path + _NO_WATCH

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply as it is."""
        return packet, offset


@dataclass(frozen=True, slots=True)
class ReadMany:
    """Read the data, or the children, of several nodes; each has its own result, or its own error."""

    type: ClassVar[int] = _READ_MANY
    opcode: int
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """Return the request without its header."""
        operation = OPERATION.pack(self.opcode, False, -1)
        parts: list[bytes] = []
        for name in self.paths:
            path = name.encode()
            parts += (operation, _LENGTH.pack(len(path)), path, _NO_WATCH)
        parts.append(_END)
        return b"".join(parts)

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply as it is."""
        return packet, offset

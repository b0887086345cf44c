"""Nodes of ZooKeeper, the operations that commits consist of, and requests and replies as kazoo sends and receives them for us.

Each operation names the version that it is meant for, so one that arrives late, or twice, does nothing. Version -1, with which ZooKeeper
changes a node whatever became of it, does not exist here.

kazoo has a class for each request, with the same two methods. Ours read many nodes with one packet, which it has no class for (`ReadMany`:
ZooKeeper 3.6 and later), and leave parsing to the thread that waits: kazoo's own has to send and receive meanwhile. Nothing is allocated
for a length that the reply does not have.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, TypeVar

from ledgerfs.errors import (
    AccessDeniedError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    ObjectNotFoundError,
    StoreError,
    WrongBodyError,
)

_LENGTH = struct.Struct("!i")
_CREATE, _DELETE, _SET_DATA, _CHECK = 1, 2, 5, 13
_ALL_PERMISSIONS = 31


def packed(data: bytes) -> bytes:
    """Return bytes after their length."""
    return _LENGTH.pack(len(data)) + data


_OPEN = _LENGTH.pack(1) + _LENGTH.pack(_ALL_PERMISSIONS) + packed(b"world") + packed(b"anyone")
"""Who may do what with a new node: everybody everything, as brokers without authorization have it, whatever login is used here."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its data.

    Attributes
    ----------
    path
        Where it is, below the folder (chroot) of the session.
    data
        Its bytes; none for a node without data.
    created_ms, changed_ms
        When it was made, and its data set last, in ms since 1970 by the clock of the server that did it.
    version
        How often its data was set since it was made.
    children
        How many nodes are right below it.

    """

    path: str
    data: bytes
    created_ms: int
    changed_ms: int
    version: int
    children: int


@dataclass(frozen=True, slots=True)
class MakeNode:
    """Make a node that is not there, with this data; an ephemeral one is deleted when the session ends."""

    opcode: ClassVar[int] = _CREATE
    path: str
    data: bytes
    is_ephemeral: bool = False

    def __post_init__(self) -> None:
        _require_path(self.path)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return packed(path.encode()) + packed(self.data) + _OPEN + _LENGTH.pack(self.is_ephemeral)


@dataclass(frozen=True, slots=True)
class SetNode:
    """Set the data of a node that has this version.

    With ``created_ms`` it is the node that was created then (ms since 1970 UTC). One that was deleted and made again has versions from 0 on
    again, and may have come as far: no operation of ZooKeeper distinguishes the two, so the sender compares the times right before.
    """

    opcode: ClassVar[int] = _SET_DATA
    path: str
    data: bytes
    version: int
    created_ms: int | None = None

    @classmethod
    def of(cls, node: Node, data: bytes) -> "SetNode":
        """Return what sets the data of a node that was read, and of no other one of its path."""
        return cls(node.path, data, node.version, node.created_ms)

    def __post_init__(self) -> None:
        _require_path(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return packed(path.encode()) + packed(self.data) + _LENGTH.pack(self.version)


@dataclass(frozen=True, slots=True)
class _OfVersion:
    path: str
    version: int

    def __post_init__(self) -> None:
        _require_path(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return packed(path.encode()) + _LENGTH.pack(self.version)


@dataclass(frozen=True, slots=True)
class DropNode(_OfVersion):
    """Delete a node that has this version, and none below it."""

    opcode: ClassVar[int] = _DELETE


@dataclass(frozen=True, slots=True)
class RequireNode(_OfVersion):
    """Do nothing at all, with no other node either, unless this one has this version."""

    opcode: ClassVar[int] = _CHECK


Operation = MakeNode | SetNode | DropNode | RequireNode


def parent_of(path: str) -> str:
    """Return the path of the node right above one."""
    return path.rpartition("/")[0] or "/"


def _require_path(path: str, version: int = 0) -> None:
    """Raise `InvalidNameError` for a text that cannot be the path of a node to change, `InvalidOptionError` for a version below 0."""
    parts = path.split("/")
    if len(parts) < 2 or parts[0] or any(part in {"", ".", ".."} for part in parts[1:]) or "\0" in path:
        raise InvalidNameError("no path of a node, such as /folder/node", key=path[:200])
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError("no text that ZooKeeper could have as a path", key=repr(path)) from error
    if version < 0:
        raise InvalidOptionError(f"a version that was read is 0 or more, not {version}", key=path)


GET_DATA, GET_CHILDREN, SYNC = 4, 8, 9
_MULTI, _READ_MANY = 14, 22

NO_NODE, NO_AUTH, BAD_VERSION, NODE_EXISTS, NOT_EMPTY = -101, -102, -103, -110, -111
"""Error codes."""
_UNIMPLEMENTED = -6

# Before each operation of a packet of several, in requests and in replies: opcode, whether this is the end, error.
_OPERATION = struct.Struct("!i?i")
_END = _OPERATION.pack(-1, True, -1)
_ERROR = -1
_NO_DATA = -1
_NO_WATCH = b"\0"
# Of the stat of a node: when it was made and changed, the version of its data, the number of its children.
_STAT = struct.Struct("!16xqqi20xi8x")

Reply = tuple[bytes, int]
"""A packet that was received, and where the reply begins in it."""
Result = TypeVar("Result")
Parse = Callable[[bytes, int, str], tuple[Result, int]]
"""From a packet, an offset in it and the node's path to a result and the offset after it."""


class _Request:
    __slots__ = ()

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply as it is."""
        return packet, offset


@dataclass(frozen=True, slots=True)
class AskOne(_Request):
    """Read the data, or the children, of one node; or have the server catch up with all that was done before (`SYNC`)."""

    type: int
    path: str

    def serialize(self) -> bytes:
        """Return the request without its header."""
        path = packed(self.path.encode())
        return path if self.type == SYNC else path + _NO_WATCH


@dataclass(frozen=True, slots=True)
class ReadMany(_Request):
    """Read the data, or the children, of several nodes; each has its own result, or its own error."""

    type: ClassVar[int] = _READ_MANY
    opcode: int
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """Return the request without its header."""
        operation = _OPERATION.pack(self.opcode, False, -1)
        return b"".join([*(operation + packed(path.encode()) + _NO_WATCH for path in self.paths), _END])


class Commit(_Request):
    """Several operations: all are done, or none. It is sent once at most, and knows whether it may have been.

    kazoo asks for the bytes right before it writes them to the connection, and answers all that it holds when a connection breaks, whether
    it was sent or not: a request whose bytes it never asked for was never sent, and never will be.
    """

    type: ClassVar[int] = _MULTI
    __slots__ = ("_data", "_is_withdrawn", "_lock", "_was_sent")

    def __init__(self, operations: Sequence[tuple[int, bytes]]) -> None:
        self._data = b"".join([*(_OPERATION.pack(opcode, False, -1) + body for opcode, body in operations), _END])
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


Request = AskOne | ReadMany | Commit


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing of a commit was done: which operation was refused, and with which error code."""

    at: int
    code: int


def node_at(packet: bytes, at: int, path: str) -> tuple[Node, int]:
    """Return the node of a reply to a request for data. Raises `struct.error`, `WrongBodyError` for lengths that lie."""
    (length,) = _LENGTH.unpack_from(packet, at)
    if length < _NO_DATA:
        raise _wrong(path)
    at += 4
    end = at + max(length, 0)
    created, changed, version, children = _STAT.unpack_from(packet, end)
    return Node(path, packet[at:end], created, changed, version, children), end + _STAT.size


def children_at(packet: bytes, at: int, path: str) -> tuple[list[str], int]:
    """Return the sorted names of a reply to a request for children. Raises `struct.error`, `WrongBodyError` for lengths that lie."""
    (count,) = _LENGTH.unpack_from(packet, at)
    at += 4
    names: list[str] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(packet, at)
        end = at + 4 + length
        if length < 0 or end > len(packet):
            raise _wrong(path)
        names.append(packet[at + 4 : end].decode())
        at = end
    names.sort()
    return names, at


def one_result(reply: Reply | int, path: str, parse: Parse[Result]) -> Result | LedgerfsError:
    """Return the result of a request for one node, or the error: that of a code, or `WrongBodyError` for bytes that are no reply."""
    if isinstance(reply, int):
        return failure(reply, path)
    packet, at = reply
    try:
        result, end = parse(packet, at, path)
    except (struct.error, UnicodeDecodeError, WrongBodyError):
        return _wrong(path)
    return result if end == len(packet) else _wrong(path)


def many_results(reply: Reply, opcode: int, paths: Sequence[str], parse: Parse[Result]) -> list[Result | LedgerfsError]:
    """Return the result, or the error, of each node of a request for several; raises `WrongBodyError` for bytes that are no reply to it."""
    packet, at = reply
    found: list[Result | LedgerfsError] = []
    unpack, size = _OPERATION.unpack_from, _OPERATION.size
    try:
        for path in paths:
            kind, is_end, code = unpack(packet, at)
            at += size
            if is_end or kind not in {opcode, _ERROR}:
                raise _wrong(path)
            if kind == opcode:
                result, at = parse(packet, at, path)
                found.append(result)
            else:
                at += _LENGTH.size  # the code once more
                found.append(failure(code, path))
        _, is_end, _ = unpack(packet, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise _wrong(paths[0]) from error
    if not is_end or at + size != len(packet):
        raise _wrong(paths[0])
    return found


def refusal_in(reply: Reply, count: int) -> Refusal | None:
    """Return which of ``count`` operations the reply to a commit refuses; None if all were done.

    Those before it have the code 0, those after it the code -2. Raises `struct.error` and `ValueError` for what is no such reply.
    """
    packet, at = reply
    (kind, is_end, _), at = _OPERATION.unpack_from(packet, at), at + _OPERATION.size
    if is_end:
        raise ValueError("a reply without results")
    if kind != _ERROR:
        return None
    for index in range(count):
        (code,) = _LENGTH.unpack_from(packet, at)
        if code:
            return Refusal(index, code)
        at += _LENGTH.size + _OPERATION.size
    raise ValueError("a commit that failed without an error")


def failure(code: int, path: str) -> LedgerfsError:
    """Return our error for an error code of ZooKeeper's about one node."""
    if code == _UNIMPLEMENTED:
        return StoreError("the server cannot read several nodes at once; ZooKeeper 3.6 or later is needed", key=path)
    if code == NO_NODE:
        return ObjectNotFoundError("ZooKeeper has no such node", key=path)
    if code == NO_AUTH:
        reason = "ZooKeeper does not show this node to this user; check username and password"
        return AccessDeniedError(reason, key=path)
    return StoreError(f"ZooKeeper answered with error {code}", key=path)


def _wrong(path: str) -> WrongBodyError:
    return WrongBodyError("what was received is no answer of ZooKeeper's", key=path)

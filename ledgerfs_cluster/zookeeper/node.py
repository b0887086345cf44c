"""Nodes of ZooKeeper, the operations of commits, and requests and replies for kazoo.

Each operation contains the version that it is meant for, so it has no effect if it arrives late or twice. Version -1, with which ZooKeeper
changes a node unconditionally, is not supported.

kazoo has a class for each request, with the same two methods. Our requests read many nodes with one packet, which kazoo cannot (`ReadMany`:
ZooKeeper 3.6 and later), and leave parsing to the waiting thread: kazoo's own thread has to send and receive meanwhile. Lengths in a reply
are checked before anything is allocated for them.
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
    """Return bytes, preceded by their length."""
    return _LENGTH.pack(len(data)) + data


_OPEN = _LENGTH.pack(1) + _LENGTH.pack(_ALL_PERMISSIONS) + packed(b"world") + packed(b"anyone")
"""ACL of a new node: all permissions for everyone, like brokers without authorization, whatever login is used here."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its data.

    Attributes
    ----------
    path
        Path below the session's chroot.
    data
        Its bytes; empty for a node without data.
    created_ms, changed_ms
        Creation and last change of its data, in ms since 1970 by the server's clock.
    version
        Number of data changes since its creation.
    children
        Number of its direct children.

    """

    path: str
    data: bytes
    created_ms: int
    changed_ms: int
    version: int
    children: int


@dataclass(frozen=True, slots=True)
class MakeNode:
    """Create a node with this data, which must not exist; an ephemeral one is deleted when the session ends."""

    opcode: ClassVar[int] = _CREATE
    path: str
    data: bytes
    is_ephemeral: bool = False

    def __post_init__(self) -> None:
        _require_path(self.path)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which includes the chroot."""
        return packed(path.encode()) + packed(self.data) + _OPEN + _LENGTH.pack(self.is_ephemeral)


@dataclass(frozen=True, slots=True)
class SetNode:
    """Set the data of a node at this version.

    ``created_ms`` (ms since 1970 UTC) also requires that creation time. A node that was deleted and created again counts versions from 0
    and may have reached the same one: no operation of ZooKeeper distinguishes the two, so the sender compares the times right before.
    """

    opcode: ClassVar[int] = _SET_DATA
    path: str
    data: bytes
    version: int
    created_ms: int | None = None

    @classmethod
    def of(cls, node: Node, data: bytes) -> "SetNode":
        """Return the operation that sets the data of exactly the node that was read."""
        return cls(node.path, data, node.version, node.created_ms)

    def __post_init__(self) -> None:
        _require_path(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which includes the chroot."""
        return packed(path.encode()) + packed(self.data) + _LENGTH.pack(self.version)


@dataclass(frozen=True, slots=True)
class _OfVersion:
    path: str
    version: int

    def __post_init__(self) -> None:
        _require_path(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which includes the chroot."""
        return packed(path.encode()) + _LENGTH.pack(self.version)


@dataclass(frozen=True, slots=True)
class DropNode(_OfVersion):
    """Delete a node at this version; it must not have children."""

    opcode: ClassVar[int] = _DELETE


@dataclass(frozen=True, slots=True)
class RequireNode(_OfVersion):
    """Require that a node has this version; otherwise the whole commit fails."""

    opcode: ClassVar[int] = _CHECK


Operation = MakeNode | SetNode | DropNode | RequireNode


def parent_of(path: str) -> str:
    """Return the path of a node's parent."""
    return path.rpartition("/")[0] or "/"


def _require_path(path: str, version: int = 0) -> None:
    """Raise `InvalidNameError` for an invalid path of a node to change, `InvalidOptionError` for a version below 0."""
    parts = path.split("/")
    if len(parts) < 2 or parts[0] or any(part in {"", ".", ".."} for part in parts[1:]) or "\0" in path:
        raise InvalidNameError(
            "not a valid path of a ZooKeeper node; expected one such as /folder/node", key=path[:200]
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError("not a valid ZooKeeper path: it cannot be encoded as UTF-8", key=repr(path)) from error
    if version < 0:
        raise InvalidOptionError(f"the version of a node must be at least 0, not {version}", key=path)


GET_DATA, GET_CHILDREN, SYNC = 4, 8, 9
_MULTI, _READ_MANY = 14, 22

NO_NODE, NO_AUTH, BAD_VERSION, NODE_EXISTS, NOT_EMPTY = -101, -102, -103, -110, -111
"""Error codes."""
_UNIMPLEMENTED = -6

# Header of each operation in a packet of several, in requests and replies: opcode, end marker, error.
_OPERATION = struct.Struct("!i?i")
_END = _OPERATION.pack(-1, True, -1)
_ERROR = -1
_NO_DATA = -1
_NO_WATCH = b"\0"
# Part of a node's stat: creation and change time, version of its data, number of its children.
_STAT = struct.Struct("!16xqqi20xi8x")

Reply = tuple[bytes, int]
"""A received packet, and the offset of the reply in it."""
Result = TypeVar("Result")
Parse = Callable[[bytes, int, str], tuple[Result, int]]
"""Parses a packet at an offset, for a node's path; returns a result and the offset after it."""


class _Request:
    __slots__ = ()

    @staticmethod
    def deserialize(packet: bytes, offset: int) -> Reply:
        """Return the reply unparsed."""
        return packet, offset


@dataclass(frozen=True, slots=True)
class AskOne(_Request):
    """Read the data or children of one node; or have the server catch up with all earlier commits (`SYNC`)."""

    type: int
    path: str

    def serialize(self) -> bytes:
        """Return the request without its header."""
        path = packed(self.path.encode())
        return path if self.type == SYNC else path + _NO_WATCH


@dataclass(frozen=True, slots=True)
class ReadMany(_Request):
    """Read the data or children of several nodes; each has its own result or error."""

    type: ClassVar[int] = _READ_MANY
    opcode: int
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """Return the request without its header."""
        operation = _OPERATION.pack(self.opcode, False, -1)
        return b"".join([*(operation + packed(path.encode()) + _NO_WATCH for path in self.paths), _END])


class Commit(_Request):
    """Several operations: all are done, or none. Sent at most once; records whether it may have been sent.

    kazoo serializes a request right before it writes it to the connection, and fails all pending requests when a connection breaks, sent or
    not: a request that was never serialized was never sent, and never will be.
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
        """Size in bytes."""
        return len(self._data)

    def serialize(self) -> bytes:
        """Return the request without its header."""
        with self._lock:
            if self._is_withdrawn or self._was_sent:
                # kazoo treats this as a broken connection, and opens another.
                raise ConnectionError("the commit was withdrawn")
            self._was_sent = True
            return self._data

    def withdraw(self) -> bool:
        """Prevent sending; return False if it may have been sent already."""
        with self._lock:
            self._is_withdrawn = True
            return not self._was_sent


Request = AskOne | ReadMany | Commit


@dataclass(frozen=True, slots=True)
class Refusal:
    """The operation that a commit failed at, and the error code; nothing was done."""

    at: int
    code: int


def node_at(packet: bytes, at: int, path: str) -> tuple[Node, int]:
    """Return the node in a reply to a request for data. Raises `struct.error`, and `WrongBodyError` for wrong lengths."""
    (length,) = _LENGTH.unpack_from(packet, at)
    if length < _NO_DATA:
        raise _wrong(path)
    at += 4
    end = at + max(length, 0)
    created, changed, version, children = _STAT.unpack_from(packet, end)
    return Node(path, packet[at:end], created, changed, version, children), end + _STAT.size


def children_at(packet: bytes, at: int, path: str) -> tuple[list[str], int]:
    """Return the sorted names in a reply to a request for children. Raises `struct.error`, and `WrongBodyError` for wrong lengths."""
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
    """Return the result of a request for one node, or the error: that of a code, or `WrongBodyError` for an invalid reply."""
    if isinstance(reply, int):
        return failure(reply, path)
    packet, at = reply
    try:
        result, end = parse(packet, at, path)
    except (struct.error, UnicodeDecodeError, WrongBodyError):
        return _wrong(path)
    return result if end == len(packet) else _wrong(path)


def many_results(reply: Reply, opcode: int, paths: Sequence[str], parse: Parse[Result]) -> list[Result | LedgerfsError]:
    """Return the result or error of each node of a request for several; raises `WrongBodyError` for an invalid reply."""
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
                at += _LENGTH.size  # repeats the code
                found.append(failure(code, path))
        _, is_end, _ = unpack(packet, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise _wrong(paths[0]) from error
    if not is_end or at + size != len(packet):
        raise _wrong(paths[0])
    return found


def refusal_in(reply: Reply, count: int) -> Refusal | None:
    """Return which of ``count`` operations a commit's reply refuses; None if all were done.

    Operations before it have the code 0, those after it the code -2. Raises `struct.error` and `ValueError` for an invalid reply.
    """
    packet, at = reply
    (kind, is_end, _), at = _OPERATION.unpack_from(packet, at), at + _OPERATION.size
    if is_end:
        raise ValueError("the reply has no results")
    if kind != _ERROR:
        return None
    for index in range(count):
        (code,) = _LENGTH.unpack_from(packet, at)
        if code:
            return Refusal(index, code)
        at += _LENGTH.size + _OPERATION.size
    raise ValueError("the commit failed without an error code")


def failure(code: int, path: str) -> LedgerfsError:
    """Return the ledgerfs error for a ZooKeeper error code about one node."""
    if code == _UNIMPLEMENTED:
        return StoreError(
            "the server cannot read several nodes in one request; ledgerfs requires ZooKeeper 3.6 or later", key=path
        )
    if code == NO_NODE:
        return ObjectNotFoundError("ZooKeeper has no such node", key=path)
    if code == NO_AUTH:
        reason = "ZooKeeper does not allow this user to read this node; check username and password"
        return AccessDeniedError(reason, key=path)
    return StoreError(f"ZooKeeper returned error code {code}", key=path)


def _wrong(path: str) -> WrongBodyError:
    return WrongBodyError("the server did not send a valid ZooKeeper reply", key=path)

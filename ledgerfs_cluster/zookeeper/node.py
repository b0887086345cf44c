"""One node of ZooKeeper as it was when it was read, and the operations on nodes that commits consist of.

Each operation names the version that it is meant for, so one that arrives late, or twice, does nothing. Version -1, with which ZooKeeper
changes a node whatever became of it, does not exist here.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar

from ledgerfs.errors import InvalidNameError, InvalidOptionError

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

"""What can be done to one node, as part of a commit.

Each operation names the version that it is meant for, so one that comes late, or twice, does nothing. Version -1, with which ZooKeeper
changes a node whatever became of it, does not exist here.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar

from ledgerfs.errors import InvalidNameError, InvalidOptionError
from ledgerfs.storage.zookeeper.node import Node

_LENGTH = struct.Struct("!i")
_CREATE, _DELETE, _SET_DATA, _CHECK = 1, 2, 5, 13
_ALL_PERMISSIONS = 31
_PERSISTENT, _EPHEMERAL = 0, 1


def packed(data: bytes) -> bytes:
    """Return bytes after their length."""
    return _LENGTH.pack(len(data)) + data


_OPEN = _LENGTH.pack(1) + _LENGTH.pack(_ALL_PERMISSIONS) + packed(b"world") + packed(b"anyone")
"""Who may do what with a new node: everybody everything, as brokers without authorization have it, whatever login is used here."""


@dataclass(frozen=True, slots=True)
class MakeNode:
    """Make a node that is not there, with this data."""

    opcode: ClassVar[int] = _CREATE
    path: str
    data: bytes

    def __post_init__(self) -> None:
        _require_path(self.path)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return _made(path, self.data, _PERSISTENT)


@dataclass(frozen=True, slots=True)
class MakeEphemeral:
    """Make a node that is not there, with this data, and that goes with the session."""

    opcode: ClassVar[int] = _CREATE
    path: str
    data: bytes

    def __post_init__(self) -> None:
        _require_path(self.path)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return _made(path, self.data, _EPHEMERAL)


@dataclass(frozen=True, slots=True)
class SetNode:
    """Set the data of a node that has this version.

    With ``created_ms`` it is the node that was created then (ms since 1970 UTC). One that was deleted and made anew has versions from 0 on
    again, and may have come as far: no operation of ZooKeeper's tells the two apart, so who sends this looks right before.
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
        _require_path(self.path)
        _require_version(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return packed(path.encode()) + packed(self.data) + _LENGTH.pack(self.version)


@dataclass(frozen=True, slots=True)
class DropNode:
    """Delete a node that has this version, and none below it."""

    opcode: ClassVar[int] = _DELETE
    path: str
    version: int

    def __post_init__(self) -> None:
        _require_path(self.path)
        _require_version(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return _of_version(path, self.version)


@dataclass(frozen=True, slots=True)
class RequireNode:
    """Do nothing at all, with no other node either, unless this one has this version."""

    opcode: ClassVar[int] = _CHECK
    path: str
    version: int

    def __post_init__(self) -> None:
        _require_path(self.path)
        _require_version(self.path, self.version)

    def body(self, path: str) -> bytes:
        """Return the operation for ``path``, which servers know the node by."""
        return _of_version(path, self.version)


Operation = MakeNode | MakeEphemeral | SetNode | DropNode | RequireNode


def parent_of(path: str) -> str:
    """Return the path of the node right above one."""
    return path.rpartition("/")[0] or "/"


def _made(path: str, data: bytes, flags: int) -> bytes:
    return packed(path.encode()) + packed(data) + _OPEN + _LENGTH.pack(flags)


def _of_version(path: str, version: int) -> bytes:
    """Return the body of what names a node and its version alone: the opcode tells what is done with it."""
    return packed(path.encode()) + _LENGTH.pack(version)


def _require_path(path: str) -> None:
    """Raise `InvalidNameError` for what no node that is changed here has as a path."""
    parts = path.split("/")
    if len(parts) < 2 or parts[0] or any(part in {"", ".", ".."} for part in parts[1:]) or "\0" in path:
        raise InvalidNameError("no path of a node, such as /folder/node", key=path[:200])
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError("no text that ZooKeeper could have as a path", key=repr(path)) from error


def _require_version(path: str, version: int) -> None:
    if version < 0:
        raise InvalidOptionError(f"a version that was read is 0 or more, not {version}", key=path)

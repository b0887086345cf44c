"""The nodes of the ZooKeeper of tests: read and changed as a real one does it, with its error codes.

What it answers was compared with ZooKeeper 3.9: in a multi that fails, operations before the one that is refused have the code 0, and
those after it -2.
"""

import struct
import time
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN, SYNC, GET_CHILDREN_2, CHECK, MULTI = (
    *(1, 2, 3, 4, 5, 8, 9),
    *(12, 13, 14),
)
NO_NODE, NO_AUTH, BAD_VERSION, NO_CHILDREN_OF_EPHEMERALS, NODE_EXISTS, NOT_EMPTY = -101, -102, -103, -108, -110, -111
UNDONE, NOT_TRIED, MARSHALLING, UNIMPLEMENTED, BAD_ARGUMENTS = 0, -2, -5, -6, -8
WRITES = {CREATE, DELETE, SET_DATA, MULTI}
EPHEMERAL = 1

OPERATION = struct.Struct("!i?i")
END = OPERATION.pack(-1, True, -1)
_STAT = struct.Struct("!qqqqiiiqiiq")
_IN_MULTI = {CREATE, DELETE, SET_DATA, CHECK}


class RefusedError(Exception):
    """An answer that is an error code alone."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class StoredNode:
    """A node as the server keeps it; times are in ms since 1970, ``owner`` is the session of an ephemeral one."""

    data: bytes
    created_ms: int
    changed_ms: int
    version: int = 0
    children_version: int = 0
    transactions: tuple[int, int, int] = (0, 0, 0)
    owner: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> bytes:
        created, changed, children = self.transactions
        return _STAT.pack(
            *(created, changed, self.created_ms, self.changed_ms, self.version, self.children_version, 0, self.owner),
            *(len(self.data), len(self.children), children),
        )


class Tree:
    """All nodes, without a lock of its own; each change is one transaction."""

    def __init__(self) -> None:
        self.nodes: dict[str, StoredNode] = {}
        self.no_auth: set[str] = set()
        self.newest = 0
        self.written_ms = _now()
        self.make("/", self.written_ms, self.next())

    def next(self) -> int:
        """Return the number of the next transaction."""
        self.newest += 1
        return self.newest

    def as_it_is(self) -> "Tree":
        """Return another one that stays as this one is now."""
        return deepcopy(self)

    def make(self, path: str, now: int, transaction: int, owner: int = 0) -> StoredNode:
        """Make a node and what is missing above it."""
        made = (transaction, transaction, transaction)
        node = self.nodes[path] = StoredNode(b"", now, now, transactions=made, owner=owner)
        if path != "/":
            parent, _, name = path.rpartition("/")
            above = self.nodes.get(parent or "/") or self.make(parent, now, transaction)
            above.children[name] = None
            self._children_changed(above, transaction)
        return node

    def put(self, node: StoredNode, data: bytes, now: int, transaction: int) -> None:
        """Set the data of a node."""
        node.data, node.changed_ms = data, now
        node.transactions = (node.transactions[0], transaction, node.transactions[2])

    def remove(self, path: str, transaction: int) -> None:
        """Remove a node and all below it."""
        for one in [one for one in self.nodes if one == path or one.startswith(f"{path}/")]:
            del self.nodes[one]
        parent, _, name = path.rpartition("/")
        above = self.nodes[parent or "/"]
        del above.children[name]
        self._children_changed(above, transaction)

    def end(self, session: int) -> None:
        """Remove the ephemeral nodes of a session."""
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.remove(path, self.next())

    def read(self, opcode: int, path: str) -> bytes:
        """Return the body of the answer to a read."""
        node = self._found(path)
        if opcode == EXISTS:
            return node.stat()
        if path in self.no_auth:
            raise RefusedError(NO_AUTH)
        if opcode == GET_DATA:
            return _packed(node.data) + node.stat()
        body = b"".join([struct.pack("!i", len(node.children)), *(_packed(name.encode()) for name in node.children)])
        return body + node.stat() if opcode == GET_CHILDREN_2 else body

    def change(self, opcode: int, request: bytes, session: int) -> bytes:
        """Return the body of the answer to a write."""
        self.written_ms = _now()  # of all operations of a multi
        if opcode == MULTI:
            return self._change_all(request, session)
        return self._change_one(opcode, request, 0, session, self.next())[0]

    def _change_all(self, request: bytes, session: int) -> bytes:
        """Do all operations of a multi, or none."""
        asked = operations(request)
        before = self._saved(path for _, path in asked)
        found: list[bytes] = []
        transaction, at = self.next(), 0
        try:
            for opcode, _ in asked:
                body, at = self._change_one(opcode, request, at + OPERATION.size, session, transaction)
                found.append(OPERATION.pack(opcode, False, 0) + body)
        except RefusedError as error:
            self._restore(before)
            rest = len(asked) - len(found) - 1
            codes = [UNDONE] * len(found) + [error.code] + [NOT_TRIED] * rest
            found = [OPERATION.pack(-1, False, code) + struct.pack("!i", code) for code in codes]
        return b"".join([*found, END])

    def _saved(self, paths: Iterable[str]) -> dict[str, StoredNode | None]:
        """Return copies of nodes, and of those above them, as they are now."""
        saved: dict[str, StoredNode | None] = {}
        for path in paths:
            for one in (path, path.rpartition("/")[0] or "/"):
                node = self.nodes.get(one)
                saved.setdefault(one, None if node is None else replace(node, children=dict(node.children)))
        return saved

    def _restore(self, saved: dict[str, StoredNode | None]) -> None:
        for path, node in saved.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node

    def _change_one(self, opcode: int, request: bytes, at: int, session: int, transaction: int) -> tuple[bytes, int]:
        """Do one operation; return the body of its answer, and where the next one begins."""
        path, at = text(request, at)
        if not path.startswith("/"):
            raise RefusedError(BAD_ARGUMENTS)
        if path in self.no_auth:
            raise RefusedError(NO_AUTH)
        if opcode == CREATE:
            return self._create(path, request, at, session, transaction)
        data = b""
        if opcode == SET_DATA:
            data, at = buffer(request, at)
        (version,) = struct.unpack_from("!i", request, at)
        node = self._found(path)
        if version not in {-1, node.version}:
            raise RefusedError(BAD_VERSION)
        if opcode == DELETE:
            if node.children:
                raise RefusedError(NOT_EMPTY)
            self.remove(path, transaction)
        if opcode != SET_DATA:
            return b"", at + 4
        node.version += 1
        self.put(node, data, self.written_ms, transaction)
        return node.stat(), at + 4

    def _create(self, path: str, request: bytes, at: int, session: int, transaction: int) -> tuple[bytes, int]:
        data, at = buffer(request, at)
        (permissions,) = struct.unpack_from("!i", request, at)
        at += 4
        for _ in range(permissions):
            _, at = text(request, at + 4)
            _, at = text(request, at)
        (flags,) = struct.unpack_from("!i", request, at)
        if flags not in {0, EPHEMERAL} or not permissions:
            raise RefusedError(UNIMPLEMENTED)
        parent = self._found(path.rpartition("/")[0] or "/")
        if path in self.nodes:
            raise RefusedError(NODE_EXISTS)
        if parent.owner:
            raise RefusedError(NO_CHILDREN_OF_EPHEMERALS)
        self.make(path, self.written_ms, transaction, session if flags else 0).data = data
        return _packed(path.encode()), at + 4

    def _found(self, path: str) -> StoredNode:
        if path not in self.nodes:
            raise RefusedError(NO_NODE)
        return self.nodes[path]

    @staticmethod
    def _children_changed(node: StoredNode, transaction: int) -> None:
        node.children_version += 1
        node.transactions = (*node.transactions[:2], transaction)


def operations(request: bytes) -> list[tuple[int, str]]:
    """Return opcode and path of each operation of a multi; an opcode that has no place there makes it no multi at all."""
    found, at = [], 0
    while True:
        opcode, is_end, _ = OPERATION.unpack_from(request, at)
        if is_end:
            return found
        if opcode not in _IN_MULTI:
            raise RefusedError(MARSHALLING)
        path, at = text(request, at + OPERATION.size)
        found.append((opcode, path))
        if opcode in {CREATE, SET_DATA}:
            _, at = buffer(request, at)
        if opcode == CREATE:
            (permissions,) = struct.unpack_from("!i", request, at)
            at += 4
            for _ in range(permissions):
                _, at = text(request, at + 4)
                _, at = text(request, at)
        at += 4


def text(request: bytes, at: int) -> tuple[str, int]:
    """Return a text and where what follows begins."""
    data, at = buffer(request, at)
    return data.decode(), at


def buffer(request: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes after their length, and where what follows begins."""
    (length,) = struct.unpack_from("!i", request, at)
    return request[at + 4 : at + 4 + max(length, 0)], at + 4 + max(length, 0)


def _packed(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def _now() -> int:
    return time.time_ns() // 1_000_000

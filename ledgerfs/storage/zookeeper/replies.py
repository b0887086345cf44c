"""Parse what ZooKeeper answers; nothing is allocated for a length that the reply does not have."""

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StoreError, WrongBodyError
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.requests import OPERATION

Result = TypeVar("Result")
Parse = Callable[[bytes, int, str], tuple[Result, int]]
"""From a packet, an offset in it and the node's path to a result and the offset after it."""

NO_NODE = -101
NO_AUTH = -102

_LENGTH = struct.Struct("!i")
_ERROR = -1
_NO_DATA = -1
# Of the stat of a node: when it was made and changed, the version of its data, the number of its children.
_STAT = struct.Struct("!16xqqi20xi8x")


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


def one_result(packet: bytes, at: int, path: str, parse: Parse[Result]) -> Result:
    """Return the result of a request for one node. Raises `WrongBodyError` for a reply that is none."""
    try:
        result, end = parse(packet, at, path)
    except (struct.error, UnicodeDecodeError) as error:
        raise _wrong(path) from error
    if end != len(packet):
        raise _wrong(path)
    return result


def many_results(
    packet: bytes, at: int, opcode: int, paths: Sequence[str], parse: Parse[Result]
) -> list[Result | LedgerfsError]:
    """Return the result, or the error, of each node of a request for several. Raises `WrongBodyError` for a reply that is none."""
    found: list[Result | LedgerfsError] = []
    unpack, size = OPERATION.unpack_from, OPERATION.size
    path = paths[0]
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
        raise _wrong(path) from error
    if not is_end or at + size != len(packet):
        raise _wrong(path)
    return found


def failure(code: int, path: str) -> LedgerfsError:
    """Return our error for an error code of ZooKeeper's about one node."""
    if code == NO_NODE:
        return ObjectNotFoundError("ZooKeeper has no such node", key=path)
    if code == NO_AUTH:
        return AccessDeniedError(
            "ZooKeeper does not show this node to this user; check username and password", key=path
        )
    return StoreError(f"ZooKeeper answered with error {code}", key=path)


def _wrong(path: str) -> WrongBodyError:
    return WrongBodyError("what was received is no answer of ZooKeeper's", key=path)

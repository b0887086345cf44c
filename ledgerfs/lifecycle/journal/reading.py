"""Reading what is noted in a cluster of work that began; nothing is written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashLine, parse_trash_line
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.nodes import Nodes

ATTEMPTS = "/ledgerfs/lifecycle/attempts"
"""The node whose children are attempts to offload that have not ended."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class SeenAttempt:
    """An attempt to offload a ledger, as it is noted before it begins."""

    managed_ledger: str
    ledger_id: int
    uuid: str
    bucket: str
    began_ms: int


@dataclass(frozen=True, slots=True)
class Journal:
    """All that is noted.

    Attributes
    ----------
    lines, attempts
        In the order of their nodes' names.
    unreadable
        {path: why} of nodes that are none of these.

    """

    lines: tuple[TrashLine, ...]
    attempts: tuple[SeenAttempt, ...]
    unreadable: dict[str, str]


def read_journal(nodes: Nodes) -> Journal:
    """Read all notes; what cannot be parsed is named in the journal.

    Raises `AccessDeniedError` and `StoreUnreachableError`.
    """
    unreadable: dict[str, str] = {}
    lines = tuple(_read(nodes, TRASH, _line, unreadable))
    return Journal(lines, tuple(_read(nodes, ATTEMPTS, _attempt, unreadable)), unreadable)


def _read(nodes: Nodes, root: str, parse: Callable[[Node], Value], unreadable: dict[str, str]) -> Iterator[Value]:
    try:
        names = nodes.children(root)
    except ObjectNotFoundError:
        return
    for found in nodes.get_many(f"{root}/{name}" for name in names):
        if isinstance(found, ObjectNotFoundError):
            continue
        if isinstance(found, LedgerfsError):
            raise found
        try:
            yield parse(found)
        except CorruptMetadataError as error:
            unreadable[found.path] = error.reason


def _line(node: Node) -> TrashLine:
    return parse_trash_line(node.data, key=node.path)


def _attempt(node: Node) -> SeenAttempt:
    try:
        told = json.loads(node.data)
        seen = SeenAttempt(
            *(str(told["managed_ledger"]), int(told["ledger_id"]), str(told["uuid"]), str(told["bucket"])),
            int(told["began_ms"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("no note of an attempt to offload", key=node.path) from error
    if parse_ledger_key(node.path.rpartition("/")[2]) != LedgerKey(seen.uuid, seen.ledger_id, is_index=False):
        raise CorruptMetadataError("the note of an attempt is of other objects than its name tells", key=node.path)
    return seen

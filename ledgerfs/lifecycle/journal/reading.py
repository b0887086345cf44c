"""Reading what is noted in a cluster of work that began; nothing is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ledgerfs.errors import AccessDeniedError, CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs.lifecycle.journal.noted_line import NotedLine, parse_noted_line
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashLine
from ledgerfs.offload.attempts import ROOT as ATTEMPTS
from ledgerfs.offload.attempts import Attempt, NotedAttempt, parse_attempt
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.nodes import Nodes

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Journal:
    """All that is noted.

    Attributes
    ----------
    noted_lines, noted_attempts
        In the order of their nodes' names, with versions.
    unreadable
        {path: why} of nodes that are none of these.

    """

    noted_lines: tuple[NotedLine, ...]
    noted_attempts: tuple[NotedAttempt, ...]
    unreadable: dict[str, str]

    @property
    def lines(self) -> tuple[TrashLine, ...]:
        """The lines of the trash journal."""
        return tuple(one.line for one in self.noted_lines)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts to offload."""
        return tuple(one.attempt for one in self.noted_attempts)


def read_journal(nodes: Nodes) -> Journal:
    """Read all notes; what cannot be parsed, or may not be read, is named in the journal.

    Raises `AccessDeniedError` for folders that may not be listed, and `StoreUnreachableError`.
    """
    unreadable: dict[str, str] = {}
    lines = tuple(_read(nodes, TRASH, parse_noted_line, unreadable))
    return Journal(lines, tuple(_read(nodes, ATTEMPTS, parse_attempt, unreadable)), unreadable)


def _read(nodes: Nodes, root: str, parse: Callable[[Node], Value], unreadable: dict[str, str]) -> Iterator[Value]:
    try:
        names = nodes.children(root)
    except ObjectNotFoundError:
        return
    for name, found in zip(names, nodes.get_many(f"{root}/{name}" for name in names), strict=True):
        if isinstance(found, ObjectNotFoundError):
            continue
        if isinstance(found, AccessDeniedError):
            unreadable[f"{root}/{name}"] = found.reason
            continue
        if isinstance(found, LedgerfsError):
            raise found
        try:
            yield parse(found)
        except CorruptMetadataError as error:
            unreadable[found.path] = error.reason

"""Requests to bookies, and their answers: ends of open ledgers, states of cursors in use, policies of topics.

Stored schemas are read for dumps alone: no snapshot needs them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode


class LastEnd(IntEnum):
    """Source of the end of a topic's last ledger, whose size is not in the list."""

    UNKNOWN = 0
    """The ledger is open, and its bookies were not asked or did not answer."""
    CLOSED = 1
    """BookKeeper's metadata contain its end."""
    OPEN = 2
    """The ledger is open; bookies reported the end that a recovery would find."""
    GONE = 3
    """BookKeeper does not have the ledger."""
    LISTED = 4
    """Only the list contains its entries, or a complete offload."""


@dataclass(frozen=True, slots=True)
class LedgerEndAnswer:
    """The end of a ledger: number and bytes of its entries; ``trouble`` is the reason if unknown."""

    ledger_id: int
    end: LastEnd
    entries: int = 0
    size: int = 0
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class CursorAnswer:
    """The newest entry of a cursor's ledger; None if it is empty, or with ``trouble``. ``path`` is the cursor's node."""

    path: str
    entry: bytes | None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPoliciesAnswer:
    """Policies of the topics of a namespace; ``trouble`` is the reason if unknown.

    ``policies`` is {managed ledger without a partition number: an object in the form of ZooKeeper's namespace policies}.
    """

    namespace: str
    policies: Mapping[str, Mapping[str, Any]]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """BookKeeper's entry of one schema version, or None with ``trouble``; ``name`` is the path of its locator below ``/schemas``.

    `ledgerfs_cluster.formats.stored_schema.parse_stored_schema` parses it.
    """

    name: str
    version: int
    payload: bytes | None
    trouble: str | None = None


Answer = LedgerEndAnswer | CursorAnswer | TopicPoliciesAnswer


class EventLedgers(NamedTuple):
    """Ledgers with the events of a namespace: compacted ones, then the topic's; each schema as version, ledger and entry."""

    topic: str
    compacted: Sequence[LedgerNode]
    ledgers: Sequence[LedgerNode]
    schemas: Sequence[tuple[int, LedgerNode, int]]


class BookieReads(Protocol):
    """Reads from bookies without changes, for many ledgers at once."""

    def ends(self, nodes: Sequence[LedgerNode]) -> Sequence[tuple[int, int] | LedgerfsError]:
        """Return entries and bytes of each open ledger, as a recovery would find them."""
        ...

    def last_entries(self, nodes: Sequence[LedgerNode]) -> Iterator[bytes | LedgerfsError | None]:
        """Yield the newest entry of each ledger, open or closed; None for an empty one."""
        ...

    def entries(self, asked: Sequence[tuple[LedgerNode, int]]) -> Iterator[bytes | LedgerfsError]:
        """Yield each entry, or the error why no replica returned it."""
        ...

    def last_events(self, events: EventLedgers) -> Sequence[tuple[str, Any]] | LedgerfsError:
        """Return keys and decoded events: for each key the last one for this cluster, and the last global one; none for a deleted key."""
        ...

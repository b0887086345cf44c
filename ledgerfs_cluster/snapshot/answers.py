"""Questions to bookies, and their answers: ends of open ledgers, states of cursors in use, policies of topics.

Stored schemas are read for dumps alone: no survey needs them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode


class LastEnd(IntEnum):
    """What is known of the end of a topic's last ledger, whose size no list tells."""

    UNKNOWN = 0
    """The ledger is open, and its bookies were not asked, or did not tell."""
    CLOSED = 1
    """BookKeeper has its end."""
    OPEN = 2
    """The ledger is open; bookies told what a recovery would find."""
    GONE = 3
    """BookKeeper does not have the ledger."""
    LISTED = 4
    """The list itself has entries of it, or a complete offload, and nobody else told."""


@dataclass(frozen=True, slots=True)
class LedgerEndAnswer:
    """The end of a ledger: its entries, and bytes of them all; ``trouble`` says why they are not known."""

    ledger_id: int
    end: LastEnd
    entries: int = 0
    size: int = 0
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class CursorAnswer:
    """The newest entry of a cursor's ledger; None if it has none, or for ``trouble``. ``path`` is that of the cursor's node."""

    path: str
    entry: bytes | None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPoliciesAnswer:
    """What the topics of a namespace have set; ``trouble`` says why that is not known.

    ``policies`` is {managed ledger, without the number of a partition: an object as ZooKeeper has of namespaces}.
    """

    namespace: str
    policies: Mapping[str, Mapping[str, Any]]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """What BookKeeper has of one version of a schema, by the path of its locator below ``/schemas``: the entry, or None for ``trouble``.

    `ledgerfs_cluster.formats.stored_schema.parse_stored_schema` parses it.
    """

    name: str
    version: int
    payload: bytes | None
    trouble: str | None = None


Answer = LedgerEndAnswer | CursorAnswer | TopicPoliciesAnswer


class EventLedgers(NamedTuple):
    """Where the events of a namespace are: compacted ledgers, then the topic's; each schema as version, ledger and entry."""

    topic: str
    compacted: Sequence[LedgerNode]
    ledgers: Sequence[LedgerNode]
    schemas: Sequence[tuple[int, LedgerNode, int]]


class BookieReads(Protocol):
    """Reads of bookies that change nothing, for many ledgers at once."""

    def ends(self, nodes: Sequence[LedgerNode]) -> Sequence[tuple[int, int] | LedgerfsError]:
        """Return entries and bytes of each open ledger, as a recovery would find them."""
        ...

    def last_entries(self, nodes: Sequence[LedgerNode]) -> Iterator[bytes | LedgerfsError | None]:
        """Yield the newest entry of each ledger, open or closed; None of an empty one."""
        ...

    def entries(self, asked: Sequence[tuple[LedgerNode, int]]) -> Iterator[bytes | LedgerfsError]:
        """Yield each entry, or why no replica has given it."""
        ...

    def last_events(self, events: EventLedgers) -> Sequence[tuple[str, Any]] | LedgerfsError:
        """Return keys and decoded events: of each key the last one for this cluster, and the last global one; none that was deleted."""
        ...

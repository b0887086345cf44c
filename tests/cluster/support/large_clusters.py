"""Large clusters as nodes, made one after the other: what a dump, or a ZooKeeper of ours, is filled with."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState, ledger_path
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.encoders import build_ledger_node

DAY = 86_400_000
NOW = 1_700_000_000_000
LEDGER_BYTES, MARK = 1000, 4
"""Bytes of each ledger, and the ledger of each topic up to whose end its subscription is."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a cluster is; all ledgers are closed, and each topic's subscription is at the end of its fifth ledger.

    Attributes
    ----------
    topics, ledgers
        How many topics, and ledgers of each.
    bookies, missing
        How many bookies, and how many of them are not available.
    orphans
        How many ledgers at the end no list names; they are topics' by their metadata.

    """

    topics: int
    ledgers: int
    bookies: int = 3
    missing: int = 0
    orphans: int = 0

    @property
    def nodes_of_ledgers(self) -> int:
        """All ledgers, the orphans among them."""
        return self.topics * self.ledgers + self.orphans

    def bookie(self, number: int) -> str:
        """Return the id of a bookie, as ensembles have it."""
        return f"bookie-{number % self.bookies}:3181"

    def ensemble(self, ledger_id: int) -> tuple[str, ...]:
        """Return three bookies; where bookies are many hardly two ledgers have the same."""
        steps = (self.bookies - 1) // 2
        turns, first = divmod(ledger_id, self.bookies)
        second = first + 1 + turns % steps
        return self.bookie(first), self.bookie(second), self.bookie(second + 1 + turns // steps % steps)


def nodes_of(shape: Shape, when_ms: int = NOW) -> Iterator[Node]:
    """Yield the nodes of a cluster in the order of a walk: ledgers, lists, subscriptions, bookies."""
    for ledger_id in range(shape.nodes_of_ledgers):
        node = LedgerNode(
            *(ledger_id, LedgerState.CLOSED, 3, 2, 2, LEDGER_BYTES, 99, Digest(DigestType.CRC32C, b"")),
            (Ensemble(0, shape.ensemble(ledger_id)),),
            (
                ("application", b"pulsar"),
                ("component", b"managed-ledger"),
                ("pulsar/managed-ledger", name_of(ledger_id // shape.ledgers % shape.topics).encode()),
            ),
        )
        yield Node(ledger_path(ledger_id), build_ledger_node(node), when_ms, when_ms, 1, 0)
    for number in range(shape.missing, shape.bookies):
        yield Node(f"/ledgers/available/{shape.bookie(number)}", b"", when_ms, when_ms, 0, 0)
    for topic in range(shape.topics):
        first = topic * shape.ledgers
        listed = [LedgerInfo(first + i, 100, LEDGER_BYTES, when_ms - DAY) for i in range(shape.ledgers - 1)]
        info = ManagedLedgerInfo((*listed, LedgerInfo(first + shape.ledgers - 1, 0, 0, 0)))
        yield Node(managed_ledger_path(name_of(topic)), build_managed_ledger_info(info), when_ms, when_ms, 1, 1)
    for topic in range(shape.topics):
        position = Position(topic * shape.ledgers + MARK, 99)
        cursor = build_cursor_info(CursorInfo(IN_THE_NODE, position, last_active_ms=when_ms - DAY))
        yield Node(cursor_path(name_of(topic), "s"), cursor, when_ms, when_ms, 1, 0)


def name_of(topic: int) -> str:
    """Return the managed ledger of a topic by its number."""
    return f"t/n{topic % 50}/persistent/topic-{topic}"


def write_large_dump(path: Path, shape: Shape, age_ms: int = 0) -> None:
    """Write a dump of a cluster whose nodes are of `NOW`, begun some ms after that."""
    with path.open("wb") as file:
        writer = DumpWriter(file)
        writer.write(DumpHeader("pulsar+zk://zk:2181", "/ledgers", NOW + age_ms))
        for node in nodes_of(shape):
            writer.write(node)
        nodes = shape.nodes_of_ledgers + shape.bookies - shape.missing + 2 * shape.topics
        writer.write(DumpEnd(nodes, NOW + age_ms))
        writer.flush()

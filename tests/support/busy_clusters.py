"""Dumps of clusters whose topics are written to at rates that are known: what a simulation is to find in them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, DumpWriter
from ledgerfs.formats.bookkeeper.digests import Digest
from ledgerfs.formats.bookkeeper.ledger_metadata import DigestType
from ledgerfs.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState, build_ledger_node, ledger_path
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.storage.zookeeper.node import Node

NOW = 1_700_000_000_000
HOUR = 3_600_000
NAMESPACE = "public/busy"
ENTRY_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Busy:
    """A topic: bytes a second, how often a ledger is closed, and how many closed ones it has; how full the open one is."""

    rate: float
    period_ms: int = 4 * HOUR
    closed: int = 10
    open_part: float = 0.5

    @property
    def size(self) -> int:
        """Bytes of a ledger."""
        return int(self.rate * self.period_ms / 1000)


def heavy_tailed(topics: int, total_rate: float, closed: int = 10, seed: int = 3) -> list[Busy]:
    """Return topics whose rates are Zipf's; ledgers are closed after 2 GiB, or after 4 hours."""
    weights = 1 / np.arange(1, topics + 1)
    rates = np.random.default_rng(seed).permutation(weights / weights.sum() * total_rate)
    parts = np.random.default_rng(seed + 1).uniform(0, 1, topics).tolist()
    periods = [max(60_000, int(min(4 * HOUR, (2 << 30) / rate * 1000))) for rate in rates.tolist()]
    return [Busy(*one) for one in zip(rates.tolist(), periods, [closed] * topics, parts, strict=True)]


def name_of(topic: int) -> str:
    """Return the managed ledger of a topic by its number."""
    return f"{NAMESPACE}/persistent/topic-{topic}"


def nodes_of(topics: list[Busy]) -> Iterator[Node]:
    """Yield the nodes of a cluster in the order of a walk: ledgers, lists, policies."""
    lists, first = [], 0
    for number, one in enumerate(topics):
        lines = []
        for row in range(one.closed + 1):
            is_open = row == one.closed
            ended = NOW - int(one.period_ms * one.open_part) - (one.closed - 1 - row) * one.period_ms
            size = int(one.size * one.open_part) if is_open else one.size
            node = LedgerNode(
                *(first + row, LedgerState.CLOSED, 3, 2, 2, size, size // ENTRY_BYTES, Digest(DigestType.CRC32C, b"")),
                (Ensemble(0, ("a:3181", "b:3181", "c:3181")),),
                (
                    ("application", b"pulsar"),
                    ("component", b"managed-ledger"),
                    ("pulsar/managed-ledger", name_of(number).encode()),
                ),
            )
            began = ended - one.period_ms
            yield Node(ledger_path(first + row), build_ledger_node(node), began, ended, 1, 0)
            told = (0, 0, 0) if is_open else (size // ENTRY_BYTES + 1, size, ended)
            lines.append(LedgerInfo(first + row, *told))
        first += one.closed + 1
        lists.append(
            Node(
                managed_ledger_path(name_of(number)),
                build_managed_ledger_info(ManagedLedgerInfo(tuple(lines))),
                NOW,
                NOW,
                1,
                1,
            )
        )
    yield from lists
    retention = {"retentionTimeInMinutes": 20 * 1440, "retentionSizeInMB": -1}
    yield Node(f"/admin/policies/{NAMESPACE}", json.dumps({"retention_policies": retention}).encode(), NOW, NOW, 1, 0)


def write_busy_dump(path: Path, topics: list[Busy]) -> None:
    """Write a dump of such topics, made at `NOW`, whose namespace keeps everything for 20 days."""
    with path.open("wb") as file:
        writer = DumpWriter(file)
        writer.write(DumpHeader("pulsar+zk://zk:2181", "/ledgers", NOW))
        count = 0
        for node in nodes_of(topics):
            writer.write(node)
            count += 1
        writer.write(DumpEnd(count, NOW))
        writer.flush()

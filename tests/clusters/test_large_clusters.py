"""Surveys of clusters of a hundred thousand topics stay small and quick; here of a tenth, from a dump."""

import subprocess
import sys
from pathlib import Path

import pytest

from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, DumpWriter
from ledgerfs.formats.bookkeeper.digests import Digest
from ledgerfs.formats.bookkeeper.ledger_metadata import DigestType
from ledgerfs.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState, build_ledger_node, ledger_path
from ledgerfs.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    build_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.storage.zookeeper.node import Node

TOPICS, OF_EACH = 8_000, 10
DAY = 86_400_000
NOW = 1_700_000_000_000

PROGRAM = """
import resource, sys, time
from pathlib import Path
from ledgerfs.clusters.surveying import survey_dump
from ledgerfs.clusters.policies import BrokerDefaults, OffloadThresholds
from ledgerfs.clusters import cursors, offload_thresholds, retention
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
survey = survey_dump(Path(sys.argv[1]), lambda *_: None)
defaults = BrokerDefaults(offload=OffloadThresholds(0))
now = survey.read_ms
print(sum(one.size for one in retention.retention(survey, defaults, now)))
print(sum(one.size for one in offload_thresholds.offloads(survey, defaults, now)))
print(sum(one.held_size for one in cursors.cursors(survey, defaults, now)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def write_dump(path: Path) -> None:
    bookies = tuple(f"bookie-{i}:3181" for i in range(3))
    with path.open("wb") as file:
        writer = DumpWriter(file)
        writer.write(DumpHeader("pulsar+zk://zk:2181", "/ledgers", NOW))
        for topic in range(TOPICS):
            custom = (("pulsar/managed-ledger", f"t/n{topic % 50}/persistent/topic-{topic}".encode()),)
            for ledger_id in range(topic * OF_EACH, (topic + 1) * OF_EACH):
                node = LedgerNode(
                    *(ledger_id, LedgerState.CLOSED, 3, 2, 2, 1000, 99, Digest(DigestType.CRC32C, b"")),
                    (Ensemble(0, bookies),),
                    custom,
                )
                writer.write(Node(ledger_path(ledger_id), build_ledger_node(node), NOW, NOW, 1, 0))
        for topic in range(TOPICS):
            name, first = f"t/n{topic % 50}/persistent/topic-{topic}", topic * OF_EACH
            listed = [LedgerInfo(first + i, 100, 1000, NOW - DAY) for i in range(OF_EACH - 1)]
            info = ManagedLedgerInfo((*listed, LedgerInfo(first + OF_EACH - 1, 0, 0, 0)))
            writer.write(Node(managed_ledger_path(name), build_managed_ledger_info(info), NOW, NOW, 1, 1))
        for topic in range(TOPICS):
            name, position = f"t/n{topic % 50}/persistent/topic-{topic}", Position(topic * OF_EACH + 4, 99)
            cursor = build_cursor_info(CursorInfo(IN_THE_NODE, position, last_active_ms=NOW - DAY))
            writer.write(Node(cursor_path(name, "s"), cursor, NOW, NOW, 1, 0))
        writer.write(DumpEnd(TOPICS * (OF_EACH + 2), NOW))
        writer.flush()


@pytest.mark.long
@pytest.mark.process
def test_a_million_ledgers_would_take_few_bytes_each(tmp_path: Path) -> None:
    path = tmp_path / "large.json.zst"
    write_dump(path)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    trimmed, due, held, grown_kib = map(int, done.stdout.split())
    assert trimmed == TOPICS * 5 * 1000
    assert due == TOPICS * (OF_EACH - 1) * 1000
    assert held == TOPICS * 5 * 1000
    # A ledger has 160 bytes of columns, and the objects of a part at a time; a million would be within 1 GiB.
    assert grown_kib < 64 << 10

"""Parts of a topic, as Spark's tasks have them: ranges of entries, which are stretches of logs that no two tasks read."""

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.partition_plan import plan_partitions
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs_cluster.disks import reading
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.support.bookie_disks import MadeLedger, list_node, make_disk, write_dump, write_log
from tests.support.entries import frame, metadata
from tests.support.scans import scan_of_run

TOPIC = "t/n/persistent/x"
MIB = 1 << 20


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A disk with a ledger of 48 MiB in three logs, between entries of others, as a bookie's sorted storage writes them."""
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))
    payloads = [frame(metadata(publish_time_ms=number), bytes([number]) * MIB) for number in range(48)]
    ledger, other = MadeLedger(7, payloads=payloads, managed_ledger=TOPIC), MadeLedger(8, payloads=[b"x" * MIB] * 24)
    current = make_disk(tmp_path / "disk")
    for log in range(3):
        # Between two flushes a ledger's entries lie together.
        stored = [
            one
            for flush in range(4 * log, 4 * log + 4)
            for one in (
                *map(ledger.stored, range(4 * flush, 4 * flush + 4)),
                *map(other.stored, range(2 * flush, 2 * flush + 2)),
            )
        ]
        write_log(current, log, stored)
    nodes = [list_node(TOPIC, LedgerInfo(7, 48, sum(map(len, payloads)), 5)), ledger.zookeeper_node()]
    write_dump(tmp_path / "dump", nodes)
    return f"bookies://{tmp_path}/disk"


def test_tasks_read_stretches_of_logs_that_are_no_other_tasks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"metadata": str(tmp_path / "dump")}
    bucket = open_bucket(url, options)
    parts = plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog, TOPIC), 8 * MIB)
    assert len(parts) > 5
    touched: list[Counter[tuple[str, int]]] = []
    preadv = os.preadv

    def noted(descriptor: int, buffers: list[Any], offset: int) -> int:
        count = preadv(descriptor, buffers, offset)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        touched[-1].update((name, kib) for kib in range(offset >> 10, (offset + count) >> 10))
        return count

    # Each by itself, as in a process of its own that has the tables of the one that planned.
    tasks = [open_bucket(url, options) for _ in parts]
    for one in tasks:
        assert len(one.topics()) == 2
    monkeypatch.setattr(reading.os, "preadv", noted)
    found: list[int] = []
    for one, part in zip(tasks, parts, strict=True):
        touched.append(Counter())
        for run in pickle.loads(pickle.dumps(part)).runs:
            found += scan_of_run(run, one, columns=["entry_id", "value"]).to_arrow()["entry_id"].to_pylist()
    assert found == list(range(48))
    read = [sum(one.values()) / 1024 for one in touched]
    # Of 48 MiB each task has eight, whatever lies between, and nothing of it is read twice, nor by two of them.
    assert max(read) < 9, read
    assert 48 <= sum(read) < 48.5, read

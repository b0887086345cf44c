"""Planning and restoring the topics of a bucket of 100,000 ledgers, against what a plain listing with reads of all indexes takes.

Once without a dump, and once more planned with one, which is read anew: of each topic its list and three subscriptions. The new cluster is
ours (`tests.support`): ZooKeeper's protocol and an admin API on loopback, in this process; so the memory that is told has both in it.
Wanted: a plan in 10 s, a run in 5 minutes.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import fsspec

from benchmarks.catalog import make_bucket, raw, seconds
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket
from ledgerfs_cluster.recovery.dumped_cluster import read_dumped
from ledgerfs_cluster.recovery.new_cluster import NewCluster
from ledgerfs_cluster.recovery.planning import Wanted
from ledgerfs_cluster.recovery.recovery import Lost, plan, run
from ledgerfs_cluster.recovery.report import Report
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, read_dump
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.pulsar_settings import pulsar_settings

_SUBSCRIPTIONS = 3


@contextmanager
def new_cluster(folder: Path) -> Iterator[NewCluster]:
    """Lend an empty cluster."""
    with LiveCluster(folder) as made, pulsar_settings() as brokers:
        made.zookeeper.takes_writes = True
        living = ClusterFileSystem().cluster(made.url.removeprefix("pulsar+zk://"))
        try:
            yield NewCluster(living, brokers.requests, driver_of_bucket("aws-s3", "tier"))
        finally:
            living.nodes.close()


def _untold(what: str, done: int, total: int | None) -> None:
    """Take progress, and tell nobody."""


def write_dump(file: Path, catalog: Catalog) -> None:
    """Write what a dump of the lost cluster would have: lists whose ledgers are all offloaded, and their subscriptions."""
    with file.open("wb") as out:
        writer = DumpWriter(out)
        writer.write(DumpHeader("pulsar+zk://lost", "/ledgers", time.time_ns() // 1_000_000))
        nodes = 0
        for name in filter(None, catalog.known_names):
            for path, data in _nodes(name, list(catalog.refs_of(name))):
                writer.write(Node(path, data, 0, 0, 0, 0))
                nodes += 1
        writer.write(DumpEnd(nodes, 0))
        writer.flush()


def _nodes(name: str, refs: Sequence[LedgerRef]) -> Iterator[tuple[str, bytes]]:
    driver = driver_of_bucket("aws-s3", "tier")
    ledgers = [
        LedgerInfo(
            ref.ledger_id,
            ref.entries,
            ref.length,
            ref.changed_ms,
            OffloadContext(
                ref.uuid,
                is_complete=True,
                is_deleted_from_bookkeeper=True,
                offloaded_ms=ref.changed_ms,
                driver=driver.name,
                properties=driver.properties,
            ),
        )
        for ref in refs
    ]
    yield managed_ledger_path(name), build_managed_ledger_info(ManagedLedgerInfo(tuple(ledgers)))
    for number in range(_SUBSCRIPTIONS):
        at = Position(refs[number].ledger_id, 0)
        yield cursor_path(name, f"subscription-{number}"), build_cursor_info(CursorInfo(IN_THE_NODE, at))


def compare(folder: Path, ledgers: int) -> None:
    """Print how long a plan and a run take, with their ratios to the baseline, and the most memory so far."""
    url = f"file://{folder}/bucket"
    fs, root = fsspec.core.url_to_fs(url)
    fs.makedirs(root)
    make_bucket(fs, root, ledgers)
    baseline = seconds(raw, url)
    with new_cluster(folder / "new") as into:
        lost = Lost(open_bucket(url, cache_dir=str(folder / "cache")), Wanted())
        planned, restored = partial(plan, lost, into, _untold), partial(run, lost, into, _untold, print)
        dump = folder / "dump.json.zst"
        write_dump(dump, lost.bucket.refresh())

        def with_dump() -> Report:
            return plan(replace(lost, dump=read_dumped(lambda: read_dump(dump))), into, _untold)

        times = []
        for what in (planned, planned, with_dump, restored, restored):
            began = time.perf_counter()
            report = what()
            times.append(time.perf_counter() - began)
            assert report.is_well
            assert sum(len(one.ledgers) for one in report.topics) == ledgers
    first, again, dumped, done, repeated = times
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{ledgers:,} ledgers of 1,000 topics; listing and reads of all indexes {baseline:.1f} s")
    kept = f"with kept indexes {again:.1f} s, and with a dump {dumped:.1f} s"
    print(f"plan {first:.1f} s (ratio {first / baseline:.1f}), {kept} (wanted: at most 10)")
    print(f"run {done:.1f} s (ratio {done / baseline:.1f}; wanted: at most 300), once more {repeated:.1f} s")
    print(f"at most {memory:,} MiB, with the servers")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledgers", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as folder:
        compare(Path(folder), given.ledgers)


if __name__ == "__main__":
    main()

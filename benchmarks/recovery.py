"""Planning and restoring the topics of a bucket of 100,000 ledgers, against what a plain listing with reads of all indexes takes.

The new cluster is ours (`tests.support`): ZooKeeper's protocol and an admin API on loopback, in this process; so the memory that is told
has both in it. Wanted: a plan in 10 s, a run in 5 minutes.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec

from benchmarks.catalog import make_bucket, raw, seconds
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.offload.offload_driver import driver_of_bucket
from ledgerfs.recovery.planning.planning import Wanted
from ledgerfs.recovery.running.recovery import Into, Lost, plan, run
from ledgerfs.recovery.settings.setting_again import SettingAgain
from ledgerfs.recovery.topics.restoring import How
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.live_clusters import LiveCluster
from tests.support.pulsar_settings import pulsar_settings

if TYPE_CHECKING:
    from ledgerfs.recovery.running.report import Report


@contextmanager
def new_cluster(folder: Path) -> Iterator[Into]:
    """Lend an empty cluster."""
    with LiveCluster(folder) as made, pulsar_settings() as brokers:
        made.zookeeper.takes_writes = True
        living = ClusterFileSystem().cluster(made.url.removeprefix("pulsar+zk://"))
        try:
            yield Into(living, SettingAgain(brokers.requests), How(driver_of_bucket("aws-s3", "tier")))
        finally:
            living.nodes.close()


def _untold(what: str, done: int, total: int | None) -> None:
    """Take progress, and tell nobody."""


def compare(folder: Path, ledgers: int) -> None:
    """Print how long a plan and a run take, with their ratios to the baseline, and the most memory so far."""
    url = f"file://{folder}/bucket"
    fs, root = fsspec.core.url_to_fs(url)
    fs.makedirs(root)
    make_bucket(fs, root, ledgers)
    baseline = seconds(raw, url)
    with new_cluster(folder / "new") as into:
        lost = Lost(open_bucket(url, cache_dir=str(folder / "cache")), Wanted())
        planned, restored = partial(plan, lost, into, _untold), partial(run, lost, into, None, _untold, print)
        times = []
        for what in (planned, planned, restored, restored):
            began = time.perf_counter()
            report: Report = what()
            times.append(time.perf_counter() - began)
            assert report.is_well
            assert sum(len(one.plan.ledgers) for one in report.topics) == ledgers
    first, again, done, repeated = times
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{ledgers:,} ledgers of 1,000 topics; listing and reads of all indexes {baseline:.1f} s")
    print(f"plan {first:.1f} s (ratio {first / baseline:.1f}), with kept indexes {again:.1f} s (wanted: at most 10)")
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

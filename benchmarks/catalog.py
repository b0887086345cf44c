"""Listing the topics of a bucket of 100,000 ledgers, against what the store itself needs for the same listing and index reads.

The baseline does with plain fsspec what a catalog cannot do without: list the bucket, and read each index object.
Then a kept catalog of 1,000,000 ledgers, loaded by a process of its own; ``--kept`` runs only that.
"""

import argparse
import gc
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

from ledgerfs.bucket.catalog_file import CatalogFile
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER
from ledgerfs.catalog.layouts_known import OF_BUCKETS
from ledgerfs.layouts.pulsar_blob.columns import own_of
from ledgerfs.storage.store_identity import identity_of
from tests.support.ledgers import offload


def make_bucket(fs: Any, root: str, ledgers: int) -> None:  # noqa: ANN401  (fsspec is not typed)
    """Write ledgers of one small entry, in 1,000 topics."""
    for i in range(ledgers):
        made = offload(
            [b"x" * 64], i, name=f"public/default/persistent/topic-{i % 1000}", uuid=(i * 2654435761 << 64) | i
        )
        for key, data in made.objects.items():
            fs.pipe_file(f"{root}/{key}", data)


def raw(url: str) -> int:
    """List, and read every index."""
    fs, root = fsspec.core.url_to_fs(url)
    indexes = [item["name"] for item in fs.ls(root, detail=True) if item["name"].endswith("-index")]
    return sum(len(fs.cat_file(name)) for name in indexes)


def topics(url: str) -> int:
    """Do what ``ledgerfs topics`` does."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as cache:
        return sum(topic.ledgers for topic in open_bucket(url, cache_dir=cache).topics())


def seconds(work: Callable[[str], int], url: str) -> float:
    """Time one run."""
    gc.collect()
    start = time.perf_counter()
    work(url)
    return time.perf_counter() - start


def compare(url: str, ledgers: int) -> None:
    """Print three runs of each, in turn, and the ratio of the best ones."""
    runs = [(seconds(raw, url), seconds(topics, url)) for _ in range(3)]
    best_raw, best_topics = (min(column) for column in zip(*runs, strict=True))
    print(
        f"local folder: {ledgers:,} ledgers; raw listing and index reads {best_raw:.2f} s, topics {best_topics:.2f} s; "
        f"ratio {best_topics / best_raw:.2f} (goal: at most 2)"
    )


KEPT_LEDGERS, KEPT_TOPICS = 1_000_000, 10_000


def made_up_catalog() -> Catalog:
    """Return a catalog as a listing would have made it."""
    rng = np.random.default_rng(5)
    table = np.zeros(KEPT_LEDGERS, LEDGER)
    table["ledger_id"] = np.arange(KEPT_LEDGERS)
    table["name"] = rng.integers(0, KEPT_TOPICS, KEPT_LEDGERS)
    for half in ("uuid_high", "uuid_low"):
        table[half] = rng.integers(0, 2**63, KEPT_LEDGERS)
    own = own_of(table)
    table["last_entry"], table["cuts"], own["plausible"], own["index_size"] = 9_999, 16, True, 1500
    table["length"] = table["expected"] = table["stored"] = rng.integers(2**20, 2**30, KEPT_LEDGERS)
    table["created_ms"] = own["data_modified_ms"] = table["changed_ms"] = 1_700_000_000_000
    versions = rng.integers(ord("a"), ord("f"), (2, KEPT_LEDGERS, 32), np.uint8)
    own["data_version"], own["index_version"] = (half.view("S32")[:, 0] for half in versions)
    names: list[str | None] = [f"public/default/persistent/topic-{i}" for i in range(KEPT_TOPICS)]
    return Catalog.of(names, table)


def keep(bucket: str, cache: str) -> None:
    """Write the made-up catalog for a bucket, as if it had been listed just now."""
    identity = identity_of(*fsspec.core.url_to_fs(bucket))
    if identity is None:
        raise ValueError(bucket)
    catalog = made_up_catalog()
    start = time.perf_counter()
    file = CatalogFile(DiskFiles(cache_folder("files", cache)), identity, OF_BUCKETS)
    file.save(catalog, int(time.time() * 1000))
    print(
        f"kept catalog: {KEPT_LEDGERS:,} ledgers of {KEPT_TOPICS:,} topics written in {time.perf_counter() - start:.2f} s"
    )


def load(url: str, cache: str) -> None:
    """Load it from there, and print what that and the first questions take."""
    bucket = open_bucket(url, cache_dir=cache, catalog_max_age=3600)
    cpu = time.process_time()
    moments = [time.perf_counter()]
    assert bucket.catalog.ledgers.size == KEPT_LEDGERS
    moments.append(time.perf_counter())
    cpu, loaded = time.process_time() - cpu, peak_mib()
    assert len(bucket.topics()) == KEPT_TOPICS
    moments.append(time.perf_counter())
    assert bucket.ledger(KEPT_LEDGERS // 3).ref.ledger_id == KEPT_LEDGERS // 3
    moments.append(time.perf_counter())
    opening, topics, ledger = np.diff(moments)
    print(
        f"loaded in {opening:.2f} s (goal: under 1; {cpu:.2f} s of CPU), peak {loaded} MiB (goal: at most 400); "
        f"then topics() {topics:.2f} s, ledger(id) {ledger * 1000:.1f} ms, peak {peak_mib()} MiB"
    )


def peak_mib() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def compare_kept() -> None:
    """Write in one process, load in others."""
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-"))
    (folder / "bucket").mkdir()
    try:
        for step in (keep, load, load, load):
            code = f"from benchmarks.catalog import {step.__name__}; {step.__name__}(*__import__('sys').argv[1:])"
            subprocess.run([sys.executable, "-c", code, f"file://{folder}/bucket", f"{folder}/cache"], check=True)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledgers", type=int, default=100_000)
    parser.add_argument("--kept", action="store_true", help="only the kept catalog")
    options = parser.parse_args()
    if not options.kept:
        compare_listing(options.ledgers)
    compare_kept()


def compare_listing(ledgers: int) -> None:
    """Make a bucket, compare, and refresh."""
    folder, cache = (tempfile.mkdtemp(prefix="ledgerfs-bench-") for _ in range(2))
    try:
        make_bucket(fsspec.filesystem("file"), str(folder), ledgers)
        compare(f"file://{folder}", ledgers)
        bucket = open_bucket(f"file://{folder}", cache_dir=cache)
        table = bucket.catalog.ledgers
        start = time.perf_counter()
        bucket.refresh()
        print(
            f"        catalog: {table.nbytes / len(table):.0f} bytes a ledger; refresh {time.perf_counter() - start:.2f} s"
        )
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(cache)
    print(f"peak memory of the whole run: {peak_mib()} MiB")


if __name__ == "__main__":
    main()

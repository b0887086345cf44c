"""Listing the topics of a bucket of 100,000 ledgers, against what the store itself needs for the same listing and index reads.

The baseline does with plain fsspec what a catalog cannot do without: list the bucket, and read each index object.
"""

import argparse
import gc
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec

from ledgerfs.vfs.bucket import open_bucket
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
    return sum(topic.ledgers for topic in open_bucket(url).topics())


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledgers", type=int, default=100_000)
    ledgers = parser.parse_args().ledgers
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-"))
    try:
        make_bucket(fsspec.filesystem("file"), str(folder), ledgers)
        compare(f"file://{folder}", ledgers)
        bucket = open_bucket(f"file://{folder}")
        table = bucket.catalog.ledgers
        start = time.perf_counter()
        bucket.refresh()
        print(
            f"        catalog: {table.nbytes / len(table):.0f} bytes a ledger; refresh {time.perf_counter() - start:.2f} s"
        )
    finally:
        shutil.rmtree(folder)
    print(f"peak memory of the whole run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()

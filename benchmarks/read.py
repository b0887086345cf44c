"""Reads from a slow S3 store, against obstore's reads of the same bytes.

The store (`slowstore.rs`) waits 25 ms before each answer and transfers 80 MiB/s on each connection; it runs on the same processors as its
readers. Each measurement runs in a new process, subjects and baselines in turn; the best of several runs is printed. Imports, compilation,
loading the catalog and a first request are not timed, except for the small ledgers, whose listing is.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import fsspec
import obstore

from benchmarks.buckets import LEDGER_ID, WARM_TOPIC, Buckets, make_buckets
from benchmarks.measuring import MIB, Measurement, Preparation, Rows, best_of, chosen, measured_afresh
from benchmarks.messages import TOPIC
from benchmarks.slow_store import LATENCY_MS, MIB_PER_SECOND, obstore_of, slow_store
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store

PART = 8 << 20
RANDOM_READS, RANDOM_THREADS = 1000, 8
OBSTORE_THREADS = (1, 4, 8, 16, 32)
SMALL_THREADS = (32, 64)

_NEAR = 256
"""Entries between an entry and the next one nearby: a quarter of a MiB."""

_SETTLE = 0.1
"""Seconds, more than a request takes: the statistics are to have requests that a read started without waiting for them."""


def obstore_parts(buckets: Buckets, threads: int) -> Callable[[], int]:
    """Read the data object of the large ledger in parts with obstore."""
    store, key = obstore_of("large", buckets.store.options), buckets.large.key
    obstore.get_range(store, key, start=0, end=1)
    return _parts(buckets, threads, lambda start, end: len(obstore.get_range(store, key, start=start, end=end)))


def s3fs_parts(buckets: Buckets) -> Callable[[], int]:
    """Read it in parts with s3fs."""
    fs, path = _s3fs(buckets), f"large/{buckets.large.key}"
    fs.cat_file(path, start=0, end=1)
    return _parts(buckets, 16, lambda start, end: len(fs.cat_file(path, start=start, end=end)))


def store_parts(buckets: Buckets) -> Callable[[], int]:
    """Read it in parts with the storage that ledgerfs reads with."""
    store, key = open_store(_s3fs(buckets), "large"), buckets.large.key
    store.read(ReadRequest(key, 0, 1))
    return _parts(buckets, 16, lambda start, end: len(store.start(ReadRequest(key, start, end)).result()))


def _parts(buckets: Buckets, threads: int, read: Callable[[int, int], int]) -> Callable[[], int]:
    size = buckets.large.size
    return lambda: _sum(threads, lambda start: read(start, min(start + PART, size)), range(0, size, PART))


def _sum(threads: int, read: Callable[[Any], int], arguments: Any) -> int:  # noqa: ANN401  (an iterable of what ``read`` accepts)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, arguments))


def file_by_readinto(buckets: Buckets) -> Callable[[], int]:
    """Read the ledger's file in the tree into one buffer."""
    buffer = bytearray(PART)
    return _whole_file(buckets, lambda file: int(file.readinto(buffer)))


def file_by_read(buckets: Buckets) -> Callable[[], int]:
    """Read the ledger's file in the tree into new bytes each time."""
    return _whole_file(buckets, lambda file: len(file.read(PART)))


def _whole_file(buckets: Buckets, read: Callable[[Any], int]) -> Callable[[], int]:
    file = _open_file(buckets)

    def pieces() -> Iterator[int]:
        with file:
            while size := read(file):
                yield size

    def work() -> int:
        size = sum(pieces())
        assert size == buckets.large.records_size, size
        return size

    return work


def two_readers(buckets: Buckets) -> Callable[[], int]:
    """Read the two halves of that file at the same time, with a file for each."""
    end = buckets.large.records_size
    opened = [_open_file(buckets), _open_file(buckets)]

    def half(number: int) -> int:
        start, stop = (0, end // 2) if number == 0 else (end // 2, end)
        buffer, at = memoryview(bytearray(PART)), start
        with opened[number] as file:
            file.seek(start)
            while at < stop:
                at += file.readinto(buffer[: stop - at])
        return at - start

    return lambda: _sum(2, half, range(2))


def scan(buckets: Buckets, *, to_table: bool) -> Callable[[], int]:
    """Read the topic as Arrow batches, or as one table; the work returns bytes of entries."""
    topic = _warm_bucket(buckets, "topic").topic(TOPIC)

    def work() -> int:
        rows = topic.scan().to_arrow().num_rows if to_table else sum(batch.num_rows for batch in topic.scan())
        assert rows == buckets.topic_entries, rows
        return buckets.topic_bytes

    return work


def small_ledgers(buckets: Buckets) -> Callable[[], int]:
    """List the bucket of small ledgers and scan their topic; the work returns the number of objects."""
    _warm_bucket(buckets, "topic")

    def work() -> int:
        topic = open_bucket("s3://small", buckets.store.options).topic(TOPIC)
        rows = sum(batch.num_rows for batch in topic.scan())
        assert rows == len(buckets.small_keys) // 2 * 100, rows
        return len(buckets.small_keys)

    return work


def small_gets(buckets: Buckets, threads: int) -> Callable[[], int]:
    """GET the same objects with obstore."""
    store = obstore_of("small", buckets.store.options)
    obstore.get(store, buckets.small_keys[0]).bytes()

    def one(key: str) -> int:
        assert len(obstore.get(store, key).bytes())
        return 1

    return lambda: _sum(threads, one, buckets.small_keys)


@dataclass(frozen=True, slots=True)
class Visit:
    """The cost of one read of one entry."""

    requests: int
    bytes: int
    seconds: float


def visits(buckets: Buckets) -> list[list[Visit]]:
    """Read an entry in each of the cold buckets, one nearby, and the first one again."""
    _warm_bucket(buckets, "large")
    large, found = buckets.large, []
    for name, entry in zip(buckets.cold, large.random_entries(len(buckets.cold)), strict=True):
        ledger = open_bucket(f"s3://{name}", buckets.store.options).ledger(LEDGER_ID)
        assert ledger.cuts().size
        near = entry + _NEAR if entry + _NEAR < large.entries else entry - _NEAR
        found.append([_visit(buckets, ledger, one) for one in (entry, near, entry)])
    return found


def _visit(buckets: Buckets, ledger: Any, entry: int) -> Visit:  # noqa: ANN401  (any reader of entries)
    buckets.store.take_stats()
    start = time.perf_counter()
    ((entry_id, _),) = ledger.read(entry, entry)
    seconds = time.perf_counter() - start
    assert entry_id == entry
    time.sleep(_SETTLE)
    stats = buckets.store.take_stats()
    return Visit(stats.requests, stats.bytes, seconds)


def random_entries(buckets: Buckets, *, learned: bool) -> Callable[[], int]:
    """Read random entries of the large ledger by several threads, perhaps after a pass over all of it; the work returns their number."""
    if learned:
        # Smaller than the ledger, so that its offsets are kept, but not its bytes.
        os.environ["LEDGERFS_CACHE_BYTES"] = str(buckets.large.size // 32)
    ledger = _warm_bucket(buckets, "large").ledger(LEDGER_ID)
    assert ledger.cuts().size
    if learned:
        for _ in ledger.batches(0, ledger.last_entry):
            pass
        time.sleep(_SETTLE)

    def one(entry: int) -> int:
        ((entry_id, _),) = ledger.read(entry, entry)
        assert entry_id == entry
        return 1

    return lambda: _sum(RANDOM_THREADS, one, buckets.large.random_entries(RANDOM_READS))


def random_ranges(buckets: Buckets, size: int) -> Callable[[], int]:
    """GET as many random ranges of ``size`` bytes with obstore."""
    store, key, rnd = obstore_of("large", buckets.store.options), buckets.large.key, random.Random(size)
    starts = [rnd.randrange(buckets.large.size - size) for _ in range(RANDOM_READS)]
    obstore.get_range(store, key, start=0, end=1)

    def one(start: int) -> int:
        return len(obstore.get_range(store, key, start=start, end=start + size)) // size

    return lambda: _sum(RANDOM_THREADS, one, starts)


def _open_file(buckets: Buckets) -> Any:  # noqa: ANN401  (fsspec is not typed)
    return fsspec.open(f"ledger://{buckets.large.tree_path}::s3://large", s3=buckets.store.options).open()


def _warm_bucket(buckets: Buckets, name: str) -> Bucket:
    """Return a bucket with a loaded catalog, in a process that has read and decoded some messages."""
    bucket = open_bucket(f"s3://{name}", buckets.store.options)
    assert bucket.topic(WARM_TOPIC).scan().to_arrow().num_rows
    return bucket


def _s3fs(buckets: Buckets) -> Any:  # noqa: ANN401
    return fsspec.filesystem("s3", **buckets.store.options)


def show_bulk(buckets: Buckets, runs: int, rows: Rows) -> None:
    """Print large reads against the best of obstore."""
    baselines = {f"obstore, {n} threads": partial(obstore_parts, buckets, n) for n in OBSTORE_THREADS}
    subjects: dict[str, Preparation] = {
        "the same through the storage of ledgerfs": partial(store_parts, buckets),
        "the same through s3fs, 16 threads": partial(s3fs_parts, buckets),
        "a ledger through `ledger://entries/…`, `readinto` of 8 MiB": partial(file_by_readinto, buckets),
        "the same, `read` of 8 MiB": partial(file_by_read, buckets),
        "topic to Arrow batches": partial(scan, buckets, to_table=False),
        "topic to one Arrow table": partial(scan, buckets, to_table=True),
    }
    best = best_of(runs, {**baselines, **subjects, "two": partial(two_readers, buckets)}, buckets.store)
    name = max(baselines, key=lambda one: best[one].rate)
    raw = best[name].rate
    rows.add("range GETs of 8 MiB by obstore, the best of 1 to 32 threads", f"{best[name].throughput} ({name})")
    for what in subjects:
        one = best[what]
        rows.add(what, f"{one.rate / raw:.2f} x obstore ({one.throughput}, {one.peak_memory // MIB} MiB)")
    file: Measurement = best["a ledger through `ledger://entries/…`, `readinto` of 8 MiB"]
    assert file.stats is not None
    extra = (file.stats.bytes / buckets.large.size - 1) * 100
    rows.add("extra bytes of the sequential read", f"{extra:.2f} % in {file.stats.requests} requests")
    rows.add("two readers of one ledger, far apart", f"{best['two'].rate / file.rate:.2f} x one")


def show_small(buckets: Buckets, runs: int, rows: Rows) -> None:
    """Print a topic of small ledgers against GETs of its objects."""
    raw: dict[str, Preparation] = {f"{n} threads": partial(small_gets, buckets, n) for n in SMALL_THREADS}
    best = best_of(runs, {"ours": partial(small_ledgers, buckets), **raw}, buckets.store)
    ours = best.pop("ours")
    name = max(best, key=lambda one: best[one].rate)
    assert ours.stats is not None
    ledgers = ours.value // 2
    rows.add(
        "10,000 ledgers of 100 messages, listed and read to Arrow batches",
        f"{ours.rate / best[name].rate:.2f} x GETs of {ours.value:,} objects ({ours.seconds:.1f} s, {ours.cpu:.1f} CPU s; "
        f"GETs {best[name].seconds:.1f} s, {best[name].cpu:.1f} CPU s, {name})",
    )
    rows.add(
        "requests a ledger of these",
        f"{(ours.stats.requests - ours.stats.lists) / ledgers:.3f}, and {ours.stats.lists} of listing",
    )


def show_entries(buckets: Buckets, _: int, rows: Rows) -> None:
    """Print the cost of single entries."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-cache-") as cache:
        os.environ["LEDGERFS_CACHE_DIR"] = cache
        found = visits(buckets)
    names = ("entry by id, cold", "an entry nearby, after that", "the first entry again")
    for what, of in zip(names, zip(*found, strict=True), strict=True):
        requests, sizes, times = [v.requests for v in of], [v.bytes / 1024 for v in of], [v.seconds * 1e3 for v in of]
        rows.add(
            what,
            f"requests {median(requests):g}, worst {max(requests)}; KiB {median(sizes):.0f}, worst {max(sizes):.0f}; "
            f"ms {median(times):.1f}, worst {max(times):.1f}",
        )


def show_random(buckets: Buckets, runs: int, rows: Rows) -> None:
    """Print many random entries by several threads, against GETs of the same size."""
    names = {
        "1,000 random entries by 8 threads, cold": False,
        "1,000 random entries by 8 threads, after a pass over the ledger": True,
    }
    for what, learned in names.items():
        prepare = partial(random_entries, buckets, learned=learned)
        first = measured_afresh(prepare, buckets.store).stats
        assert first is not None
        size = first.bytes // first.requests
        best = best_of(runs, {"ours": prepare, "raw": partial(random_ranges, buckets, size)}, buckets.store)
        ours, raw = best["ours"].rate, best["raw"].rate
        rows.add(
            what,
            f"{ours / raw:.2f} x obstore ({ours:.0f} a second, {first.requests} requests of {size >> 10} KiB)",
        )


SECTIONS = {"bulk": show_bulk, "small": show_small, "entry": show_entries, "random": show_random}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of which the best is printed")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, metavar="|".join(SECTIONS))
    parser.add_argument("--megabytes", type=int, default=512, help="of the large ledger, and of the topic")
    parser.add_argument("--small-ledgers", type=int, default=10_000)
    given = parser.parse_args()
    # SIGTERM, too, removes a gigabyte of buckets.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-read-"))
    try:
        (folder / "buckets").mkdir()
        with slow_store(folder / "buckets", folder) as store:
            buckets = make_buckets(folder / "buckets", store, given.megabytes * MIB, given.small_ledgers)
            print(
                f"a ledger of {buckets.large.size // MIB} MiB, 8 with as much together, {len(buckets.small_keys) // 2} small ones; "
                f"{LATENCY_MS} ms, {MIB_PER_SECOND} MiB/s a connection"
            )
            rows = Rows("read")
            chosen(
                given.only, rows, {name: partial(show, buckets, given.runs, rows) for name, show in SECTIONS.items()}
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""What is measured of reading: each function prepares, as `benchmarks.fresh_process` has it, and returns the work.

Those named ``raw`` are baselines, made with the client library alone.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import local
from typing import Any

import fsspec

from benchmarks.decode import TOPIC
from benchmarks.read_buckets import LEDGER_ID, WARM_TOPIC, Site
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store

PART = 8 << 20
RANDOM_READS = 1000
RANDOM_THREADS = 8
_NEAR = 256
"""Entries between one visit and the next one nearby: a quarter of a MiB."""

_SETTLE = 0.1
"""Seconds, more than a request takes: what a read started and did not wait for is to be in its statistics."""


def raw_parts(site: Site, threads: int) -> Callable[[], int]:
    """Read the data object of the large ledger with obstore in parts of 8 MiB, several at a time."""
    import obstore
    from obstore.store import S3Store

    options, size = site.store.options, site.large.size
    bucket, _, key = site.large.object_path.partition("/")
    store = S3Store(
        bucket,
        endpoint=options["endpoint_url"],
        access_key_id=options["key"],
        secret_access_key=options["secret"],
        client_options={"allow_http": True},
    )
    obstore.get_range(store, key, start=0, end=1)
    return _parts(size, threads, lambda start, end: len(obstore.get_range(store, key, start=start, end=end)))


def s3fs_parts(site: Site, threads: int) -> Callable[[], int]:
    """Read it with s3fs."""
    fs, path = _s3fs(site), site.large.object_path
    fs.cat_file(path, start=0, end=1)
    return _parts(site.large.size, threads, lambda start, end: len(fs.cat_file(path, start=start, end=end)))


def store_parts(site: Site, threads: int) -> Callable[[], int]:
    """Read it with the store that ledgerfs reads with."""
    bucket, _, key = site.large.object_path.partition("/")
    store = open_store(_s3fs(site), bucket)
    store.read(ReadRequest(key, 0, 1))
    return _parts(site.large.size, threads, lambda start, end: len(store.start(ReadRequest(key, start, end)).result()))


def _parts(size: int, threads: int, read: Callable[[int, int], int]) -> Callable[[], int]:
    def work() -> int:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(lambda start: read(start, min(start + PART, size)), range(0, size, PART)))

    return work


def raw_open(site: Site) -> Callable[[], int]:
    """Read the same object as those do who know no better."""
    fs = _s3fs(site)
    fs.cat_file(site.large.object_path, start=0, end=1)

    def work() -> int:
        with fs.open(site.large.object_path) as file:
            return len(file.read())

    return work


def file_by_readinto(site: Site) -> Callable[[], int]:
    """Read the ledger's file in the tree into one buffer."""
    buffer = bytearray(PART)
    return _whole_file(site, lambda file: int(file.readinto(buffer)))


def file_by_read(site: Site) -> Callable[[], int]:
    """Read the ledger's file in the tree into new bytes each time."""
    return _whole_file(site, lambda file: len(file.read(PART)))


def two_readers(site: Site) -> Callable[[], int]:
    """Read the two halves of that file at the same time, with a file for each."""
    large = site.large
    middle = large.records_size // 2
    opened = [_open_file(site), _open_file(site)]

    def half(file: Any, start: int, end: int) -> int:  # noqa: ANN401  (fsspec is not typed)
        with file:
            file.seek(start)
            buffer = memoryview(bytearray(PART))
            at = start
            while at < end:
                at += file.readinto(buffer[: end - at])
        return at - start

    def work() -> int:
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(half, opened, (0, middle), (middle, large.records_size)))

    return work


def scan(site: Site) -> Callable[[], int]:
    """Stream the topic as Arrow batches, and keep none; the work returns bytes of entries."""
    topic = _warm_bucket(site, "topic").topic(TOPIC)

    def work() -> int:
        rows = sum(batch.num_rows for batch in topic.scan())
        assert rows == site.topic_entries, rows
        return site.topic_bytes

    return work


def scan_to_table(site: Site) -> Callable[[], int]:
    """Make one Arrow table of the topic."""
    topic = _warm_bucket(site, "topic").topic(TOPIC)

    def work() -> int:
        rows = topic.scan().to_arrow().num_rows
        assert rows == site.topic_entries, rows
        return site.topic_bytes

    return work


@dataclass(frozen=True, slots=True)
class Visit:
    """What one read of one entry cost."""

    requests: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Visits:
    """Reads of an entry that nobody read before, of one nearby, and of the first one again."""

    cold: Visit
    nearby: Visit
    cached: Visit


def visits(site: Site) -> Callable[[], list[Visits]]:
    """Visit one entry in each of the cold buckets, of which nothing is known but the index."""
    _warm_bucket(site, "large")
    large = site.large

    def one(name: str, entry: int) -> Visits:
        ledger = open_bucket(f"s3://{name}", site.store.options).ledger(LEDGER_ID)
        assert ledger.cuts().size
        near = entry + _NEAR if entry + _NEAR < large.entries else entry - _NEAR
        return Visits(*(_visit(site, ledger, entry_id) for entry_id in (entry, near, entry)))

    return lambda: [one(*each) for each in zip(site.cold, large.random_entries(len(site.cold)), strict=True)]


def random_entries(site: Site, *, learned: bool) -> Callable[[], int]:
    """Read random entries of the large ledger by several threads, perhaps after a pass over all of it; the work returns their number."""
    if learned:
        # Less than the pass reads, so that offsets are what is left of it, and not the bytes themselves.
        os.environ["LEDGERFS_CACHE_BYTES"] = str(16 << 20)
    ledger = _warm_bucket(site, "large").ledger(LEDGER_ID)
    assert ledger.cuts().size
    if learned:
        for _ in ledger.batches(0, ledger.last_entry):
            pass
        time.sleep(_SETTLE)

    def one(entry: int) -> int:
        ((entry_id, _),) = ledger.read(entry, entry)
        assert entry_id == entry
        return 1

    def work() -> int:
        with ThreadPoolExecutor(RANDOM_THREADS) as pool:
            return sum(pool.map(one, site.large.random_entries(RANDOM_READS)))

    return work


def raw_random(site: Site, size: int) -> Callable[[], int]:
    """Read as many random ranges of ``size`` bytes with s3fs."""
    fs, path = _s3fs(site), site.large.object_path
    fs.cat_file(path, start=0, end=1)

    def one(start: int) -> int:
        return len(fs.cat_file(path, start=start, end=start + size)) // size

    return _random_ranges(site, size, one)


def raw_random_http(site: Site, size: int) -> Callable[[], int]:
    """Read the same ranges with nothing but HTTP: the store's own rate."""
    state = local()

    def one(start: int) -> int:
        if not hasattr(state, "connection"):
            state.connection = HTTPConnection("127.0.0.1", site.store.port)
        connection: HTTPConnection = state.connection
        connection.request("GET", f"/{site.large.object_path}", headers={"Range": f"bytes={start}-{start + size - 1}"})
        return len(connection.getresponse().read()) // size

    return _random_ranges(site, size, one)


def _random_ranges(site: Site, size: int, one: Callable[[int], int]) -> Callable[[], int]:
    rnd = random.Random(size)
    starts = [rnd.randrange(site.large.size - size) for _ in range(RANDOM_READS)]

    def work() -> int:
        with ThreadPoolExecutor(RANDOM_THREADS) as pool:
            return sum(pool.map(one, starts))

    return work


def _visit(site: Site, ledger: Any, entry: int) -> Visit:  # noqa: ANN401  (whatever reads entries)
    site.store.take_stats()
    start = time.perf_counter()
    ((entry_id, _),) = ledger.read(entry, entry)
    seconds = time.perf_counter() - start
    assert entry_id == entry
    time.sleep(_SETTLE)
    stats = site.store.take_stats()
    return Visit(stats.requests, stats.bytes, seconds)


def _whole_file(site: Site, read: Callable[[Any], int]) -> Callable[[], int]:
    file = _open_file(site)

    def pieces() -> Iterator[int]:
        with file:
            while size := read(file):
                yield size

    def work() -> int:
        size = sum(pieces())
        assert size == site.large.records_size, size
        return size

    return work


def _open_file(site: Site) -> Any:  # noqa: ANN401  (fsspec is not typed)
    url = f"ledger://{site.large.tree_path}::s3://large"
    return fsspec.open(url, s3=site.store.options).open()


def _warm_bucket(site: Site, name: str) -> Bucket:
    """Return a bucket whose catalog is loaded, in a process that has read and decoded some messages."""
    bucket = open_bucket(f"s3://{name}", site.store.options)
    assert bucket.topic(WARM_TOPIC).scan().to_arrow().num_rows
    return bucket


def _s3fs(site: Site) -> Any:  # noqa: ANN401
    return fsspec.filesystem("s3", **site.store.options)

"""What befalls a process, not a request: it is killed, forked, crowded with threads; its disk fills up, its clock jumps."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.cache.block_cache import process_cache
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.vfs.tree import tree_of
from tests.support.children import is_true_in_child
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload
from tests.support.matrix import TOPIC, small_parts
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.waiting import wait_until

FILE = f"entries/{TOPIC}/1.entries"
ENTRIES = 500

READER = """
import os, sys, time
from ledgerfs.cache import read_ahead
from ledgerfs.fsspec_impl import LedgerFileSystem

read_ahead.PART_BYTES, read_ahead._FIRST_PARTS = 64 << 10, (16 << 10,)
endpoint, bucket, cache_dir, pause = sys.argv[1:]
options = {"endpoint_url": endpoint, "key": "test-access-key-id", "secret": "test-secret-not-to-be-shown"}
fs = LedgerFileSystem(fo=bucket, target_protocol="s3", target_options=options, cache_dir=cache_dir)
with fs.open(os.environ["LEDGERFS_TEST_FILE"]) as file:
    while data := file.read(40_000):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        time.sleep(float(pause))
print(fs.stats()["bytes_received"], file=sys.stderr)
"""


@pytest.fixture(scope="module")
def made() -> Offload:
    """About 1.8 MiB in blocks of 256 KiB."""
    source = random.Random(5)
    entries = [
        frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), source.randbytes(source.randrange(200, 7000)))
        for i in range(ENTRIES)
    ]
    return offload(entries, block_size=256 << 10)


@pytest.fixture(scope="module")
def bucket(s3: S3Server, made: Offload) -> str:
    name = f"hard-{uuid.uuid4()}"
    s3.make_bucket(name, made.objects)
    return name


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


def opened(s3: S3Server | FaultProxy, bucket: str, cache_dir: Path | None = None) -> LedgerFileSystem:
    options = {"fo": bucket, "target_protocol": "s3", "target_options": s3.options}
    return LedgerFileSystem(**options, cache_dir=None if cache_dir is None else str(cache_dir))


def reader(s3: S3Server, bucket: str, cache_dir: Path, pause: float = 0.0) -> "subprocess.Popen[bytes]":
    """Read the whole file in another process, which writes what it read."""
    environment = {**os.environ, "LEDGERFS_TEST_FILE": FILE, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", READER, s3.endpoint, bucket, str(cache_dir), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def test_what_a_killed_reader_leaves_is_right_for_the_next(
    s3: S3Server, bucket: str, made: Offload, tmp_path: Path
) -> None:
    def is_something_kept() -> bool:
        """Whether whole ranges are there, of more bytes than all but the data have; files that are being made end in ``.part``."""
        kept = 0
        for path in (tmp_path / "files").glob("*-*"):
            with suppress(FileNotFoundError):
                kept += path.stat().st_size if path.is_file() and path.suffix != ".part" else 0
        return kept > 50_000

    for taken in (1, 400_000):
        killed = reader(s3, bucket, tmp_path, pause=0.01)
        assert killed.stdout is not None
        first = killed.stdout.read(taken)
        if taken > 1:
            # It does not come to its end meanwhile, for nobody takes what it writes.
            wait_until(is_something_kept, seconds=300)
        killed.send_signal(signal.SIGKILL)
        _, error = killed.communicate()
        assert killed.returncode == -signal.SIGKILL, error
        assert first == made.records[:taken]
    assert is_something_kept()
    fs = opened(s3, bucket, tmp_path)
    with fs.open(FILE) as file:
        assert b"".join(iter(lambda: file.read(40_000), b"")) == made.records
    assert fs.stats()["bytes_received"] < len(made.data)


def test_two_processes_share_a_cache_folder(s3: S3Server, bucket: str, made: Offload, tmp_path: Path) -> None:
    both = [reader(s3, bucket, tmp_path, pause=0.005) for _ in range(2)]
    fs = opened(s3, bucket, tmp_path)
    assert fs.cat_file(FILE) == made.records
    assert [one.communicate(timeout=600)[0] for one in both] == [made.records] * 2
    # What they left is whole, too.
    process_cache.clear()
    assert opened(s3, bucket, tmp_path).cat_file(FILE) == made.records


def test_a_full_disk_costs_nothing_but_what_it_would_have_kept(
    s3: S3Server, bucket: str, made: Offload, tiny_disk: Path
) -> None:
    for fill in (0, 500 << 10):
        with (tiny_disk / "other").open("wb") as other, suppress(OSError):
            other.write(bytes(fill))
        process_cache.clear()
        fs = opened(s3, bucket, tiny_disk)
        with fs.open(FILE) as file:
            assert b"".join(iter(lambda f=file: f.read(50_000), b"")) == made.records
        assert fs.bucket.topic(TOPIC).count() == ENTRIES
        LedgerFileSystem.clear_instance_cache()
        assert opened(s3, bucket, tiny_disk).bucket.topics()[0].entries == ENTRIES


def as_nobody(work: Any) -> bool:
    """Do something in a forked child that is not root, for whom permissions hold."""

    def child() -> bool:
        if os.geteuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        return bool(work())

    return is_true_in_child(child)


def test_a_cache_folder_that_cannot_be_written_is_no_error(
    s3: S3Server, bucket: str, made: Offload, tmp_path: Path
) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)

    def read() -> bool:
        fs = opened(s3, bucket, folder)
        return fs.cat_file(FILE) == made.records and fs.bucket.topic(TOPIC).count() == ENTRIES

    # Compiled and made here, for the child may not write where that is kept.
    assert opened(s3, bucket).bucket.topic(TOPIC).count() == ENTRIES
    assert as_nobody(read)
    assert list(folder.iterdir()) == []


def test_a_clock_that_jumps_changes_neither_bytes_nor_bounds(
    s3: S3Server, bucket: str, made: Offload, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    jumps = itertools.cycle([0, 10**7, -(10**7), 3600, -3600, -(10**8)])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + next(jumps)) * 1e9))
    fs = opened(proxy, bucket, tmp_path)
    fs.bucket.load_catalog()
    for kind in ("503", "short"):
        proxy.faults = [Fault(kind, every=3)]
        process_cache.clear()
        began = time.monotonic()
        with fs.open(FILE) as file:
            assert b"".join(iter(lambda f=file: f.read(60_000), b"")) == made.records
        # Less than the smallest jump.
        assert time.monotonic() - began < 3600
        assert fs.bucket.stats().retries > 0
        fs.bucket.refresh()
        assert fs.bucket.topic(TOPIC).count() == ENTRIES


def test_64_threads_on_one_open_file_and_on_one_path(s3: S3Server, bucket: str, made: Offload) -> None:
    """Half of the threads share what is one open file below fsspec's, which has a position; the others open the path, each for itself."""
    fs = opened(s3, bucket)
    shared = tree_of(fs.bucket).open(FILE)
    size = len(made.records)

    def read(number: int) -> int:
        source = random.Random(number)
        wrong = 0
        at = source.randrange(size)
        file = fs.open(FILE) if number % 2 else None
        for _ in range(8):
            # Forwards, a little out of order, or anywhere.
            at = (at + source.choice([0, 0, 9000, -30_000, source.randrange(size)])) % size
            length = source.choice([1, 500, 20_000])
            if file is None:
                data = shared.read(at, at + length)
            else:
                file.seek(at)
                data = file.read(length)
            wrong += data != made.records[at : at + length]
            at += length
        return wrong

    with ThreadPoolExecutor(64) as pool:
        assert sum(pool.map(read, range(64))) == 0


def test_a_fork_with_open_files_goes_on_in_both(s3: S3Server, bucket: str, made: Offload) -> None:
    fs = opened(s3, bucket)
    for taken in (10_000, 500_000):
        process_cache.clear()
        with fs.open(FILE) as file:
            # In pieces, so that more and more parts are on their way.
            assert b"".join(file.read(10_000) for _ in range(taken // 10_000)) == made.records[:taken]
            assert is_true_in_child(lambda f=file, n=taken: f.tell() == n and f.read() == made.records[n:])
            assert file.read() == made.records[taken:]


def test_forks_while_threads_read_the_same_open_file(s3: S3Server, bucket: str, made: Offload) -> None:
    fs = opened(s3, bucket)
    shared = tree_of(fs.bucket).open(FILE)
    stop = False

    def keep_reading(start: int) -> int:
        wrong = 0
        while not stop:
            for at in range(start, len(made.records) - 7000, 7000):
                if stop:
                    break
                wrong += shared.read(at, at + 7000) != made.records[at : at + 7000]
        return wrong

    def read_all() -> bool:
        pieces = range(0, len(made.records), 100_000)
        return b"".join(shared.read(at, min(at + 100_000, len(made.records))) for at in pieces) == made.records

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(keep_reading, start) for start in (0, 5000, 400_000)]
        try:
            assert all(is_true_in_child(read_all) for _ in range(2))
        finally:
            stop = True
        assert [one.result() for one in reading] == [0, 0, 0]

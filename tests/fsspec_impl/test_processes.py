"""Threads, forks and other processes, on disk and on S3: what Spark, Dask and multiprocessing do to a filesystem."""

import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import fsspec
import pyarrow.dataset
import pytest

from ledgerfs.fsspec_impl import LedgerFileSystem, ledger_file
from tests.support.children import is_true_in_child

if TYPE_CHECKING:  # the processes of their own, which import this module, have no use for a server
    from tests.support.s3 import S3Server

BLOCKS = "entries/public/golden/blocks/42.entries"


@pytest.fixture(params=["file", "s3"])
def options(request: pytest.FixtureRequest, golden: Path, s3: "S3Server", s3_golden: str) -> dict[str, Any]:
    if request.param == "file":
        return {"fo": f"{golden}/bucket", "target_protocol": "file"}
    return {"fo": "golden", "target_protocol": "s3", "target_options": s3.options}


def piece(fs: LedgerFileSystem, start: int) -> bytes:
    with fs.open(BLOCKS) as file:
        file.seek(start)
        return file.read(3000)


def test_many_threads_read_one_file_through_one_instance(options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("ledger", **options)
    whole = fs.cat_file(BLOCKS)
    starts = [i * 104_729 % len(whole) for i in range(60)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda start: piece(fs, start), starts)) == [
            whole[start : start + 3000] for start in starts
        ]


def test_an_instance_works_in_a_forked_child(options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("ledger", **options)
    before = piece(fs, 7)
    bucket = fs.bucket
    assert is_true_in_child(
        lambda: piece(fs, 7) == before and fsspec.filesystem("ledger", **options).cat_file(BLOCKS, 7, 3007) == before
    )
    assert is_true_in_child(
        lambda: bytes(bucket.ledger(26).read(3, 3)[0].data) == bytes(bucket.ledger(26).read(3, 3)[0].data) != b""
    )
    assert is_true_in_child(lambda: len(bucket.refresh().ledgers) == 104)
    assert piece(fs, 7) == before


def test_a_fork_while_other_threads_read_does_not_hang(options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("ledger", **options)
    expected = piece(fs, 0)
    stop = threading.Event()

    def keep_reading() -> None:
        while not stop.is_set():
            piece(fs, 5_000_000)
            fs.bucket.ledger(42).read(0, 5)

    threads = [threading.Thread(target=keep_reading) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert all(is_true_in_child(lambda: piece(fs, 0) == expected) for _ in range(5))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_instances_travel_to_other_processes(method: str, options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("ledger", **options)
    expected = [piece(fs, start) for start in (0, 5_000_000)]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(piece, [fs, fs], [0, 5_000_000])) == expected


def test_the_end_of_a_program_waits_only_while_arrow_holds_a_file(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pyarrow.dataset
    monkeypatch.setattr(ledger_file, "_of_arrow", WeakValueDictionary())
    slept: list[float] = []
    held: list[Any] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            held.clear()

    monkeypatch.setattr(ledger_file, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    fs = fsspec.filesystem("ledger", **options)
    assert piece(fs, 0)
    ledger_file.wait_for_arrow()
    assert slept == []
    held.append(fs.open(BLOCKS))
    assert held[0].read(10)
    ledger_file.wait_for_arrow()
    assert len(slept) == 3

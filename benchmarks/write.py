"""Writing: ledgers from memory into an S3 server and into a folder, from bucket to bucket, and rows as messages.

Each measurement is a process of its own, in turn with its baseline; printed is the ratio of the best runs, and the largest memory. The S3
server, on the same cores, keeps its objects in memory (``/dev/shm``), and so does the folder, so that no disk is measured.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

_BLOCK = 64 << 20
_TOPIC = "public/default/persistent/orders"
_MIB = 1 << 20
_BROKER_BATCHED, _BROKER_SINGLE = 48, 13
"""MiB/s of the broker's own offload on such a machine, measured once, of 1 KiB messages in batches and one an entry."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement: seconds of the work itself, and the process's peak memory beyond what it had before, bytes."""

    seconds: float
    memory: int
    peak: int


def afresh(work: Callable[..., Callable[[], object]], *arguments: Any) -> Run:  # noqa: ANN401
    """Call ``work`` in a new process, which prepares, and time what it returns."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, work, arguments).result()


def _measured(work: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> Run:
    run = work(*arguments)
    before = _memory("VmRSS")
    start = time.perf_counter()
    run()
    return Run(time.perf_counter() - start, _memory("VmHWM") - before, _memory("VmHWM"))


def _memory(name: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) << 10


def records(megabytes: int, entry_bytes: int) -> memoryview:
    """Return the bytes of a file of records, of random entries."""
    record = 12 + entry_bytes
    count = megabytes * _MIB // record
    made = np.empty((count, record), np.uint8)
    some = np.random.default_rng(7).integers(0, 256, (min(count, 4096), record), np.uint8)
    for start in range(0, count, len(some)):
        made[start : start + len(some)] = some[: count - start]
    made[:, :4] = np.frombuffer(np.array([entry_bytes], ">i4").tobytes(), np.uint8)
    made[:, 4:12] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
    return memoryview(made.reshape(-1).data).toreadonly()


def offload_memory(url: str, options: dict[str, Any], megabytes: int, ledger_id: int) -> Callable[[], object]:
    """Ours: write one ledger from memory."""
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.writing.sources import RecordFile
    from ledgerfs.writing.write import Wanted, write_ledger

    data, bucket = records(megabytes, 1024), open_bucket(url, options)
    bucket.load_catalog()
    write_ledger(bucket, Wanted(_TOPIC, 2 * ledger_id), RecordFile.of("warm", records(1, 1024)))
    return lambda: write_ledger(
        bucket, Wanted(_TOPIC, 2 * ledger_id + 1, block_size=_BLOCK), RecordFile.of("memory", data)
    )


def put_raw(bucket: str, options: dict[str, Any], megabytes: int, number: int) -> Callable[[], object]:
    """Baseline: s3fs's own upload in parts, of the same bytes, in parts of the same size."""
    import s3fs

    data, fs = bytes(records(megabytes, 1024)), s3fs.S3FileSystem(**options, skip_instance_cache=True)
    fs.pipe_file(f"{bucket}/warm-{number}", b"warm")
    return lambda: fs.pipe_file(f"{bucket}/raw-{number}", data, chunksize=_BLOCK)


def copy_bucket(source: str, target: str, options: dict[str, Any], check: bool) -> Callable[[], object]:
    """Ours: offload from a folder into another bucket."""
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.writing.bucket_copy import CopyOptions, CopyOutcome, copy_rows, rows_to_copy

    ours, theirs = open_bucket(source), open_bucket(target, options)
    rows = rows_to_copy(ours.catalog, None, all_copies=True)

    def run() -> None:
        done = list(copy_rows(ours, theirs, rows, CopyOptions(new_uuid=True, check=check)))
        assert all(one.outcome is CopyOutcome.COPIED for one in done), done

    return run


def import_file(path: str, target: str, batch: int, compression: str) -> Callable[[], object]:
    """Ours: rows of a Parquet file as a ledger."""
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.writing.imports import import_rows

    write = partial(import_rows, open_bucket(target), batch=batch, compression=compression)
    rows = pa.table({"key": ["k"], "value": [b"v"]})
    warm = Path(target) / "warm.parquet"
    pa.parquet.write_table(rows, warm)
    write(str(warm), "public/default/warm")
    return lambda: write(path, "public/default/rows")


def best(runs: list[Run]) -> Run:
    return min(runs, key=lambda run: run.seconds)


def bench_s3(folder: Path, options: dict[str, Any], megabytes: int, rounds: int) -> None:
    ours, raw = [], []
    for number in range(rounds):
        raw.append(afresh(put_raw, "tier", options, megabytes, number))
        ours.append(afresh(offload_memory, "s3://tier", options, megabytes, number))
        _empty(folder / "tier")
    _tell("memory → S3, against s3fs in parts", megabytes, ours, raw, 0.9)


def bench_folder(folder: Path, megabytes: int, rounds: int) -> None:
    target = folder / "local"
    plain = folder / "plain"
    ours, raw = [], []
    plain.write_bytes(records(megabytes, 1024))
    for number in range(rounds):
        target.mkdir()
        start = time.perf_counter()
        subprocess.run(["cp", str(plain), str(target / "copy")], check=True)
        raw.append(Run(time.perf_counter() - start, 0, 0))
        (target / "copy").unlink()
        ours.append(afresh(offload_memory, str(target), {}, megabytes, number))
        shutil.rmtree(target)
    plain.unlink()
    _tell("memory → folder, against cp", megabytes, ours, raw, 0.7)


def bench_copy(folder: Path, options: dict[str, Any], megabytes: int, rounds: int) -> None:
    source = folder / "source"
    source.mkdir()
    afresh(_make, str(source), megabytes)
    for check in (False, True):
        runs = []
        for _ in range(rounds):
            runs.append(afresh(copy_bucket, str(source), "s3://tier", options, check))
            _empty(folder / "tier")
        speed = megabytes / best(runs).seconds
        print(
            f"bucket → bucket (S3), 1 KiB entries{', read back' if check else ''}: {speed:.0f} MiB/s, "
            f"{speed / _BROKER_BATCHED:.1f} times the broker's offload of batches, {speed / _BROKER_SINGLE:.0f} times that of "
            f"single messages (goal: 3); "
            f"memory {max(run.peak for run in runs) / _MIB:.0f} MiB in all (goal: at most 512)"
        )
    shutil.rmtree(source)


@dataclass(frozen=True, slots=True)
class _Values:
    """Rows in memory: values of 1,000 bytes, which are 1 KiB as entries."""

    count: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("value", pa.binary())])

    @property
    def rows(self) -> int:
        return self.count

    def batches(self) -> Iterator[pa.RecordBatch]:
        letters = np.random.default_rng(3).integers(97, 123, (8192, 1000), np.uint8)
        values = pa.array([row.tobytes() for row in letters], pa.binary())
        for start in range(0, self.count, 8192):
            yield pa.record_batch([values.slice(0, min(8192, self.count - start))], schema=self.schema)


def _make(source: str, megabytes: int) -> Callable[[], object]:
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.writing.imports import import_rows

    values = _Values(megabytes * 1024)
    return lambda: import_rows(open_bucket(source), values, "public/default/orders", batch=1)


def bench_import(folder: Path, rows: int, rounds: int) -> None:
    path = folder / "rows.parquet"
    make_rows(path, rows)
    for compression, batch in (("none", 1000), ("lz4", 1000), ("zstd", 1000), ("none", 1)):
        runs = []
        for _ in range(rounds):
            target = folder / "imported"
            target.mkdir()
            runs.append(afresh(import_file, str(path), str(target), batch, compression))
            shutil.rmtree(target)
        print(
            f"import of {rows / 1e6:.0f} M rows of 100 B, {f'batches of {batch}' if batch > 1 else 'one an entry'}, {compression}: "
            f"{rows / best(runs).seconds / 1e6:.2f} M messages/s (goal: 2); "
            f"memory {max(run.peak for run in runs) / _MIB:.0f} MiB in all (goal: at most 512)"
        )
    path.unlink()


def make_rows(path: Path, rows: int) -> None:
    """Write a Parquet file of keys and values of 100 bytes, half of each random letters."""
    rng = np.random.default_rng(1)
    portion = min(rows, 1_000_000)
    text = np.frombuffer(b'{"order":"0000","customer":"someone","amount":12.50', np.uint8)[:50]
    keys = pa.array([f"k{i % 1000}" for i in range(portion)])
    offsets = pa.py_buffer(np.arange(portion + 1, dtype=np.int32) * 100)
    schema = pa.schema([("key", pa.string()), ("value", pa.binary())])
    with pa.parquet.ParquetWriter(path, schema, use_dictionary=["key"]) as writer:
        for _ in range(rows // portion):
            letters = rng.integers(97, 123, (portion, 50), np.uint8)
            values = np.concatenate([np.broadcast_to(text, (portion, 50)), letters], axis=1)
            column = pa.Array.from_buffers(pa.binary(), portion, [None, offsets, pa.py_buffer(values.tobytes())])
            writer.write_table(pa.table({"key": keys, "value": column}))


def _tell(what: str, megabytes: int, ours: list[Run], raw: list[Run], goal: float) -> None:
    mine, theirs = best(ours).seconds, best(raw).seconds
    print(
        f"{what}: {megabytes / mine:.0f} and {megabytes / theirs:.0f} MiB/s; ratio {theirs / mine:.2f} (goal: at least {goal}); "
        f"memory beyond the data {max(run.memory for run in ours) / _MIB:.0f} MiB (goal: at most 512)"
    )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=["s3", "folder", "copy", "import"], default=None)
    given = parser.parse_args()
    chosen = given.only or ["s3", "folder", "copy", "import"]
    from benchmarks.gateway import gateway

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="ledgerfs-bench-", dir=memory))
    os.environ["LEDGERFS_CACHE_DIR"] = str(folder / "cache")
    try:
        (folder / "s3" / "tier").mkdir(parents=True)
        if {"s3", "copy"} & set(chosen):
            with gateway(folder / "s3") as options:
                if "s3" in chosen:
                    bench_s3(folder / "s3", options, given.megabytes, given.runs)
                if "copy" in chosen:
                    bench_copy(folder / "s3", options, given.megabytes, given.runs)
        if "folder" in chosen:
            bench_folder(folder, given.megabytes, given.runs)
        if "import" in chosen:
            bench_import(folder, given.rows, given.runs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""Writing: ledgers into an S3 server and a folder, from bucket to bucket, and rows as messages, against obstore's put and plain copies.

Each measurement runs in a new process, in turn with its baseline; the ratio of the best runs is printed, and the memory of these. The S3
server (versitygw, as in ``make interop``), on the same cores, keeps its objects in memory (``/dev/shm``), and so does the folder, so that
no disk is measured.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet

from benchmarks.measuring import MIB, Measurement, Preparation, Rows, chosen, measured_afresh
from benchmarks.messages import events
from benchmarks.slow_store import obstore_of
from interop.processes import Processes
from interop.s3_server import BUCKET, S3Server
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.writing.copy_ledgers import copy_ledgers
from ledgerfs.writing.imports import import_rows
from ledgerfs.writing.sources import RecordFile
from ledgerfs.writing.write import Wanted, write_ledger

_BLOCK = 64 * MIB
_LEDGER = "public/default/persistent/orders"


def records(megabytes: int) -> memoryview:
    """Return the bytes of a file of records, of random entries of 1 KiB."""
    size = 1024
    record = 12 + size
    count = megabytes * MIB // record
    made = np.empty((count, record), np.uint8)
    some = np.random.default_rng(7).integers(0, 256, (min(count, 4096), record), np.uint8)
    for start in range(0, count, len(some)):
        made[start : start + len(some)] = some[: count - start]
    made[:, :4] = np.frombuffer(np.array([size], ">i4").tobytes(), np.uint8)
    made[:, 4:12] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
    return memoryview(made.reshape(-1).data).toreadonly()


def write_from_memory(url: str, options: dict[str, Any], megabytes: int) -> Callable[[], int]:
    """Write one ledger."""
    data, bucket = records(megabytes), open_bucket(url, options)
    bucket.load_catalog()
    write_ledger(bucket, Wanted(_LEDGER, 1), RecordFile.of("warm", records(1)))

    def work() -> int:
        write_ledger(bucket, Wanted(_LEDGER, 2, block_size=_BLOCK), RecordFile.of("memory", data))
        return data.nbytes

    return work


def put(options: dict[str, Any], megabytes: int) -> Callable[[], int]:
    """Put the same bytes with obstore, in parts of the same size."""
    data, store = bytes(records(megabytes)), obstore_of(BUCKET, options)
    obstore.put(store, "warm", b"warm")

    def work() -> int:
        obstore.put(store, "raw", data, use_multipart=True, chunk_size=_BLOCK)
        return len(data)

    return work


def write_messages(url: str, megabytes: int) -> Callable[[], int]:
    """Write two ledgers of messages of 1,000 bytes, one an entry, which are 1 KiB with their metadata."""
    messages = pa.table({"value": (events(1000) * (megabytes * 1024 // 2 // 4000 + 1))[: megabytes * 512]})
    return lambda: sum(import_rows(url, messages, "public/default/orders", batch=1).messages for _ in range(2))


def copy_file(source: str, target: str) -> Callable[[], int]:
    """Copy a file as ``cp`` does."""
    return lambda: Path(shutil.copyfile(source, target)).stat().st_size


def offload(source: str, options: dict[str, Any], check: bool) -> Callable[[], int]:
    """Copy the ledgers of a folder to S3."""
    ours, theirs = open_bucket(source), open_bucket(f"s3://{BUCKET}", options)
    size = sum(ref.length for ref in ours.catalog.refs())

    def work() -> int:
        copy_ledgers(ours, theirs, new_uuid=True, check=check).require_complete()
        return size

    return work


def import_file(path: str, target: str, batch: int, compression: str) -> Callable[[], int]:
    """Write the rows of a Parquet file as a ledger; the work returns their number."""
    write = partial(import_rows, open_bucket(target), batch=batch, compression=compression)
    write(pa.table({"key": ["k"], "value": [b"v"]}), "public/default/warm")
    rows: int = pa.parquet.read_metadata(path).num_rows

    def work() -> int:
        write(path, "public/default/rows")
        return rows

    return work


def rewrite_parquet(path: str, target: str) -> Callable[[], int]:
    """Copy the rows of a Parquet file with pyarrow, not compressed."""

    def work() -> int:
        file, number = pa.parquet.ParquetFile(path), 0
        with pa.parquet.ParquetWriter(f"{target}/copy", file.schema_arrow, compression="none") as writer:
            for batch in file.iter_batches():
                writer.write_batch(batch)
                number += batch.num_rows
        return number

    return work


def best_into(folder: Path, runs: int, works: dict[str, Preparation]) -> dict[str, Measurement]:
    """Measure each in turn, each into the emptied folder; return the fastest of each."""
    found: dict[str, Measurement] = {}
    for _ in range(runs):
        for name, prepare in works.items():
            one = measured_afresh(prepare)
            shutil.rmtree(folder)
            folder.mkdir()
            if name not in found or one.seconds < found[name].seconds:
                found[name] = one
    return found


@contextmanager
def s3_server(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Serve an empty bucket in a folder; yields its folder, and the options that s3fs needs."""
    processes = Processes(folder)
    try:
        server = S3Server("s3", folder / "s3", processes).start()
        yield folder / "s3" / BUCKET, server.options
    finally:
        processes.stop_all()


def show_s3(folder: Path, runs: int, megabytes: int, rows: Rows) -> None:
    """Print ledgers into S3."""
    source = folder / "source"
    source.mkdir()
    measured_afresh(partial(write_messages, str(source), megabytes))
    names = {
        "1 GiB of 1 KiB entries from memory into S3": "",
        "bucket to bucket (folder to S3), 1 KiB entries": "copied",
        "the same, each copy read back": "checked",
    }
    with s3_server(folder) as (bucket, options):
        works: dict[str, Preparation] = {
            "": partial(write_from_memory, f"s3://{BUCKET}", options, megabytes),
            "copied": partial(offload, str(source), options, False),
            "checked": partial(offload, str(source), options, True),
            "put": partial(put, options, megabytes),
        }
        best = best_into(bucket, runs, works)
    shutil.rmtree(source)
    raw = best["put"]
    for what, name in names.items():
        one = best[name]
        rows.add(what, f"{one.rate / raw.rate:.2f} x obstore's put ({one.throughput}; put {raw.throughput})")
    rows.add("memory of `offload`, whole process", f"{best['checked'].peak_memory // MIB} MiB")


def show_folder(folder: Path, runs: int, megabytes: int, rows: Rows) -> None:
    """Print a ledger into a folder."""
    target, plain = folder / "local", folder / "plain"
    target.mkdir()
    plain.write_bytes(records(megabytes))
    works: dict[str, Preparation] = {
        "ours": partial(write_from_memory, str(target), {}, megabytes),
        "cp": partial(copy_file, str(plain), str(target / "copy")),
    }
    best = best_into(target, runs, works)
    plain.unlink()
    ratio = best["ours"].rate / best["cp"].rate
    rows.add("the same ledger into a folder", f"{ratio:.2f} x a copy ({best['ours'].throughput})")


def show_import(folder: Path, runs: int, number: int, rows: Rows) -> None:
    """Print rows of a Parquet file as messages."""
    path, target = folder / "rows.parquet", folder / "imported"
    target.mkdir()
    make_rows(path, number)
    shapes = {
        "`import` of 10 million rows of 100 B, in batches": (1000, "none"),
        "the same with LZ4": (1000, "lz4"),
        "the same with ZSTD": (1000, "zstd"),
        "the same, one message an entry": (1, "none"),
    }
    works: dict[str, Preparation] = {
        what: partial(import_file, str(path), str(target), *shape) for what, shape in shapes.items()
    }
    best = best_into(target, runs, {**works, "Parquet": partial(rewrite_parquet, str(path), str(target))})
    path.unlink()
    raw = best["Parquet"]
    for what in shapes:
        one = best[what]
        rows.add(what, f"{one.rate / 1e6:.2f} M messages/s, {one.rate / raw.rate:.2f} x a copy by pyarrow")
    rows.add("memory of `import`, whole process", f"{max(best[what].peak_memory for what in shapes) // MIB} MiB")


def make_rows(path: Path, number: int) -> None:
    """Write a Parquet file of keys and values of 100 bytes."""
    some = events(100) * 25
    portion = pa.table({"key": [f"k{i % 1000}" for i in range(len(some))], "value": some})
    with pa.parquet.ParquetWriter(path, portion.schema, use_dictionary=["key"]) as writer:
        for start in range(0, number, len(some)):
            writer.write_table(portion.slice(0, number - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=("s3", "folder", "import"), metavar="s3|folder|import")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-", dir="/dev/shm") as made:
        folder, rows = Path(made), Rows("write")
        works = {
            "s3": partial(show_s3, folder, given.runs, given.megabytes, rows),
            "folder": partial(show_folder, folder, given.runs, given.megabytes, rows),
            "import": partial(show_import, folder, given.runs, given.rows, rows),
        }
        chosen(given.only, rows, works)


if __name__ == "__main__":
    main()

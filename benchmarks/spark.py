"""Spark: scans, planning and export, against what Spark does with the same rows as Parquet.

What a source in Python can reach at all is told by one that hands Spark the same ready-made batch again and again.

One session ``local[2]``; every query in turn with its baseline, after one of each that is not counted; printed are medians and ratios.
Buckets and files are in memory (``/dev/shm``), so that no disk is measured. The Parquet files are uncompressed and have all columns; Spark
reads of them only what a query needs, so we are asked for the columns that it needs, too.
"""

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.spark.runtime.session import open_session
from ledgerfs.spark.runtime.tasks import spare_imports
from ledgerfs.spark.source.message_rows import BATCH_BYTES, BATCH_ROWS
from ledgerfs.writing.imports import import_rows

_MIB = 1 << 20
_BROKER = 104
"""MiB/s of a consumer through a real broker, of 1 KiB messages in batches, measured once on such a machine."""

_LEDGERS = 4
_WARM_UP = 3


class Rows:
    """Random payloads of one size, some MiB of them again and again."""

    def __init__(self, count: int, size: int) -> None:
        self.rows: int | None = count
        self._size = size
        self.schema = pa.schema([("key", pa.string()), ("value", pa.binary())])

    def batches(self) -> Any:  # noqa: ANN401
        """Yield the rows."""
        some = min(self.rows or 0, 16 * _MIB // self._size)
        data = np.random.default_rng(7).integers(0, 256, some * self._size, np.uint8)
        offsets = pa.py_buffer(np.arange(some + 1, dtype=np.int32) * self._size)
        values = pa.BinaryArray.from_buffers(pa.binary(), some, [None, offsets, pa.py_buffer(data)])
        keys = pa.array([f"key-{i % 100}" for i in range(some)])
        batch = pa.RecordBatch.from_arrays([keys, values], schema=self.schema)
        done = 0
        while done < (self.rows or 0):
            yield batch.slice(0, min(some, (self.rows or 0) - done))
            done += some


def make_bucket(folder: Path, count: int, size: int, batch: int) -> str:
    """Write messages as some ledgers of one topic, and the same rows as Parquet beside it; return the bucket."""
    folder.mkdir()
    bucket = open_bucket(str(folder / "bucket"))
    (folder / "bucket").mkdir()
    for _ in range(_LEDGERS):
        source = Rows(count // _LEDGERS, size)
        import_rows(bucket, source, "persistent://public/default/orders", batch=batch)
    (folder / "parquet").mkdir()
    topic = open_bucket(str(folder / "bucket")).topic("persistent://public/default/orders")
    for number, ledger in enumerate(topic.ledgers):
        write_parquet(topic.scan(), folder / "parquet" / f"{ledger.ref.ledger_id}.parquet", number)
    return str(folder / "bucket")


def write_parquet(scan: Any, path: Path, number: int) -> None:  # noqa: ANN401
    from ledgerfs.scan.topic_entries import Reach

    part = replace(scan, parts=(replace(scan.parts[0], reach=Reach.of(range(number, number + 1))),))
    with pa.parquet.ParquetWriter(path, part.schema, compression="none", use_dictionary=False) as writer:
        for batch in part:
            writer.write_batch(batch)


def in_turn(rounds: int, **works: Callable[[], object]) -> dict[str, float]:
    """Return the median seconds of each piece of work; they take turns, and the first ones, in which Java compiles, are not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + _WARM_UP):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if turn >= _WARM_UP:
                times[name].append(time.perf_counter() - start)
            # DataFrames are cycles, and what Java has of them stays as long.
            gc.collect()
    return {name: median(found) for name, found in times.items()}


class ReadyMade(DataSource):
    """Values that cost nothing to make: what is left is Spark's own."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark calls it."""
        return "readymade"

    def schema(self) -> str:
        """Return the one column."""
        return "value binary"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (as Spark has it)
        """Return what reads."""
        return ReadyMadeReader(int(self.options["size"]), int(self.options["count"]))


class ReadyMadeReader(DataSourceReader):
    """Tasks of 128 MiB, batches as large as ours."""

    def __init__(self, size: int, count: int) -> None:
        self._size = size
        self._count = count

    def partitions(self) -> list[InputPartition]:
        """Return rows of each task."""
        rows = max(1, DEFAULT_PARTITION_BYTES // self._size)
        return [InputPartition(min(rows, self._count - start)) for start in range(0, self._count, rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        spare_imports()
        left, most = partition.value, min(BATCH_ROWS, BATCH_BYTES // self._size)
        batch = next(iter(Rows(most, self._size).batches())).select(["value"])
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def scans(spark: SparkSession, folder: Path, rounds: int, megabytes: int) -> None:
    """Compare the same aggregate of ours and of Spark's own Parquet."""
    spark.dataSource.register(ReadyMade)
    ready = spark.read.format("readymade")
    for name, size, batch in (
        ("1 KiB, one an entry", 1024, 1),
        ("1 KiB, in batches", 1024, 1000),
        ("100 B, in batches", 100, 1000),
    ):
        count = megabytes * _MIB // size
        if size == 100:
            count //= 2
        count -= count % _LEDGERS
        url = make_bucket(folder / name.replace(" ", ""), count, size, batch)
        parquet = str(Path(url).parent / "parquet")

        def ours(**options: str) -> Callable[[], object]:
            return lambda: aggregate(spark.read.format("ledgerfs").options(**options).load(url), count)  # noqa: B023

        found = in_turn(
            rounds,
            ours=ours(columns="value"),
            ours_all_columns=ours(),
            ready_made=lambda: aggregate(ready.options(size=size, count=count).load("nowhere"), count),  # noqa: B023
            parquet=lambda: aggregate(spark.read.parquet(parquet), count),  # noqa: B023
        )
        for which in ("ours", "ours_all_columns", "ready_made"):
            seconds = found[which]
            print(
                f"{name}, {which}: {seconds:.2f} s, {count / seconds / 1e6:.2f} M messages/s, {count * size / seconds / _MIB:.0f} MiB/s; "
                f"{found['parquet'] / seconds:.2f} x Spark's Parquet ({count * size / found['parquet'] / _MIB:.0f} MiB/s); "
                f"{count * size / seconds / _MIB / _BROKER:.1f} x a consumer"
            )
        shutil.rmtree(Path(url).parent)


def aggregate(frame: DataFrame, count: int) -> None:
    found = frame.agg(F.count("*"), F.sum(F.length("value"))).first()
    assert found is not None
    assert found[0] == count, found


def planning(spark: SparkSession, folder: Path, rounds: int, ledgers: int) -> None:
    """Plan a bucket of many ledgers, whose catalog is on disk: parts of 128 MiB, by the process that plans for Spark."""
    bucket = folder / "many"
    make_empty_ledgers(bucket, ledgers)
    cache = str(folder / "cache")
    start = time.perf_counter()
    open_bucket(str(bucket), cache_dir=cache).load_catalog()
    print(f"{ledgers} ledgers: listed and read for the first time in {time.perf_counter() - start:.1f} s")

    def parts(age: str) -> Callable[[], object]:
        reader = spark.read.format("ledgerfs").options(catalogMaxAge=age, cacheDir=cache)
        return lambda: reader.load(str(bucket)).rdd.getNumPartitions()  # noqa: PLW0108  (loaded anew each time)

    found = in_turn(rounds, warm=parts("3600"), listed=parts("0"))
    held = spark.read.format("ledgerfs").options(catalogMaxAge="3600", cacheDir=cache).load(str(bucket))
    number = held.rdd.getNumPartitions()
    print(
        f"{ledgers} ledgers, {number} parts: planned in {found['warm']:.2f} s, {found['listed']:.2f} s with a listing; "
        f"the driver's Java, of 1 GiB of heap, has {heap_in_use(spark) // _MIB} MiB in use with such a plan; "
        f"peak memory of the largest Python process {max(map(peak_memory, children()[1:])) // _MIB} MiB"
    )
    shutil.rmtree(bucket)


def make_empty_ledgers(folder: Path, count: int) -> None:
    """Make the objects of ledgers whose data are holes: enough for a catalog."""
    from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
    from ledgerfs.formats.pulsar_blob.index import IndexedBlock, OffloadIndex, build_index
    from ledgerfs.layouts.pulsar_blob.new_ledger import made_up_metadata, new_key

    folder.mkdir()
    size = 100 * _MIB
    for number in range(count):
        metadata = replace(
            made_up_metadata(f"public/default/persistent/topic-{number % 100}", 1_700_000_000_000 + number),
            length=size - 128 - 12 * 1000,
            last_entry=999,
        )
        key = new_key(number)
        index = OffloadIndex(size, BLOCK_HEADER_BYTES, metadata, (IndexedBlock(0, 1, 0),))
        (folder / key.index_key).write_bytes(build_index(index))
        with (folder / key.data_key).open("wb") as file:
            file.truncate(size)


def children() -> list[int]:
    """Return the processes of this session: Spark's own first, then its Python processes."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def heap_in_use(spark: SparkSession) -> int:
    """Return bytes of Java's heap that are not garbage."""
    java = spark._jvm.java.lang  # type: ignore[union-attr]  # noqa: SLF001  (Spark has no other way)
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def peak_memory(pid: int) -> int:
    """Return the largest resident size that a process had, bytes; 0 for one that is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in text.splitlines() if line.startswith("VmHWM")]
    return int(sizes[0]) << 10 if sizes else 0


def exports(spark: SparkSession, folder: Path, rounds: int, megabytes: int) -> None:
    """Export to Parquet: from the bucket, and from the same rows as Parquet."""
    from ledgerfs.spark import export

    url = make_bucket(folder / "export", megabytes * 1024 // _LEDGERS * _LEDGERS, 1024, 1000)
    rows = spark.read.parquet(str(Path(url).parent / "parquet"))
    out = folder / "out"

    def ours() -> None:
        shutil.rmtree(out, ignore_errors=True)
        export(spark, url, str(out))

    def theirs(codec: str) -> Callable[[], object]:
        return lambda: rows.write.mode("overwrite").option("compression", codec).parquet(str(folder / "theirs"))

    found = in_turn(rounds, ours=ours, zstd=theirs("zstd"), snappy=theirs("snappy"))
    for codec in ("zstd", "snappy"):
        print(
            f"export to Parquet: {found['ours']:.2f} s, {found[codec] / found['ours']:.2f} x Spark's own rewriting with {codec}"
        )
    shutil.rmtree(Path(url).parent)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["scans", "planning", "export"])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--ledgers", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ledgerfs-bench-"))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder),
    }
    settings |= dict(one.split("=", 1) for one in arguments.conf)
    spark = open_session("ledgerfs benchmark", "local[2]", settings)
    try:
        if "scans" in arguments.what:
            scans(spark, folder, arguments.rounds, arguments.megabytes)
        if "planning" in arguments.what:
            planning(spark, folder, arguments.rounds, arguments.ledgers)
        if "export" in arguments.what:
            exports(spark, folder, arguments.rounds, arguments.megabytes)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

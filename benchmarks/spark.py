"""Spark: scans, typed values and export, against Spark's own Parquet reader on the same rows.

*Ready-made* is a source in Python that returns the same batch again and again: the ceiling of such sources.

One session ``local[2]``; queries in turn with their baselines; medians are printed, without the first runs, in which Java compiles. Buckets
and files are in memory (``/dev/shm``), so that no disk is measured. The Parquet files are uncompressed and have all columns; Spark reads of
them only what a query needs, so it reads only the columns that it needs from ledgerfs, too.
"""

import argparse
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks import orders
from benchmarks.measuring import MIB, Rows, chosen, median_seconds
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.spark import export
from ledgerfs.spark.runtime.session import open_session
from ledgerfs.spark.runtime.tasks import spare_imports
from ledgerfs.spark.source.message_rows import BATCH_BYTES, BATCH_ROWS
from ledgerfs.writing.imports import import_rows

_LEDGERS = 4
_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class RandomRows:
    """Rows of a key and a random value of ``size`` bytes; the same 16 MiB again and again."""

    rows: int
    size: int

    @property
    def schema(self) -> pa.Schema:
        """The two columns."""
        return pa.schema([("key", pa.string()), ("value", pa.binary())])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        some = min(self.rows, 16 * MIB // self.size)
        data = np.random.default_rng(7).integers(0, 256, some * self.size, np.uint8)
        offsets = pa.py_buffer(np.arange(some + 1, dtype=np.int32) * self.size)
        values = pa.BinaryArray.from_buffers(pa.binary(), some, [None, offsets, pa.py_buffer(data)])
        keys = pa.array([f"key-{i % 100}" for i in range(some)])
        batch = pa.RecordBatch.from_arrays([keys, values], schema=self.schema)
        for start in range(0, self.rows, some):
            yield batch.slice(0, min(some, self.rows - start))


def make_bucket(folder: Path, count: int, size: int, batch: int) -> str:
    """Write messages as some ledgers of one topic, and the same rows as as many Parquet files beside it; return the bucket."""
    bucket, parquet = folder / "bucket", folder / "parquet"
    for made in (folder, bucket, parquet):
        made.mkdir()
    for _ in range(_LEDGERS):
        import_rows(str(bucket), RandomRows(count // _LEDGERS, size), orders.TOPIC, batch=batch)
    scan = open_bucket(str(bucket)).topic(orders.TOPIC).scan()
    with ExitStack() as stack:
        files = [
            stack.enter_context(
                pa.parquet.ParquetWriter(
                    parquet / f"{number}.parquet", scan.schema, compression="none", use_dictionary=False
                )
            )
            for number in range(_LEDGERS)
        ]
        for file, rows in zip(cycle(files), scan, strict=False):
            file.write_batch(rows)
    return str(bucket)


class ReadyMade(DataSource):
    """Values that cost nothing to make; what remains is Spark's own cost."""

    @classmethod
    def name(cls) -> str:
        """Return its format's name."""
        return "readymade"

    def schema(self) -> str:
        """Return the one column."""
        return "value binary"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader."""
        return ReadyMadeReader(int(self.options["size"]), int(self.options["count"]))


class ReadyMadeReader(DataSourceReader):
    """Tasks of 128 MiB, batches as large as ours."""

    def __init__(self, size: int, count: int) -> None:
        self._size = size
        self._count = count

    def partitions(self) -> list[InputPartition]:
        """Return the number of rows of each task."""
        rows = max(1, DEFAULT_PARTITION_BYTES // self._size)
        return [InputPartition(min(rows, self._count - start)) for start in range(0, self._count, rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        spare_imports()
        left, most = partition.value, min(BATCH_ROWS, BATCH_BYTES // self._size)
        batch = next(RandomRows(most, self._size).batches()).select(["value"])
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def aggregate(frame: DataFrame, count: int) -> None:
    found = frame.agg(F.count("*"), F.sum(F.length("value"))).first()
    assert found is not None
    assert found[0] == count, found
    # DataFrames are cycles, which keep what Java has of them.
    gc.collect()


def show_scans(spark: SparkSession, folder: Path, given: argparse.Namespace, rows: Rows) -> None:
    """Print the same aggregate of ours, of the ready-made source and of Spark's own Parquet."""
    spark.dataSource.register(ReadyMade)
    ready = spark.read.format("readymade")
    for what, what_all, size, batch in (
        ("1 GiB of 1 KiB messages, in batches", "the same in batches, with all columns", 1024, 1000),
        ("1 GiB of 1 KiB messages, one an entry", "the same one an entry, with all columns", 1024, 1),
        ("512 MiB of 100 B messages, in batches", "these 100 B messages, with all columns", 100, 1000),
    ):
        count = given.megabytes * MIB // size // (1 if size > 100 else 2) // _LEDGERS * _LEDGERS
        url = make_bucket(folder / "scans", count, size, batch)
        parquet = str(folder / "scans" / "parquet")

        def ours(count: int = count, url: str = url, **options: str) -> None:
            aggregate(spark.read.format("ledgerfs").options(**options).load(url), count)

        def ready_made(count: int = count, size: int = size) -> None:
            aggregate(ready.options(size=size, count=count).load("nowhere"), count)

        def theirs(count: int = count, parquet: str = parquet) -> None:
            aggregate(spark.read.parquet(parquet), count)

        works: dict[str, Callable[[], object]] = {
            what: partial(ours, columns="value"),
            what_all: ours,
            "ready-made": ready_made,
            "Parquet": theirs,
        }
        found = median_seconds(given.rounds, _WARM_UP, works)
        shutil.rmtree(folder / "scans")
        for name in (what, what_all):
            seconds = found[name]
            rows.add(
                name,
                f"{found['Parquet'] / seconds:.2f} x Spark's Parquet, {found['ready-made'] / seconds:.2f} x ready-made "
                f"({count * size / seconds / MIB:.0f} MiB/s, {count / seconds / 1e6:.2f} M messages/s)",
            )


def total(frame: DataFrame) -> list[Any]:
    """Return the number of rows, and sums of four fields."""
    sums = (F.sum("value.id"), F.sum("value.amount"), F.sum(F.length("value.name")), F.sum(F.size("value.tags")))
    found = frame.agg(F.count("*"), *sums).first()
    assert found is not None
    gc.collect()
    return list(found)


def show_typed(spark: SparkSession, folder: Path, given: argparse.Namespace, rows: Rows) -> None:
    """Print Avro values as columns, against the same columns in Parquet."""
    orders.make_topic(folder / "orders", orders.table(given.rows), "avro")
    reader = spark.read.format("ledgerfs").options(topic=orders.TOPIC, values="typed", columns="value")
    ours, parquet = reader.load(str(folder / "orders")), str(folder / "orders.parquet")
    ours.write.option("compression", "none").parquet(parquet)
    frames = {"ours": ours, "parquet": spark.read.parquet(parquet)}
    assert total(frames["ours"]) == total(frames["parquet"])
    found = median_seconds(given.rounds, _WARM_UP, {name: partial(total, one) for name, one in frames.items()})
    rows.add(
        "sums of four fields of Avro orders, `values=typed`",
        f"{found['parquet'] / found['ours']:.2f} x Spark's Parquet ({given.rows / found['ours'] / 1e6:.2f} M rows/s)",
    )


def show_export(spark: SparkSession, folder: Path, given: argparse.Namespace, rows: Rows) -> None:
    """Print the export to Parquet, against Spark rewriting the same rows from Parquet."""
    url = make_bucket(folder / "export", given.megabytes * 1024 // _LEDGERS * _LEDGERS, 1024, 1000)
    parquet = spark.read.parquet(str(folder / "export" / "parquet"))
    out = folder / "out"

    def ours() -> None:
        shutil.rmtree(out, ignore_errors=True)
        export(spark, url, str(out))

    def theirs() -> None:
        parquet.write.mode("overwrite").option("compression", "zstd").parquet(str(folder / "theirs"))

    found = median_seconds(given.rounds, 1, {"ours": ours, "theirs": theirs})
    rows.add("export to Parquet, 1 GiB", f"{found['theirs'] / found['ours']:.2f} x ({found['ours']:.2f} s)")


SECTIONS = {"scans": show_scans, "typed": show_typed, "export": show_export}


def main() -> None:
    """Run the sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, metavar="|".join(SECTIONS))
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of typed values")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ledgerfs-bench-") as made:
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.local.dir": made}
        spark, rows = open_session("ledgerfs benchmark", "local[2]", settings), Rows("spark")
        try:
            works = {name: partial(show, spark, Path(made), given, rows) for name, show in SECTIONS.items()}
            chosen(given.only, rows, works)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()

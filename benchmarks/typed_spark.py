"""Avro values as columns in Spark: by ledgerfs, by fastavro in a Python UDF, and by Spark's own ``from_avro``.

One session ``local[2]``; the same aggregate of four fields in turn, after some that are not counted; printed are medians and ratios. The
others read the bytes of values with ledgerfs; a Python UDF gets fewer of them, for it takes long. ``from_avro`` needs Spark's Avro, which
is no part of PySpark: ``--avro-jar`` with a file of ``org.apache.spark:spark-avro_2.13`` for this Spark.
"""

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.avro.functions import from_avro

from benchmarks import orders
from benchmarks.spark import in_turn
from ledgerfs.spark.runtime.session import open_session

_FIELDS = (
    "id bigint, name string, city string, amount double, at timestamp, kind string, note string, tags array<string>"
)
_FEWER = 5
"""A Python UDF gets one row of so many."""
_TEXT = json.dumps(orders.EIGHT_FIELDS)


def python_udf(*, use_arrow: bool) -> Callable[[Column], Column]:
    """Return what decodes a value as most do who know no other way."""
    schema = fastavro.parse_schema(orders.EIGHT_FIELDS)

    def decode(value: bytes) -> Any:  # noqa: ANN401
        return fastavro.schemaless_reader(io.BytesIO(value), schema, None)

    made: Callable[[Column], Column] = F.udf(decode, _FIELDS, useArrow=use_arrow)
    return made


def total(frame: DataFrame) -> list[Any]:
    """Return sums of four fields, and the number of rows."""
    found = frame.agg(
        F.count("*"),
        F.sum("value.id"),
        F.sum("value.amount"),
        F.sum(F.length("value.name")),
        F.sum(F.size("value.tags")),
    ).first()
    assert found is not None
    return list(found)


def compare(spark: SparkSession, folder: Path, rows: int, rounds: int, *, has_avro: bool) -> None:
    """Print rows a second of each way."""

    def messages(values: str, name: str = "all") -> DataFrame:
        reader = spark.read.format("ledgerfs").options(topic=orders.TOPIC, values=values, columns="value")
        return reader.load(str(folder / name))

    def decoded(by: Callable[[Column], Column], name: str = "all") -> DataFrame:
        # Without the filter, which says nothing, Spark would call the UDF once for each field.
        return messages("bytes", name).select(by(F.col("value")).alias("value")).where(F.rand() >= 0)

    ways: dict[str, Callable[[], DataFrame]] = {
        "ledgerfs": lambda: messages("typed"),
        "fastavro in a Python UDF": lambda: decoded(python_udf(use_arrow=False), "fewer"),
        "fastavro in a Python UDF with Arrow": lambda: decoded(python_udf(use_arrow=True), "fewer"),
    }
    if has_avro:
        ways["Spark's from_avro"] = lambda: decoded(lambda column: from_avro(column, _TEXT))
    counts = {name: rows // _FEWER if "UDF" in name else rows for name in ways}
    sums = {count: total(messages("typed", name)) for name, count in (("all", rows), ("fewer", rows // _FEWER))}
    for name, way in ways.items():
        assert total(way()) == sums[counts[name]], name
    seconds = in_turn(rounds, **{name: partial(lambda way: total(way()), way) for name, way in ways.items()})
    ours = rows / seconds["ledgerfs"]
    for name, took in seconds.items():
        rate = counts[name] / took
        print(f"{name}: {rate / 1e6:.2f} M rows/s ({took:.2f} s); ledgerfs is {ours / rate:.1f} times as fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--avro-jar", type=Path)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ledgerfs-bench-"))
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.local.dir": str(folder)}
    if given.avro_jar is not None:
        settings["spark.jars"] = str(given.avro_jar)
    try:
        for name, rows in (("all", given.rows), ("fewer", given.rows // _FEWER)):
            orders.make_topic(folder / name, orders.table(rows), orders.EIGHT_FIELDS)
        spark = open_session("ledgerfs benchmark", "local[2]", settings)
        compare(spark, folder, given.rows, given.rounds, has_avro=given.avro_jar is not None)
        spark.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

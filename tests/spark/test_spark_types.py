"""Arrow's types in Spark: each as it is documented, through Spark and through Parquet that Spark writes."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812  (as everybody calls it)

from ledgerfs.errors import InvalidOptionError
from ledgerfs.spark.source.spark_types import SparkColumns, Unheld, distinct_names, form_of
from ledgerfs.spark.source.struct_types import spark_schema

NOW = datetime(2026, 11, 1, 12, 0, 0, 123_000, tzinfo=UTC)
LONG = Decimal("-12345678901234567890123456789012345678901234567890.5")
CASES: dict[str, tuple[pa.DataType, list[Any], T.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True], T.BooleanType(), [True]),
    "int8": (pa.int8(), [-1], T.ByteType(), [-1]),
    "int64": (pa.int64(), [-(2**63)], T.LongType(), [-(2**63)]),
    "uint8": (pa.uint8(), [255], T.ShortType(), [255]),
    "uint32": (pa.uint32(), [2**32 - 1], T.LongType(), [2**32 - 1]),
    "uint64": (pa.uint64(), [2**64 - 1], T.DecimalType(20, 0), [Decimal(2**64 - 1)]),
    "float": (pa.float32(), [0.5], T.FloatType(), [0.5]),
    "text": (pa.string(), ["å"], T.StringType(), ["å"]),
    "symbols": (pa.dictionary(pa.int32(), pa.string()), ["RED"], T.StringType(), ["RED"]),
    "binary": (pa.binary(), [b"\xff"], T.BinaryType(), [b"\xff"]),
    "fixed": (pa.binary(3), [b"abc"], T.BinaryType(), [b"abc"]),
    "date": (pa.date32(), [date(1969, 12, 31)], T.DateType(), [date(1969, 12, 31)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.25")], T.DecimalType(9, 2), [Decimal("-1.25")]),
    "small_decimal256": (pa.decimal256(9, 2), [Decimal("1.25")], T.DecimalType(9, 2), [Decimal("1.25")]),
    "decimal256": (pa.decimal256(60, 1), [LONG], T.StringType(), [str(LONG)]),
    "ms": (pa.timestamp("ms", "UTC"), [NOW], T.TimestampType(), [NOW]),
    "us": (pa.timestamp("us", "UTC"), [NOW], T.TimestampType(), [NOW]),
    "of_a_zone": (pa.timestamp("ms", "Europe/Paris"), [NOW], T.TimestampType(), [NOW]),
    "local": (pa.timestamp("ms"), [NOW.replace(tzinfo=None)], T.TimestampNTZType(), [NOW.replace(tzinfo=None)]),
    "ns": (pa.timestamp("ns", "UTC"), [-1], T.StringType(), ["1969-12-31T23:59:59.999999999Z"]),
    "local_ns": (pa.timestamp("ns"), [1], T.StringType(), ["1970-01-01T00:00:00.000000001"]),
    "time_ms": (pa.time32("ms"), [1], T.StringType(), ["00:00:00.001"]),
    "time_ns": (pa.time64("ns"), [86_399_999_999_999], T.StringType(), ["23:59:59.999999999"]),
    "nothing": (pa.null(), [None], T.StringType(), [None]),
    "empty": (pa.struct([]), [{}], T.BooleanType(), [True]),
    "list": (
        pa.list_(pa.time32("s")),
        [[1, None], []],
        T.ArrayType(T.StringType()),
        [["00:00:01", None], []],
    ),
    "map": (
        pa.map_(pa.string(), pa.timestamp("ms", "UTC")),
        [[("a", NOW), ("b", None)], []],
        T.MapType(T.StringType(), T.TimestampType()),
        [{"a": NOW, "b": None}, {}],
    ),
    "struct": (
        pa.struct([("name", pa.string()), ("Name", pa.uint8()), ("inner", pa.struct([("at", pa.time64("us"))]))]),
        [{"name": "x", "Name": 7, "inner": {"at": 1}}, {"name": None, "Name": None, "inner": None}],
        T.StructType(
            [
                T.StructField("name", T.StringType()),
                T.StructField("Name_2", T.ShortType()),
                T.StructField("inner", T.StructType([T.StructField("at", T.StringType())])),
            ]
        ),
        [
            {"name": "x", "Name_2": 7, "inner": {"at": "00:00:00.000001"}},
            {"name": None, "Name_2": None, "inner": None},
        ],
    ),
}


def batch_of_all() -> pa.RecordBatch:
    """Return all cases as columns of three rows: two values, or one twice, and null; sliced, as batches may be."""
    columns = {}
    for name, (kind, values, _, _) in CASES.items():
        rows = [values[0], *(values * 2)[:2], None, values[0]]
        columns[name] = pa.array(rows, kind)
    return pa.RecordBatch.from_pydict(columns).slice(1, 3)


def test_every_type_through_spark_and_parquet(spark: SparkSession, tmp_path: Path) -> None:
    batch = batch_of_all()
    made = SparkColumns.of(batch.schema)
    schema = spark_schema(made.schema)
    assert {one.name: one.dataType for one in schema} == {name: kind for name, (_, _, kind, _) in CASES.items()}
    table = pa.Table.from_batches([made.of_batch(batch, Unheld("t"))])
    table.validate(full=True)
    frame = spark.range(1, numPartitions=1).mapInArrow(lambda _: iter(table.to_batches()), schema)
    frame.write.parquet(str(tmp_path / "all"))
    again = spark.read.parquet(str(tmp_path / "all"))
    assert again.schema == schema
    for rows in (table.to_pylist(), frame.toArrow().to_pylist(), again.toArrow().to_pylist()):
        for name, (_, _, _, expected) in CASES.items():
            found = [
                dict(row[name])
                if isinstance(expected[0], dict) and row[name] is not None and name == "map"
                else row[name]
                for row in rows
            ]
            assert found == [*(expected * 2)[:2], None], name


def test_names_that_differ_in_case_only() -> None:
    assert distinct_names(["a", "A", "a_2", "A", "b"]) == ["a", "A_2", "a_2_2", "A_3", "b"]
    assert distinct_names(["Topic", "topic", "x"], frozenset(["topic"])) == ["Topic_2", "topic", "x"]


def test_a_type_that_spark_has_nothing_for_is_an_error_with_its_place() -> None:
    kind = pa.struct([("took", pa.list_(pa.month_day_nano_interval()))])
    with pytest.raises(InvalidOptionError, match=r"value\.took\[\]: has the type month_day_nano_interval"):
        form_of(kind, "value")


def test_what_spark_has_already_is_not_touched() -> None:
    kind = pa.struct(
        [("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string()))), ("c", pa.map_(pa.string(), pa.binary()))]
    )
    assert form_of(kind, "value").convert is None

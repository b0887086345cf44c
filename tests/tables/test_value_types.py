"""``docs/reference/value-types.md``: what every type of a schema is in Arrow, and every type of Arrow elsewhere, is what its tables say.

Whatever schemas make is read back from files: equal, but for what the page says that a library cannot hold.
"""

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs import Bucket, export_topic, open_bucket
from ledgerfs.formats.schemas.protobuf_schema import FIELDS_PROPERTY
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.spark.source.spark_types import SparkColumns
from ledgerfs.tables.parquet_columns import stored_schema
from ledgerfs.tables.table_files import write_table
from tests.support.each import for_each
from tests.support.json_topics import put, told
from tests.support.typed_golden import plain
from tests.support.value_types import AVRO, LONG, PROTOBUF, arrow_values, bucket_of_every_type, primitive_cases

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "value-types.md"
TOPICS = ("avro", "json", "protobuf")
NOON = 43_200
LEFT_OUT, NOTHING = "left out", "nothing"

SAMPLES: dict[pa.DataType, Any] = {
    pa.null(): None,
    pa.bool_(): True,
    pa.int8(): -1,
    pa.int16(): -1,
    pa.int32(): -1,
    pa.int64(): 2**63 - 1,
    pa.uint32(): 2**32 - 1,
    pa.uint64(): 2**64 - 1,
    pa.float32(): 0.1,
    pa.float64(): 0.1,
    pa.string(): "é",
    pa.binary(): b"\xff\x00",
    pa.binary(4): b"abc\xff",
    pa.decimal128(20, 4): Decimal("-0.5000"),
    pa.decimal256(40, 2): LONG,
    pa.date32(): 20_758,
    pa.time32("ms"): NOON * 10**3 + 123,
    pa.time64("us"): NOON * 10**6 + 123_456,
    pa.time64("ns"): NOON * 10**9 + 123_456_789,
    **{pa.timestamp(unit, "UTC"): ticks for unit, ticks in (("ms", -1), ("us", -1), ("ns", -1))},
    **{pa.timestamp(unit): ticks for unit, ticks in (("ms", -1), ("us", -1), ("ns", -1))},
    pa.struct([("a", pa.int64())]): {"a": 1},
    pa.struct([]): {},
    pa.list_(pa.int64()): [1, 2],
    pa.map_(pa.string(), pa.int64()): [("a", 1)],
}
"""A value of each type that a value may have."""


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return bucket_of_every_type(tmp_path_factory.mktemp("types"))


def scanned(bucket: Bucket, topic: str) -> pa.Table:
    found = bucket.topic(f"public/types/{topic}").scan(["value"], values="typed", flatten=True)
    return found.to_table().combine_chunks()


def table_of(heading: str) -> dict[str, list[str]]:
    """Return a table of the page: the cells of each row by its first."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.replace("`", "") for line in section.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(rows) == len({cells[0] for cells in rows})
    return {cells[0]: cells[1:] for cells in rows}


def columns(table: pa.Table) -> list[pa.Array]:
    return [one.combine_chunks() for one in table.columns]


# Types of schemas.


def test_primitives_are_what_the_page_says(every_type: Bucket) -> None:
    made = {name: scanned(every_type, name)["value"].combine_chunks() for name in primitive_cases()}
    assert {name: cells[0] for name, cells in table_of("Primitives").items()} == {
        name: str(one.type) for name, one in made.items()
    }
    for name, (_, values) in primitive_cases().items():
        assert plain(made[name]) == plain(arrow_values(values, made[name].type)), name


def test_avro_and_json_are_what_the_page_says(every_type: Bucket) -> None:
    of_avro, of_json = columns(scanned(every_type, "avro")), columns(scanned(every_type, "json"))
    made = {label: [str(one.type), str(other.type)] for label, one, other in zip(AVRO, of_avro, of_json, strict=True)}
    assert {label: cells[:2] for label, cells in table_of("AVRO, and JSON by its schema").items()} == made
    for (label, case), one, other in zip(AVRO.items(), of_avro, of_json, strict=True):
        assert plain(one) == plain(arrow_values(case.values, one.type)), label
        assert plain(other) == plain(arrow_values(case.json_values, other.type)), label


def test_protobuf_is_what_the_page_says(every_type: Bucket) -> None:
    made = columns(scanned(every_type, "protobuf"))
    types = {label: str(one.type) for label, one in zip(PROTOBUF, made, strict=True)}
    assert {label: cells[0] for label, cells in table_of("PROTOBUF_NATIVE").items()} == types
    for (label, case), one in zip(PROTOBUF.items(), made, strict=True):
        assert plain(one) == plain(arrow_values(case.values, one.type)), label


def test_protobuf_without_a_descriptor_is_what_the_page_says() -> None:
    kinds = {
        "enum": ("ENUM", "OPTIONAL"),
        "message": ("MESSAGE", "OPTIONAL"),
        "repeated message, map": ("MESSAGE", "REPEATED"),
    }
    fields = [
        {"name": name, "number": number, "type": kind, "label": f"LABEL_{label}"}
        for number, (name, (kind, label)) in enumerate(kinds.items(), 1)
    ]
    made = decoder_of(SchemaInfo("PROTOBUF", b"{}", {FIELDS_PROPERTY: json.dumps(fields)})).type
    found = {name: cells[0] for name, cells in table_of("PROTOBUF").items()}
    assert found == {one.name: str(one.type) for one in made}


def test_pairs_are_a_struct(every_type: Bucket) -> None:
    topic = every_type.topic("public/types/pair").scan(["value"], values="typed").to_table()["value"]
    assert str(topic.type) == "struct<key: string, value: int32>"
    assert "`struct<key: K, value: V>`" in PAGE.read_text()
    assert topic.to_pylist() == [{"key": "k", "value": 1}, {"key": None, "value": -1}, None]


def test_json_without_a_schema_is_what_the_page_says(tmp_path: Path) -> None:
    said = {label: cells[0] for label, cells in table_of("JSON without a schema").items()}
    values = {label: json.loads(f"[{label}]") for label in said}
    documents = [{label: ones[row] for label, ones in values.items() if row < len(ones)} for row in range(3)]
    url = put(tmp_path / "bucket", documents)
    made = open_bucket(url).topic("public/default/events").scan(["value"], values="json", flatten=True).to_table()
    assert {one.name: str(one.type) for one in made.schema} == said
    for label, ones in values.items():
        assert made[label].to_pylist()[: len(ones)] == [told(made[label].type, one) for one in ones], label


# Arrow's types elsewhere.


@for_each("kind", SAMPLES)
def test_a_type_elsewhere_is_what_the_page_says(kind: pa.DataType, tmp_path: Path) -> None:
    """The types as libraries name them, of a file with the value and a null; the JSON and the CSV of the value."""
    batch = pa.RecordBatch.from_arrays([arrow_values([SAMPLES[kind]], kind).slice(0, 2)], ["x"])
    if pa.types.is_struct(kind) and not kind.num_fields:
        batch = pa.RecordBatch.from_arrays([pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x01")])], ["x"])
    # Libraries may keep what they know of a file by its name.
    path = tmp_path / f"{uuid4()}.parquet"
    path.write_bytes(written(batch, "parquet"))
    found = [
        parquet_type(pq.ParquetFile(path).schema),
        or_not_read(lambda: pandas_type(path, batch), pa.ArrowInvalid),
        or_not_read(lambda: str(pl.read_parquet(path).dtypes[0]), pl.exceptions.InvalidOperationError),
        duckdb.sql(f"describe from '{path}'").fetchall()[0][1].replace('"', ""),
        from_arrow_schema(SparkColumns.of(batch.schema).schema).fields[0].dataType.simpleString(),
        json_text(batch),
        csv_text(batch),
    ]
    (row,) = [cells for label, cells in table_of("Arrow's types elsewhere").items() if label == str(kind)]
    assert row == found, "| " + " | ".join(f"`{cell}`" for cell in [str(kind), *found]) + " |"


def test_the_page_has_no_other_types() -> None:
    assert list(table_of("Arrow's types elsewhere")) == [str(kind) for kind in SAMPLES]


def written(batch: pa.RecordBatch, kind: str) -> bytes:
    sink = io.BytesIO()
    write_table([batch], batch.schema, sink, kind)
    return sink.getvalue()


def or_not_read(read: Callable[[], str], error: type[Exception]) -> str:
    """Return the type, or that there is none."""
    try:
        return read()
    except error:
        return "not read"


def parquet_type(schema: Any) -> str:
    """Return the types of the leaves as Parquet's specification writes them."""
    leaves = (schema.column(place) for place in range(len(schema.names)))
    return ", ".join(f"{one.physical_type} {_annotation(one)}".strip() for one in leaves)


def _annotation(leaf: Any) -> str:
    told = json.loads(leaf.logical_type.to_json())
    unit = {"milliseconds": "MILLIS", "microseconds": "MICROS", "nanoseconds": "NANOS"}.get(told.get("timeUnit"), "")
    is_utc = str(told.get("isAdjustedToUTC")).lower()
    match told["Type"]:
        case "None":
            return f"({leaf.length})" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else ""
        case "Int":
            return f"INT({told['bitWidth']}, {str(told['isSigned']).lower()})"
        case "Decimal":
            return f"DECIMAL({told['precision']}, {told['scale']})"
        case "Time":
            return f"TIME({is_utc}, {unit})"
        case "Timestamp":
            return f"TIMESTAMP({is_utc}, {unit})"
        case other:
            return str(other).upper()


def pandas_type(path: Path, batch: pa.RecordBatch) -> str:
    """Return the type of a column without nulls, of objects that of the value, and what it is with nulls if that differs."""
    values = pd.read_parquet(io.BytesIO(written(batch.slice(0, 1), "parquet")))["x"]
    if values.dtype == object:
        return f"object of {type(values[0]).__name__}"
    with_nulls = pd.read_parquet(path)["x"].dtype
    return str(values.dtype) if with_nulls == values.dtype else f"{values.dtype}, {with_nulls} with nulls"


def json_text(batch: pa.RecordBatch) -> str:
    (line, _) = written(batch, "jsonl").decode().splitlines()
    values = list(json.loads(line).values())
    return json.dumps(values[0], ensure_ascii=False, separators=(",", ":")) if values else LEFT_OUT


def csv_text(batch: pa.RecordBatch) -> str:
    # A null of a single column is none of a CSV.
    beside = pa.RecordBatch.from_arrays([pa.array([0, 1]), *batch.columns], ["n", *batch.schema.names])
    (_, (_, *row), _) = csv.reader(io.StringIO(written(beside, "csv").decode(), newline=""))
    return "".join(row) or NOTHING


# Files of all types, read by those who do not know ledgerfs.


def read_by_pandas(path: Path) -> pa.Table:
    return pa.Table.from_pandas(pd.read_parquet(path, dtype_backend="pyarrow"), preserve_index=False)


def read_by_polars(path: Path) -> pa.Table:
    held = [one.name for one in pq.read_schema(path) if not pa.types.is_decimal256(one.type)]
    return pl.read_parquet(path, columns=held).to_arrow()


def read_by_duckdb(path: Path) -> pa.Table:
    return duckdb.sql(f"from '{path}'").to_arrow_table()


READERS = {
    "pyarrow": (pq.read_table, False),
    "pandas": (read_by_pandas, False),
    "polars": (read_by_polars, True),
    "duckdb": (read_by_duckdb, True),
}
"""What reads a Parquet file as a table, and whether it has no decimals of more than 38 digits."""


@for_each("topic", [*TOPICS, "pair", "INSTANT", "LOCAL_TIME"])
def test_parquet_is_read_back(every_type: Bucket, topic: str, tmp_path: Path) -> None:
    whole = every_type.topic(f"public/types/{topic}").scan(values="typed", flatten=True).to_table()
    folder = tmp_path / topic
    export_topic(every_type.topic(f"public/types/{topic}"), folder, "parquet", values="typed", flatten=True)
    (path,) = folder.glob("*.parquet")
    for reader, (read, is_without_wide_decimals) in READERS.items():
        found = read(path)
        for one in stored_schema(whole.schema):
            if is_without_wide_decimals and pa.types.is_decimal256(one.type):
                continue
            made, expected = (table[one.name].combine_chunks() for table in (found, whole))
            assert plain(made.cast(one.type)) == stored_plain(expected), (reader, one)


def stored_plain(array: pa.Array) -> list[Any]:
    """Return values as Parquet has them: true for structs without fields."""
    empty = pa.types.is_struct(array.type) and not array.type.num_fields
    return [None if one is None else True for one in plain(array)] if empty else plain(array)


# What the page says that a library cannot hold.

"""``docs/reference/value-types.md``: what every type of a schema is in Arrow, and every type of Arrow elsewhere, is what its tables say.

Whatever schemas make is read back from files: equal, but for what the page says that a library cannot hold.
"""

import base64
import csv
import io
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import fastavro
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs import Bucket, export_topic, open_bucket
from ledgerfs.formats.schemas.protobuf_schema import FIELDS_PROPERTY, pool_of
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.spark.source.spark_types import SparkColumns
from ledgerfs.tables.parquet_columns import stored_schema
from ledgerfs.tables.table_files import write_table
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.json_topics import put, reported
from tests.support.ledgers import offload, put_in_folder
from tests.support.protobuf import P, file_of
from tests.support.typed_golden import plain

# Every type that a schema can give a value, with values of it: as writers other than ours encode them, and as Arrow holds them.

DAY_MS, DAY_NS = 86_400_000, 86_400_000_000_000
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
LONG = Decimal("-12345678901234567890123456789012345678.90")


@dataclass(frozen=True, slots=True)
class Case:
    """A type of a schema, and two values of it.

    Attributes
    ----------
    schema
        The type, in the words of its schema.
    written
        The values as their writer takes them.
    arrow
        The values as Arrow takes them, if that is another way.
    documents
        The values as JSON has them, if that is another way than the first.
    in_json
        The values of these documents as Arrow takes them, if they are not those of ``arrow``.

    """

    schema: Any
    written: tuple[Any, Any]
    arrow: tuple[Any, Any] | None = None
    documents: tuple[Any, Any] | None = None
    in_json: tuple[Any, Any] | None = None

    @property
    def values(self) -> list[Any]:
        return list(self.arrow or self.written)

    @property
    def json_values(self) -> list[Any]:
        return list(self.in_json or self.values)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(schema: Any, first: bytes, second: bytes) -> Case:
    return Case(schema, (first, second), documents=(_base64(first), _base64(second)))


def _logical(kind: str, name: str, first: int, second: int) -> Case:
    return Case({"type": kind, "logicalType": name}, (first, second))


def _decimal(schema: dict[str, Any], first: str, second: str) -> Case:
    numbers = Decimal(first), Decimal(second)
    return Case({**schema, "logicalType": "decimal"}, numbers, documents=(first, second), in_json=(first, second))


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


_NODE = {"type": "record", "name": "Node", "fields": [_field("n", "int"), _field("next", ["null", "Node"])]}
_PAIR = {"type": "record", "name": "Pair", "fields": [_field("a", "int"), _field("b", "string")]}
_EMPTY = {"type": "record", "name": "Empty", "fields": []}

AVRO: dict[str, Case] = {
    "null": Case("null", (None, None)),
    "boolean": Case("boolean", (True, False)),
    "int": Case("int", (-(2**31), 2**31 - 1)),
    "long": Case("long", (-(2**63), 2**63 - 1)),
    "float": Case("float", (0.5, -1.25)),
    "double": Case("double", (0.1, 1e300)),
    "bytes": _bytes("bytes", b"\xff\x00", b""),
    "string": Case("string", ("é漢", "")),
    "int, date": _logical("int", "date", 20_758, -1),
    "int, time-millis": _logical("int", "time-millis", 1, DAY_MS - 1),
    "long, time-micros": _logical("long", "time-micros", 1, DAY_MS * 1000 - 1),
    "long, timestamp-millis": _logical("long", "timestamp-millis", -1, 1_793_491_200_123),
    "long, timestamp-micros": _logical("long", "timestamp-micros", -1, 1_793_491_200_123_456),
    "long, timestamp-nanos": _logical("long", "timestamp-nanos", -1, 1_793_491_200_123_456_789),
    "long, local-timestamp-millis": _logical("long", "local-timestamp-millis", -1, 1_793_491_200_123),
    "long, local-timestamp-micros": _logical("long", "local-timestamp-micros", -1, 1_793_491_200_123_456),
    "long, local-timestamp-nanos": _logical("long", "local-timestamp-nanos", -1, 1_793_491_200_123_456_789),
    "bytes or fixed, decimal of 1 to 38 digits": _decimal(
        {"type": "bytes", "precision": 20, "scale": 4}, "-1234567890123456.7890", "0.0001"
    ),
    "bytes or fixed, decimal of 39 to 76 digits": _decimal(
        {**_fixed("F20", 20), "precision": 40, "scale": 2}, str(LONG), "0.01"
    ),
    "bytes, decimal of more than 76 digits": _bytes(
        {"type": "bytes", "logicalType": "decimal", "precision": 80, "scale": 2}, b"\x01", b"\xff\xff"
    ),
    "string, uuid": Case({"type": "string", "logicalType": "uuid"}, (UUID, "any text")),
    "fixed(16), uuid": Case(
        _fixed("F16u", 16, logicalType="uuid"),
        (bytes.fromhex(UUID.replace("-", "")), bytes(16)),
        (UUID, "00000000-0000-0000-0000-000000000000"),
        (UUID, "any text"),
        (UUID, "any text"),
    ),
    "fixed(12), duration": _bytes(_fixed("F12", 12, logicalType="duration"), bytes(range(12)), bytes(12)),
    "fixed(4)": _bytes(_fixed("F4", 4), b"abc\xff", bytes(4)),
    "fixed(300)": _bytes(_fixed("F300", 300), bytes(300), b"\xff" * 300),
    "fixed(0)": _bytes(_fixed("F0", 0), b"", b""),
    "enum": Case({"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}, ("RED", "GREEN")),
    "array of int": Case({"type": "array", "items": "int"}, ([1, 2], [])),
    "array of [null, string]": Case({"type": "array", "items": ["null", "string"]}, ([None, "a"], [])),
    "map of long": Case({"type": "map", "values": "long"}, ({"a": 1, "b": -1}, {}), ([("a", 1), ("b", -1)], [])),
    "record of a: int, b: string": Case(_PAIR, ({"a": 1, "b": "x"}, {"a": 2, "b": ""})),
    "record without fields": Case(_EMPTY, ({}, {})),
    "[null, long]": Case(["null", "long"], (None, 7)),
    "[long], a union of one": Case(["long"], (1, 7)),
    "[null, string, int], a union of several": Case(
        ["null", "string", "int"], ("a", 7), ({"string": "a", "int": None}, {"string": None, "int": 7})
    ),
    "record of n: int, next: [null, itself]": Case(
        _NODE,
        ({"n": 1, "next": None}, {"n": 1, "next": {"n": 2, "next": None}}),
        ({"n": 1, "next": None}, {"n": 1, "next": b"\x04\x00"}),
        in_json=({"n": 1, "next": None}, {"n": 1, "next": '{"n":2,"next":null}'}),
    ),
    "int, of an unknown logical type": _logical("int", "odd", 1, -1),
}
"""The types of Avro, by what the docs call them."""

_NUMBERS = {
    "double": (P.TYPE_DOUBLE, 0.1, -1e300), "float": (P.TYPE_FLOAT, 0.5, -1.25),
    "int32": (P.TYPE_INT32, -(2**31), 2**31 - 1), "int64": (P.TYPE_INT64, -(2**63), 2**63 - 1),
    "sint32": (P.TYPE_SINT32, -(2**31), 2**31 - 1), "sint64": (P.TYPE_SINT64, -(2**63), 2**63 - 1),
    "sfixed32": (P.TYPE_SFIXED32, -(2**31), 2**31 - 1), "sfixed64": (P.TYPE_SFIXED64, -(2**63), 2**63 - 1),
    "uint32": (P.TYPE_UINT32, 0, 2**32 - 1), "uint64": (P.TYPE_UINT64, 0, 2**64 - 1),
    "fixed32": (P.TYPE_FIXED32, 0, 2**32 - 1), "fixed64": (P.TYPE_FIXED64, 0, 2**64 - 1),
    "bool": (P.TYPE_BOOL, True, False), "string": (P.TYPE_STRING, "é漢", ""), "bytes": (P.TYPE_BYTES, b"\xff\x00", b""),
}  # fmt: skip
_ROOT = ".p.M"

PROTOBUF: dict[str, Case] = {
    **{name: Case((kind, "plain"), (first, second)) for name, (kind, first, second) in _NUMBERS.items()},
    "enum": Case((".p.E", "plain"), (1, 77), ("E_1", "77")),
    "oneof, a member string": Case((P.TYPE_STRING, "choice"), ("", None)),
    "oneof, another member int64": Case((P.TYPE_INT64, "choice"), (None, 7)),
    "message of n: int32": Case((".p.Inner", "plain"), (None, {"n": 7})),
    "repeated sint32": Case((P.TYPE_SINT32, "repeated"), ([1, -2], [])),
    "map<int32, message>": Case((P.TYPE_INT32, ".p.Inner"), ({1: {"n": 7}}, {}), ([(1, {"n": 7})], [])),
    "optional int64": Case((P.TYPE_INT64, "optional"), (None, 0)),
    "a message inside itself": Case((_ROOT, "plain"), (None, {}), (None, b"")),
}
"""The kinds of fields of Protobuf (proto3), by what the docs call them."""

PRIMITIVES = {
    "BOOLEAN": ">?", "INT8": ">b", "INT16": ">h", "INT32": ">i", "INT64": ">q", "FLOAT": ">f", "DOUBLE": ">d",
    "DATE": ">q", "TIME": ">q", "TIMESTAMP": ">q", "INSTANT": ">qi", "LOCAL_DATE": ">q", "LOCAL_TIME": ">q",
    "LOCAL_DATE_TIME": ">qq",
}  # fmt: skip
_PRIMITIVE_VALUES: dict[str, tuple[Any, Any]] = {
    "BOOLEAN": (True, False),
    "FLOAT": (0.5, -1.25),
    "DOUBLE": (0.1, 1e300),
    "INSTANT": ((-1, 999_999_999), (1_793_491_200, 123_456_789)),
    "LOCAL_DATE_TIME": ((-1, DAY_NS - 1), (20_758, 43_200_123_456_789)),
    "TIME": (1, DAY_MS - 1),
    "LOCAL_TIME": (1, DAY_NS - 1),
}
_UNITS = {"INSTANT": 1_000_000_000, "LOCAL_DATE_TIME": DAY_NS}


def primitive_cases() -> dict[str, tuple[list[bytes], list[Any]]]:
    """Return two payloads of each primitive type, and their values as Arrow takes them."""
    found: dict[str, tuple[list[bytes], list[Any]]] = {
        "STRING": (["é漢".encode(), b""], ["é漢", ""]),
        "BYTES": ([b"\xff\x00", b""], [b"\xff\x00", b""]),
    }
    for name, how in PRIMITIVES.items():
        values = [one if isinstance(one, tuple) else (one,) for one in _PRIMITIVE_VALUES.get(name, (-1, 100))]
        arrow = [one[0] * _UNITS[name] + one[1] if name in _UNITS else one[0] for one in values]
        found[name] = [struct.pack(how, *one) for one in values], arrow
    return found


def bucket_of_every_type(folder: Path) -> Bucket:
    """Return a bucket of topics with two values and a tombstone: ``avro``, ``json``, ``protobuf``, ``pair``, and the primitive types."""
    schema = _avro_schema()
    descriptors, payloads = _protobuf_payloads()
    topics: dict[str, tuple[SchemaInfo, list[bytes]]] = {
        "avro": (SchemaInfo("AVRO", json.dumps(schema).encode()), _avro_payloads(schema)),
        "json": (SchemaInfo("JSON", json.dumps(schema).encode()), _documents()),
        "protobuf": (SchemaInfo("PROTOBUF_NATIVE", descriptors), payloads),
        "pair": (_pair_schema(), [_pair(b"k", 1), _pair(None, -1)]),
        **{name: (SchemaInfo(name), made) for name, (made, _) in primitive_cases().items()},
    }
    for number, (name, (_, values)) in enumerate(topics.items(), 1):
        entries = [*(frame(metadata(), one) for one in values), frame(metadata(value_is_null=True))]
        ledger = offload(entries, number, name=f"public/types/persistent/{name}", uuid=number)
        put_in_folder(folder, ledger)
    bucket = open_bucket(f"file://{folder}")
    saved = SavedSchemas(bucket.raw_store)
    for name, (info, _) in topics.items():
        saved.add(f"persistent://public/types/{name}", [SchemaVersion(ANY_VERSION, info, source=BY_HAND, saved_ms=1)])
    return bucket


def _avro_schema() -> dict[str, Any]:
    fields = [_field(f"f{number}", case.schema) for number, case in enumerate(AVRO.values())]
    return {"type": "record", "name": "Root", "fields": fields}


def _avro_payloads(schema: dict[str, Any]) -> list[bytes]:
    made = []
    for row in (0, 1):
        sink = io.BytesIO()
        fastavro.schemaless_writer(
            sink, schema, {f"f{number}": case.written[row] for number, case in enumerate(AVRO.values())}
        )
        made.append(sink.getvalue())
    return made


def _documents() -> list[bytes]:
    rows = (
        {f"f{number}": (case.documents or case.written)[row] for number, case in enumerate(AVRO.values())}
        for row in (0, 1)
    )
    return [json.dumps(row).encode() for row in rows]


def _protobuf_payloads() -> tuple[bytes, list[bytes]]:
    """Return a schema of PROTOBUF_NATIVE, and values of it that Google's classes encode."""
    fields = [(f"f{number}", number, *case.schema) for number, case in enumerate(PROTOBUF.values(), 1)]
    files = file_of({"Inner": [("n", 1, P.TYPE_INT32, "plain")], _ROOT.rpartition(".")[2]: fields}, "proto3")
    pool = pool_of(FileDescriptorSet.FromString(files))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(_ROOT[1:]))
    made = []
    for row in (0, 1):
        given = {f"f{number}": case.written[row] for number, case in enumerate(PROTOBUF.values(), 1)}
        made.append(kind(**{name: one for name, one in given.items() if one is not None}).SerializeToString())
    reported = {
        "fileDescriptorSet": _base64(files),
        "rootMessageTypeName": _ROOT[1:],
        "rootFileDescriptorName": "a.proto",
    }
    return json.dumps(reported).encode(), made


def _pair_schema() -> SchemaInfo:
    properties = {"kv.encoding.type": "INLINE", "key.schema.type": "STRING", "value.schema.type": "INT32"}
    return SchemaInfo("KEY_VALUE", b'{"key": "", "value": ""}', properties)


def _pair(key: bytes | None, value: int) -> bytes:
    size = struct.pack(">i", -1 if key is None else len(key))
    return size + (key or b"") + struct.pack(">ii", 4, value)


def arrow_values(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type, and a null after them; times may be given as numbers."""
    if pa.types.is_struct(kind) and not kind.num_fields:
        return pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x03")])
    return pa.array([*values, None], kind)


# The page.

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
    return found.to_arrow().combine_chunks()


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
    topic = every_type.topic("public/types/pair").scan(["value"], values="typed").to_arrow()["value"]
    assert str(topic.type) == "struct<key: string, value: int32>"
    assert "`struct<key: K, value: V>`" in PAGE.read_text()
    assert topic.to_pylist() == [{"key": "k", "value": 1}, {"key": None, "value": -1}, None]


def test_json_without_a_schema_is_what_the_page_says(tmp_path: Path) -> None:
    said = {label: cells[0] for label, cells in table_of("JSON without a schema").items()}
    values = {label: json.loads(f"[{label}]") for label in said}
    documents = [{label: ones[row] for label, ones in values.items() if row < len(ones)} for row in range(3)]
    url = put(tmp_path / "bucket", documents)
    made = open_bucket(url).topic("public/default/events").scan(["value"], values="json", flatten=True).to_arrow()
    assert {one.name: str(one.type) for one in made.schema} == said
    for label, ones in values.items():
        assert made[label].to_pylist()[: len(ones)] == [reported(made[label].type, one) for one in ones], label


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
    reported = json.loads(leaf.logical_type.to_json())
    unit = {"milliseconds": "MILLIS", "microseconds": "MICROS", "nanoseconds": "NANOS"}.get(
        reported.get("timeUnit"), ""
    )
    is_utc = str(reported.get("isAdjustedToUTC")).lower()
    match reported["Type"]:
        case "None":
            return f"({leaf.length})" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else ""
        case "Int":
            return f"INT({reported['bitWidth']}, {str(reported['isSigned']).lower()})"
        case "Decimal":
            return f"DECIMAL({reported['precision']}, {reported['scale']})"
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
    whole = every_type.topic(f"public/types/{topic}").scan(values="typed", flatten=True).to_arrow()
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

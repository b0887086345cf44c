"""Every type that a schema can give a value, with values of it: as writers other than ours encode them, and as Arrow holds them."""

import base64
import io
import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from ledgerfs import Bucket, open_bucket
from ledgerfs.formats.schemas.protobuf_schema import pool_of
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder
from tests.support.protobuf import P, file_of

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
    told = {"fileDescriptorSet": _base64(files), "rootMessageTypeName": _ROOT[1:], "rootFileDescriptorName": "a.proto"}
    return json.dumps(told).encode(), made


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

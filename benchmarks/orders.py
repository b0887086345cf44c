"""Orders: rows of eight fields, 41 bytes each as Avro, as payloads, as a table, and as a topic of a bucket."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from ledgerfs import Topic, import_rows, open_bucket
from ledgerfs.formats.schemas.schema_info import SchemaInfo

TOPIC = "persistent://public/default/orders"
EIGHT_FIELDS: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
AVRO = SchemaInfo("AVRO", json.dumps(EIGHT_FIELDS).encode())
_NINE = {**EIGHT_FIELDS, "fields": [*EIGHT_FIELDS["fields"], {"name": "count", "type": "int"}]}
JSON = SchemaInfo("JSON", json.dumps(_NINE).encode())
"""Of the same fields, and a number."""
_LEDGERS = 4


def order(i: int) -> dict[str, Any]:
    """Return one order."""
    return {
        "id": i * 37,
        "name": f"name{i % 1000}",
        "city": "berlin",
        "amount": i / 3,
        "at": 1_700_000_000_000 + i,
        "kind": "ABC"[i % 3],
        "note": "abc" if i % 2 else None,
        "tags": ["x", "yy"][: i % 3],
    }


def as_avro(rows: int) -> list[bytes]:
    """Return orders as Avro."""
    schema, made = fastavro.parse_schema(EIGHT_FIELDS), []
    for i in range(rows):
        target = io.BytesIO()
        fastavro.schemaless_writer(target, schema, order(i))
        made.append(target.getvalue())
    return made


def protobuf() -> tuple[SchemaInfo, Any]:
    """Return the schema of orders as Protobuf, and Google's class for them."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    for number, symbol in enumerate("ABC"):
        kind.value.add(name=symbol, number=number)
    message = file.message_type.add(name="Order")
    types = {"id": Field.TYPE_INT64, "amount": Field.TYPE_DOUBLE, "at": Field.TYPE_INT64, "kind": Field.TYPE_ENUM}
    for number, one in enumerate(EIGHT_FIELDS["fields"], 1):
        field = message.field.add(name=one["name"], number=number, type=types.get(one["name"], Field.TYPE_STRING))
        field.label = Field.LABEL_REPEATED if one["name"] == "tags" else Field.LABEL_OPTIONAL
        if one["name"] == "kind":
            field.type_name = ".shop.Kind"
    pool = DescriptorPool()
    pool.Add(file)
    files = FileDescriptorSet(file=[file]).SerializeToString()
    data = {"fileDescriptorSet": base64.b64encode(files).decode(), "rootMessageTypeName": "shop.Order"}
    schema = SchemaInfo("PROTOBUF_NATIVE", json.dumps({**data, "rootFileDescriptorName": file.name}).encode())
    return schema, GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def as_protobuf(rows: int) -> list[bytes]:
    """Return orders as Protobuf."""
    _, kind = protobuf()
    return [kind(**{**order(i), "note": order(i)["note"] or ""}).SerializeToString() for i in range(rows)]


def as_json(rows: int) -> list[bytes]:
    """Return orders as JSON documents, with a ninth field."""
    made = ({**order(i), "amount": i / 8, "count": i % 100} for i in range(rows))
    return [json.dumps(one, separators=(",", ":")).encode() for one in made]


def table(rows: int) -> pa.Table:
    """Return orders as columns."""
    some = pa.Table.from_pylist([order(i) for i in range(min(rows, 6000))])
    many = pa.concat_tables([some] * (rows // some.num_rows + 1)).slice(0, rows)
    numbers = np.arange(rows, dtype=np.int64)
    at = pa.array(1_700_000_000_000 + numbers).cast(pa.timestamp("ms", "UTC"))
    columns = {"id": pa.array(numbers * 37), "amount": pa.array(numbers / 3), "at": at}
    for name, column in columns.items():
        many = many.set_column(many.schema.get_field_index(name), name, column)
    return many


def make_topic(folder: Path, rows: pa.Table, schema: dict[str, Any] | None, schema_type: str = "avro") -> Topic:
    """Write rows by a schema as some ledgers of one topic, in batches of 1,000; return it."""
    folder.mkdir()
    share = -(-rows.num_rows // _LEDGERS)
    for start in range(0, rows.num_rows, share):
        some = rows.slice(start, share)
        import_rows(str(folder), some, TOPIC, schema=schema, schema_type=schema_type, schema_version=0)
    return open_bucket(str(folder)).topic(TOPIC)

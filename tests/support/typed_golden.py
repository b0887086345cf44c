"""The typed golden set: its messages, its schemas, and what Pulsar says of each value, in the form of an Arrow type."""

import base64
import gzip
import json
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import numpy as np
import pyarrow as pa

from ledgerfs import Bucket, open_bucket
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.messages.values.key_values import SeparatedDecoder, message_keys
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of
from ledgerfs.schemas.saved_schemas import SavedSchemas

Node = dict[str, Any]
"""A value as the golden set has it: ``{"t": "long", "v": "123"}``."""
TOPICS = (
    "avro å b+1", "avro söme+name%2F", "avro-array", "avro-auto-produce", "avro-deleted", "avro-deleted-force", "avro-deleted-last",
    "avro-deleted-last-force", "avro-evolved", "avro-logical", "avro-long", "avro-lz4", "avro-mixed-bytes", "avro-multischema",
    "avro-offset", "avro-partitioned-partition-0", "avro-partitioned-partition-1", "avro-pojo", "avro-random-0", "avro-random-1",
    "avro-random-2", "avro-random-3", "avro-strict", "avro-times", "avro-txn", "avro-unions", "avro-zstd", "bytes-then-avro",
    "json-odd", "json-pojo", "json-random-0", "json-random-1", "json-string", "kv-inline-avro-avro", "kv-inline-bytes-string",
    "kv-inline-evolved", "kv-inline-int32-avro", "kv-inline-json-int64", "kv-inline-random", "kv-inline-string-json",
    "kv-inline-string-protonative", "kv-separated-avro-avro", "kv-separated-bytes-string", "kv-separated-evolved",
    "kv-separated-int32-avro", "kv-separated-json-int64", "kv-separated-random", "kv-separated-string-json",
    "kv-separated-string-protonative", "prim-boolean", "prim-bytes", "prim-date", "prim-double", "prim-float", "prim-instant",
    "prim-int16", "prim-int32", "prim-int64", "prim-int8", "prim-local-date", "prim-local-date-time", "prim-local-time",
    "prim-string", "prim-string-utf16", "prim-time", "prim-timestamp", "proto", "proto2native", "protonative", "protonative-random-0",
    "protonative-random-1", "py-avro", "py-bytes", "py-json", "py-none", "py-string", "type-changed",
)  # fmt: skip
"""All of them, below ``public/typed/``."""
WITHOUT_SCHEMA = ("avro-deleted-last", "avro-deleted-last-force", "prim-bytes", "py-bytes", "py-none")
"""Those of which the broker told no schema in the end."""
ORDER = ("topic", "ledger_id", "entry_id", "batch_index")
"""Columns that put messages in one order."""
payloads = payloads_of
IsSame = Callable[[bytes, Node], bool]
_UNIT_OF_TIMES = {"instant": 1_000_000_000, "local_date_time": 86_400_000_000_000}
_NANOSECONDS = {"instant": "nano", "local_date_time": "nano_of_day"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, its rows, and what Pulsar says of each.

    Attributes
    ----------
    rows
        The columns ``ledger_id``, ``entry_id``, ``batch_index``, ``schema_version``, ``key``, ``value`` and others, as a scan gives them.
    expected
        One object a message, in the order of the rows: ``schema_type`` and ``value``, or ``error``.
    versions
        The number of each message's schema; -1 for none.
    schemas
        Those that the admin API answered, by number.

    """

    rows: pa.RecordBatch
    expected: list[dict[str, Any]]
    versions: np.ndarray
    schemas: dict[int, SchemaInfo]

    def decode(self, decoder: ValueDecoder, which: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Return values of some rows, and the reasons of those that are null."""
        rows = self.rows.take(pa.array(which))
        if isinstance(decoder, SeparatedDecoder):
            decoder = decoder.with_keys(message_keys(rows))
        array, reasons = decoder.decode(*payloads(rows["value"]))
        array.validate(full=True)
        assert array.type == decoder.type
        return array, reasons


def topics(golden_typed: Path, folder: str = "expected-typed") -> list[str]:
    """Return the names of all topics of a folder, as ``tenant/namespace/name``."""
    return sorted(unquote_plus(path.name.removesuffix(".jsonl.gz")) for path in (golden_typed / folder).iterdir())


def topic(golden_typed: Path, name: str, folder: str = "expected-typed") -> Topic:
    """Return a topic by its name."""
    path = next(one for one in (golden_typed / folder).iterdir() if unquote_plus(one.name) == f"{name}.jsonl.gz")
    with gzip.open(path) as lines:
        expected = [json.loads(line) for line in lines]
    found = open_bucket(f"file://{golden_typed}/bucket").topic(f"persistent://{name}")
    table = found.scan().to_arrow().combine_chunks()
    (rows,) = table.to_batches()
    assert [one["entry_id"] for one in expected] == rows["entry_id"].to_pylist()
    numbers = [int.from_bytes(one, "big") if one else -1 for one in rows["schema_version"].to_pylist()]
    return Topic(rows, expected, np.array(numbers), schemas_of(golden_typed, name.partition("-partition-")[0]))


def schemas_of(golden_typed: Path, name: str) -> dict[int, SchemaInfo]:
    """Return the schemas of a topic that the admin API ever answered, by number."""
    documents = (json.loads(path.read_text()) for path in (golden_typed / "schemas").iterdir())
    (answers,) = (one["responses"].values() for one in documents if one.get("topic") == f"persistent://{name}")
    found: dict[int, SchemaInfo] = {}
    for answer in answers:
        body = json.loads(answer["body"]) if answer["status"] == 200 and answer["body"] else {}
        for one in body.get("getSchemaResponses", [body]):
            if "data" in one:
                info = SchemaInfo(one["type"], one["data"].encode(), one["properties"])
                assert found.setdefault(one["version"], info).type == info.type or name.endswith("-force")
    return found


def answers(golden_typed: Path) -> dict[str, tuple[SchemaVersion, ...]]:
    """Return the versions that the admin API listed of each topic."""
    found = {}
    for path in (golden_typed / "schemas").iterdir():
        document = json.loads(path.read_text())
        for asked, answer in document.get("responses", {}).items():
            if asked.endswith("/schemas") and answer["status"] == 200:
                listed = json.loads(answer["body"])["getSchemaResponses"]
                found[document["topic"]] = tuple(
                    SchemaVersion(
                        one["version"],
                        SchemaInfo(one["type"], one["data"].encode(), one["properties"]),
                        one["timestamp"],
                    )
                    for one in listed
                )
    return found


def bucket_with_schemas(golden_typed: Path, folder: Path) -> Bucket:
    """Return a copy of the bucket, with all schemas that the admin API listed saved in it."""
    shutil.copytree(golden_typed / "bucket", folder)
    bucket = open_bucket(f"file://{folder}")
    saved = SavedSchemas(bucket.raw_store)
    for name, versions in answers(golden_typed).items():
        saved.add(name, versions)
    return bucket


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    """A value that is bytes since its type is inside its own definition: equal to those bytes that a function says are the same."""

    node: Node
    is_same: IsSame

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and self.is_same(other, self.node)

    __hash__ = None  # type: ignore[assignment]


def assert_equal(array: pa.Array, nodes: Sequence[Node], is_same: IsSame | None = None) -> None:
    """Have all values be those of the golden set; ``is_same`` compares bytes of a recursive type with a value of it."""
    found = plain(array)
    assert len(found) == len(nodes)
    for row, (one, node) in enumerate(zip(found, nodes, strict=True)):
        assert one == plain_node(node, array.type, is_same), f"value {row}"


def assert_same_rows(found: pa.Table, said: pa.Table) -> None:
    """Have two tables be of the same columns and messages, in whatever order these come."""
    assert found.schema.names == said.schema.names
    assert found.num_rows == said.num_rows > 0
    found, said = (one.sort_by([(name, "ascending") for name in ORDER]) for one in (found, said))
    for name in said.schema.names:
        column, other = (one[name].combine_chunks() for one in (found, said))
        assert column.type == other.type, name
        assert plain(column) == plain(other), name


def plain(array: pa.Array) -> list[Any]:
    """Return an array as Python values that can be compared: times as their numbers, floats as text (for NaN), maps as dictionaries."""
    kind, valid = array.type, array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        columns = [plain(array.field(place)) for place in range(kind.num_fields)]
        rows = [dict(zip(kind.names, row, strict=True)) for row in zip(*columns, strict=True)] or [{} for _ in valid]
    elif pa.types.is_map(kind):
        pairs = list(zip(plain(array.keys), plain(array.items), strict=True))
        rows = [dict(pairs[begin:end]) for begin, end in _ranges(array)]
    elif pa.types.is_list(kind):
        items = plain(array.values)
        rows = [items[begin:end] for begin, end in _ranges(array)]
    elif pa.types.is_floating(kind):
        rows = [None if one is None else repr(one) for one in array.to_pylist()]
    elif pa.types.is_temporal(kind):
        rows = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    else:
        rows = array.to_pylist()
    return [one if is_there else None for one, is_there in zip(rows, valid, strict=True)]


def _ranges(array: pa.Array) -> list[tuple[int, int]]:
    offsets = array.offsets.to_pylist()
    return list(pairwise(offsets))


def plain_node(node: Node, kind: pa.DataType, is_same: IsSame | None = None) -> Any:
    """Return a value of the golden set as `plain` gives it in an array of a type."""

    def inner(one: Node, kind: pa.DataType) -> Any:
        return plain_node(one, kind, is_same)

    if node["t"] in {"null", "unset"}:
        return None
    if "branch" in node and pa.types.is_struct(kind):
        return _branch(node, kind, inner)
    match node["t"]:
        case "record" | "message" if is_same is not None and pa.types.is_binary(kind):
            return _Encoded(node, is_same)
        case "record" | "message":
            assert node["v"].keys() == set(kind.names), "a field that only one of both has"
            return {one.name: inner(node["v"][one.name], one.type) for one in kind}
        case "keyvalue":
            return {name: inner(node[name], kind.field(name).type) for name in ("key", "value")}
        case "array":
            return [inner(one, kind.value_type) for one in node["v"]]
        case "map":
            pairs = node["v"].items() if isinstance(node["v"], dict) else node["v"]
            keys = (key if isinstance(key, str) else inner(key, kind.key_type) for key, _ in pairs)
            return {key: inner(one, kind.item_type) for key, (_, one) in zip(keys, pairs, strict=True)}
        case _:
            return _leaf(node, kind)


def _branch(node: Node, kind: pa.DataType, inner: Callable[[Node, pa.DataType], Any]) -> Any:
    """Return a branch of a union: the field of its name, of which there may be the short one, or the only one of its type."""
    plain_one = {name: one for name, one in node.items() if name != "branch"}
    among = [node["t"], node.get("name", ""), node.get("name", "").rpartition(".")[2]]
    chosen = next((one for one in among if one in kind.names), None)
    if chosen is None and node["t"] == "record":  # the only branch besides null
        return inner(plain_one, kind)
    if chosen is None:
        is_type = pa.types.is_string if node["t"] == "enum" else pa.types.is_fixed_size_binary
        (chosen,) = (one.name for one in kind if is_type(one.type) and one.name != "string")
    return {one.name: inner(plain_one, one.type) if one.name == chosen else None for one in kind}


def _leaf(node: Node, kind: pa.DataType) -> Any:
    value = node["v"]
    match node["t"]:
        case "boolean" | "bool":
            return value == "true"
        case "float":
            return repr(float(np.float32(value)))
        case "double":
            return repr(float(value))
        case "string":
            return value
        case "enum":
            return node["n"] if pa.types.is_integer(kind) else value
        case "bytes" | "fixed":
            return _of_bytes(base64.b64decode(value), kind)
        case "instant" | "local_date_time" as name:
            return int(value) * _UNIT_OF_TIMES[name] + int(node[_NANOSECONDS[name]])
        case _ if pa.types.is_string(kind):
            return value
        case _:
            return int(value)


def _of_bytes(data: bytes, kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{kind.scale}")
    if pa.types.is_string(kind):
        return str(uuid.UUID(bytes=data))
    return data

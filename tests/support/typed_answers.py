"""What Pulsar said of the values of a schema, compared with the array that a decoder of ours makes of them.

Where Pulsar's Java client is known to say something else than what was written, and only there, its answer is read with that in mind: JSON
loses the sign of -0.0, and Protobuf's numbers that no enum names have names of Java's own.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ledgerfs.formats.schemas.avro_schema import AvroSchema, parse_avro_schema
from ledgerfs.formats.schemas.protobuf_schema import ProtobufSchema, protobuf_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.messages.values.avro_values import AvroDecoder
from ledgerfs.messages.values.protobuf_values import ProtobufDecoder
from tests.support.json_documents import Given, Number, Reader
from tests.support.typed_golden import IsSame, Node, assert_equal, payloads

CONTRADICTIONS = {
    b'{"number":9223372036854775807}': "its field 'number' is not an int",
    b'{"number":9223372036854775808,"street":"more than a long"}': "its field 'number' is not an int",
    b'{"number":1.0}': "its field 'number' is not an int",
    b'{"number":"12"}': "its field 'number' is not an int",
    b'{"street":5,"lines":"one"}': "its field 'lines' is not a list",
    b'{"number":1e3}': "its field 'number' is not an int",
    b'{"number":0.1,"x":123456789.123456789123456789}': "its field 'number' is not an int",
    b'{"number":-0.0}': "its field 'number' is not an int",
}
"""Documents of `json-odd` that Pulsar's client gives as they are, since it asks no schema."""


def assert_said(array: pa.Array, nodes: Sequence[Node], writer: SchemaInfo, shown: SchemaInfo | None = None) -> None:
    """Have an array be what Pulsar said of values that one schema wrote; it has the fields of ``shown``, if that is another."""
    shown = shown or writer
    match writer.type:
        case "KEY_VALUE":
            _assert_pairs(array, nodes, writer, shown)
        case "JSON":
            read = Reader.of(json.loads(shown.data))
            assert comparable_json(array, 0.0) == [read(written_as(node)) for node in nodes]
        case "AVRO":
            assert_equal(array, nodes, same_avro(writer))
        case "PROTOBUF_NATIVE":
            assert_equal(array, [numbers_of_unknown(node) for node in nodes], same_protobuf(protobuf_schema(shown)))
        case _:
            assert_equal(array, nodes)


def _assert_pairs(array: pa.Array, nodes: Sequence[Node], writer: SchemaInfo, shown: SchemaInfo) -> None:
    are_pairs = [node["t"] == "keyvalue" for node in nodes]
    assert array.is_valid().to_pylist() == are_pairs
    pairs = array.take(pa.array(np.flatnonzero(are_pairs)))
    written, wanted = key_value_schema(writer), key_value_schema(shown)
    for name, one, other in (("key", written.key, wanted.key), ("value", written.value, wanted.value)):
        said = [node[name] for node in nodes if node["t"] == "keyvalue"]
        assert_said(pairs.field(name), said, one, other)


# Avro.


def same_avro(schema: SchemaInfo) -> IsSame:
    """Return what compares an Avro value of a recursive type, which is bytes, with one of the golden set."""
    parsed = parse_avro_schema(schema.data)

    def is_same(data: bytes, node: Node) -> bool:
        decoder = AvroDecoder.of(AvroSchema(parsed.named[node["name"]], parsed.named))
        array, reasons = decoder.decode(*payloads(pa.array([data])))
        assert_equal(array, [node], is_same)
        return not reasons.any()

    return is_same


# Protobuf.


def numbers_of_unknown(node: Any) -> Any:
    """Return a value of the golden set with enums as we have them: Java has a name of its own for numbers without a name."""
    if isinstance(node, list):
        return [numbers_of_unknown(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("t") == "enum" and node["v"].startswith("UNKNOWN_ENUM_VALUE_"):
        return {**node, "v": str(node["n"])}
    return {name: numbers_of_unknown(one) for name, one in node.items()}


def same_protobuf(schema: ProtobufSchema) -> IsSame:
    """Return what compares a message that is bytes, since it is inside its own definition, with one of the golden set."""

    def is_same(data: bytes, node: Node) -> bool:
        inner = ProtobufSchema(node["name"], schema.messages)
        array, reasons = ProtobufDecoder.of(inner).decode(*payloads(pa.array([data])))
        assert_equal(array, [node], is_same)
        return not reasons.any()

    return is_same


def assert_outermost(value: Any, node: Node, is_same: IsSame) -> None:
    """Compare a field of which the kind alone is known."""
    match node["t"]:
        case "unset":
            assert value is None
        case "array":
            assert len(value) == len(node["v"])
            for one, inner in zip(value, node["v"], strict=True):
                assert_outermost(one, inner, is_same)
        case "map":
            assert len(value) >= len(node["v"])
            assert all(isinstance(one, bytes) for one in value)
        case "message":
            assert is_same(value, numbers_of_unknown(node))
        case _ if value is None:
            assert node["v"] in {"", "0", "0.0", "false", "UNKNOWN"}
        case "enum":
            assert value == node["n"]
        case _:
            kinds = {"bool": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "string": pa.string()}
            kind = kinds.get(node["t"], pa.binary() if node["t"] == "bytes" else pa.int64())
            assert_equal(_as_array(value, kind), [node])


def _as_array(value: Any, kind: pa.DataType) -> pa.Array:
    """Return an array of one value; those that are too large for int64 are of uint64."""
    if pa.types.is_floating(kind):
        return pa.array([float(value)], kind)
    return pa.array([value], pa.uint64() if pa.types.is_integer(kind) and value >= 1 << 63 else kind)


# JSON.


def written_as(node: Node) -> Any:
    """Return the document of which Pulsar's client gave a value; it loses the sign of -0.0."""
    match node["t"]:
        case "null":
            return None
        case "object":
            return Given(tuple((name, written_as(one)) for name, one in node["v"].items()))
        case "array":
            return [written_as(one) for one in node["v"]]
        case "boolean":
            return node["v"] == "true"
        case "string":
            return node["v"]
        case _:
            return Number(node["v"])


def comparable_json(array: pa.Array, zero: float = -0.0) -> list[Any]:
    """Return an array as objects, its floating-point numbers as text: NaN equals NaN, and -0.0 is not 0.0 unless that is ``zero``."""

    def plain(value: Any, kind: pa.DataType) -> Any:
        if value is None:
            return None
        if pa.types.is_struct(kind):
            return {one.name: plain(value[one.name], one.type) for one in kind}
        if pa.types.is_map(kind):
            return [(key, plain(one, kind.item_type)) for key, one in value]
        if pa.types.is_list(kind):
            return [plain(one, kind.value_type) for one in value]
        return repr(value + zero) if pa.types.is_floating(kind) else value

    return [plain(one, array.type) for one in array.to_pylist()]

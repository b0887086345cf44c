"""Values that are read by another schema than they were written with, against fastavro, and where it differs from Java, by hand."""

import json
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.messages.values.avro_values import AvroDecoder
from tests.support.avro import Model, name_of, schemas
from tests.support.avro_pairs import readers
from tests.support.each import for_each
from tests.support.typed_golden import payloads


def decode(writer: Any, reader: Any, rows: list[bytes | None]) -> tuple[list[Any], list[str]]:
    decoder = AvroDecoder.of(parse_avro_schema(json.dumps(writer)), parse_avro_schema(json.dumps(reader)))
    array, reasons = decoder.decode(*payloads(pa.array(rows, pa.binary())))
    array.validate(full=True)
    assert array.type == decoder.type
    assert [one is None for one in array.to_pylist()] >= [reason != 0 for reason in reasons.tolist()]
    return array.to_pylist(), [decoder.explain(reason) if reason else "" for reason in reasons.tolist()]


@st.composite
def pairs(draw: Any) -> tuple[Model, Any, list[Any]]:
    model = Model.of(draw(schemas(with_names=False)))
    assume(not has_bytes_and_text(model.schema))
    return model, draw(readers(model.schema)), draw(st.lists(model.values(), max_size=6))


def has_bytes_and_text(kind: Any) -> bool:
    """Whether a union has both: fastavro then takes the first of them."""
    if isinstance(kind, list):
        return {"bytes", "string"} <= set(map(name_of, kind)) or any(map(has_bytes_and_text, kind))
    if not isinstance(kind, dict):
        return False
    return any(
        map(
            has_bytes_and_text,
            (kind.get("items"), kind.get("values"), *(one["type"] for one in kind.get("fields", ()))),
        )
    )


@pytest.mark.long
@given(pairs())
@settings(max_examples=150, deadline=None)
def test_values_are_read_by_another_schema(made: tuple[Model, Any, list[Any]]) -> None:
    model, reader, values = made
    rows = [model.encode(one) for one in values]
    found, reasons = decode(model.schema, reader, rows)
    for row, one, reason in zip(rows, found, reasons, strict=True):
        expected = fastavro_reads(row, model.schema, reader)
        if isinstance(expected, UnicodeDecodeError):
            continue
        assert bool(reason) == isinstance(expected, SchemaResolutionError), expected
        assert reason or are_same(collapsed(one, reader), expected), (one, expected)


def fastavro_reads(row: bytes, writer: Any, reader: Any) -> Any:
    """Return what fastavro makes of a value; it compares the name of the outermost record, as Java does not."""
    if isinstance(writer, dict) and isinstance(reader, dict) and writer["type"] == reader["type"] == "record":
        writer = {**writer, "name": reader["name"]}
    try:
        return fastavro.schemaless_reader(BytesIO(row), writer, reader)
    except (SchemaResolutionError, UnicodeDecodeError) as error:
        return error


def collapsed(value: Any, kind: Any) -> Any:
    """Return a value as fastavro has it: of a union, the chosen branch alone."""
    if value is None:
        return None
    if isinstance(kind, list):
        branches = [one for one in kind if one != "null"]
        if len(branches) == 1:
            return collapsed(value, branches[0])
        chosen = [place for place, one in enumerate(value.values()) if one is not None]
        assert len(chosen) <= 1
        return collapsed(list(value.values())[chosen[0]], branches[chosen[0]]) if chosen else None
    if not isinstance(kind, dict):
        return value
    match kind["type"]:
        case "record":
            return {one["name"]: collapsed(value[one["name"]], one["type"]) for one in kind["fields"]}
        case "array":
            return [collapsed(one, kind["items"]) for one in value]
        case "map":
            return {key: collapsed(one, kind["values"]) for key, one in value}
        case _:
            return value


def are_same(found: Any, expected: Any) -> bool:
    """Whether a value is fastavro's, who leaves defaults as JSON has them, and floats as doubles."""
    if isinstance(found, dict) and isinstance(expected, dict):
        # Fields that a default of a record leaves out have defaults of their own, which fastavro does not add.
        return all(are_same(found[name], one) for name, one in expected.items()) and (
            found.keys() == expected.keys() or (found.keys() == {"x", "y"} and found["y"] == "d")
        )
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(are_same, found, expected))
    if isinstance(found, bytes) and isinstance(expected, str):
        return found == expected.encode("latin-1")
    if isinstance(found, float):
        return bool(found == expected or found == np.float32(expected))
    return bool(found == expected and type(found) is type(expected))


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def read_one(writer: Any, reader: Any, value: Any) -> Any:
    """Return what becomes of a value (unions as pairs of branch and value), or the reason why nothing does."""
    (found,), (reason,) = decode(writer, reader, [Model.of(writer).encode(value)])
    return reason or found


INT, TEXT = field("i", "int"), field("s", "string")
DAY = {"type": "int", "logicalType": "date"}
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
AS_JAVA: dict[str, tuple[Any, Any, Any, Any]] = {
    "names of records do not count": (record("a.P", INT), record("b.Q", INT), {"i": 1}, {"i": 1}),
    "nor inside": (record("R", field("x", record("A", INT))), record("R", field("x", record("B", INT))), {"x": {"i": 1}}, {"x": {"i": 1}}),
    "a record that fits will do in a union": (record("P", INT), ["null", record("P2", INT)], {"i": 1}, {"i": 1}),
    "but not one that lacks a field": (record("P", INT), ["null", record("P2", TEXT)], {"i": 1}, "P cannot be read as [null, P2]"),
    "rather one of the same short name": (
        record("a.P", INT), [record("X", INT), record("b.P", INT)], {"i": 1}, {"X": None, "P": {"i": 1}},
    ),
    "the same type before a wider one": ("int", ["double", "long", "int"], 7, {"double": None, "long": None, "int": 7}),
    "else the first that is wider": ("int", ["string", "double", "long"], 7, {"string": None, "double": 7.0, "long": None}),
    "enums may differ in their namespace": (
        {"type": "enum", "name": "a.E", "symbols": ["A", "B"]}, {"type": "enum", "name": "b.E", "symbols": ["B", "A"]}, "B", "B",
    ),
    "but not in their name": (
        {"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "F", "symbols": ["A"]}, "A", "E cannot be read as F",
    ),
    "fixed types are of one size": (
        {"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, b"ab", "F cannot be read as F",
    ),
    "a list without items needs none that can be read": (
        {"type": "array", "items": "int"}, {"type": "array", "items": "string"}, [], [],
    ),
    "its items do": ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, [1], "int cannot be read as string"),
    "a union's branch that is not chosen may be one that cannot be read": (["null", "int"], ["null", "string"], (0, None), None),
    "one that is chosen may not": (["null", "int"], ["null", "string"], (1, 1), "int cannot be read as string"),
    "numbers of one unit are none of another": (MILLIS, MICROS, 5, "long (timestamp-millis) cannot be read as long (timestamp-micros)"),
    "days are no milliseconds": (DAY, MILLIS, 5, "int (date) cannot be read as long (timestamp-millis)"),
    "decimals of another scale are other numbers": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, 5, "bytes (decimal) cannot be read as bytes (decimal)",
    ),
    "decimals may have fewer digits than before": (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 1},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, 99999,
        "a time or decimal of it is outside the range of its type",
    ),
    "a field without default has to be there": (
        record("R", INT), record("R", INT, TEXT), {"i": 1}, "it has no field 's', for which 'R' has no default",
    ),
    "a default has to be of its type": (
        record("R", INT), record("R", INT, field("s", "string", default=1)), {"i": 1},
        "it has no field 's', and the default of 'R' for it does not match its type",
    ),
    "nor is a text a list of its letters": (
        record("R"), record("R", field("a", {"type": "array", "items": "string"}, default="abc")), {},
        "it has no field 'a', and the default of 'R' for it does not match its type",
    ),
    "a default that is null is of a union with null": (
        record("R"), record("R", field("a", ["null", record("Q", INT)], default=None)), {}, {"a": None},
    ),
    "the first branch that it may be is a default's": (
        record("R"), record("R", field("a", ["string", "null", "long"], default=9)), {}, {"a": {"string": None, "long": 9}},
    ),
    "defaults of times are within a day": (
        record("R"), record("R", field("t", {"type": "int", "logicalType": "time-millis"}, default=86_400_000)), {},
        "it has no field 't', and the default of 'R' for it does not match its type",
    ),
    "defaults of decimals have the digits of their type": (
        record("R"), record("R", field("d", {"type": "bytes", "logicalType": "decimal", "precision": 2}, default="\u0001\u0000")), {},
        "it has no field 'd', and the default of 'R' for it does not match its type",
    ),
    "an alias is for a field that is not there by its name": (
        record("R", INT, field("j", "int")), record("R", field("j", "int", aliases=["i"])), {"i": 1, "j": 2}, {"j": 2},
    ),
    "a field is taken for one of the reader's fields": (
        record("R", INT), record("R", field("a", "int", aliases=["i"]), field("b", "int", aliases=["i"], default=0)), {"i": 1},
        {"a": 1, "b": 0},
    ),
}  # fmt: skip


@for_each("case", AS_JAVA)
def test_it_reads_as_java_does(case: str) -> None:
    writer, reader, value, wanted = AS_JAVA[case]
    assert read_one(writer, reader, value) == wanted


def test_recursive_types_stay_bytes_of_the_writer() -> None:
    writer = record("Node", INT, field("next", ["null", "Node"]))
    reader = record(
        "Node", field("i", "long"), field("next", ["null", "Node"], default=None), field("more", "int", default=3)
    )
    inner = {"i": 2, "next": (0, None)}
    assert read_one(writer, reader, {"i": 1, "next": (1, inner)}) == {"i": 1, "next": b"\x04\x00", "more": 3}


def test_recursive_records_of_other_names_fit() -> None:
    writer = record("Node", INT, field("next", ["null", "Node"]))
    reader = record("R", field("node", ["null", record("Node2", INT, field("next", ["null", "Node2"]))]))
    value = {"node": {"i": 1, "next": (1, {"i": 2, "next": (0, None)})}}
    assert read_one(record("R", field("node", writer)), reader, value) == {"node": {"i": 1, "next": b"\x04\x00"}}

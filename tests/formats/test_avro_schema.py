"""Avro schemas: what is refused and why, and that none takes more time or memory than any real one."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    MOST_LEVELS,
    Array,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Recursive,
    Union,
    parse_avro_schema,
)
from ledgerfs.messages.values import avro_matching
from ledgerfs.messages.values.avro_program import avro_program
from ledgerfs.messages.values.avro_values import AvroDecoder
from tests.support.each import for_each


def parsed(schema: Any) -> Any:
    return parse_avro_schema(json.dumps(schema)).root


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


REFUSED: dict[str, tuple[Any, str]] = {
    "a number": (5, "the schema is not an Avro type"),
    "nothing": ({}, "the schema is not an Avro type"),
    "an unknown name": ("Person", "the schema has the type 'Person', which is not defined before it"),
    "a union of nothing": ([], "the schema is an empty union"),
    "a union in a union": ([["int"], "null"], "the schema is a union inside a union"),
    "a branch twice": (["int", "null", "int"], "the schema is a union that has 'int' twice"),
    "two lists": ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "the schema is a union that has 'array' twice"),
    "a record without a name": ({"type": "record", "fields": []}, "the schema is a record without a name"),
    "a record without fields": ({"type": "record", "name": "R"}, "the record 'R' has no list of fields"),
    "fields of text": ({"type": "record", "name": "R", "fields": ["a"]}, "a field of the record 'R' has no name"),
    "a field without a type": ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "the field 'a' of 'R' has no 'type'"),
    "a field twice": (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "the record 'R' has the field 'a' twice",
    ),
    "a type twice": (record("R", record("R")), "the type 'R' is defined twice"),
    "an array of nothing": ({"type": "array"}, "the schema has no 'items'"),
    "a map of nothing": ({"type": "map"}, "the schema has no 'values'"),
    "an enum of nothing": ({"type": "enum", "name": "E", "symbols": []}, "the enum 'E' has no list of distinct symbols"),
    "an enum of numbers": ({"type": "enum", "name": "E", "symbols": [1, "A"]}, "the enum 'E' has no list of distinct symbols"),
    "a symbol twice": ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "the enum 'E' has no list of distinct symbols"),
    "a size of text": ({"type": "fixed", "name": "F", "size": "4"}, "the fixed type 'F' has the invalid size '4'"),
    "a size below 0": ({"type": "fixed", "name": "F", "size": -1}, "the fixed type 'F' has the invalid size -1"),
    "a size without end": ({"type": "fixed", "name": "F", "size": 2**62}, f"the fixed type 'F' has the invalid size {2**62}"),
    "a true size": ({"type": "fixed", "name": "F", "size": True}, "the fixed type 'F' has the invalid size True"),
    "half a character": (
        {"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "int"}]}, "the name '\\ud800' is not valid Unicode",
    ),
    "two names that differ by a NUL": (
        {"type": "record", "name": "R", "fields": [{"name": "a\0", "type": "int"}, {"name": "a\ufffd", "type": "int"}]},
        "the record 'R' has the field 'a\ufffd' twice",
    ),
    "half a symbol": ({"type": "enum", "name": "E", "symbols": ["\udfff"]}, "the name '\\udfff' is not valid Unicode"),
}  # fmt: skip


@for_each("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    schema, reason = REFUSED[case]
    with pytest.raises(InvalidSchemaError) as error:
        parsed(schema)
    assert error.value.reason == reason


@for_each("text", [b"", b"{", b"string", b"\xff", b"[" * 100_000, b'{"type":' * 50_000, "1" * 5000])
def test_what_is_no_json_that_can_be_read(text: bytes) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_avro_schema(text)


def test_names_are_found_in_their_namespaces() -> None:
    inner = {"type": "fixed", "name": "F", "size": 2, "namespace": "other"}
    made = parsed(
        {**record("R", inner, "other.F", record("S", "int"), "S", "a.b.S", ["null", "R"]), "namespace": "a.b"}
    )
    assert made.name == "a.b.R"
    fixed = Fixed("other.F", 2)
    types = [one.type for one in made.fields]
    assert types[:2] == [fixed, fixed]
    assert types[2] is types[3] is types[4]
    assert types[2].name == "a.b.S"
    assert types[5] == Union((Primitive("null"), Recursive("a.b.R")))


def test_types_in_types_are_seen_through() -> None:
    assert parsed({"type": {"type": {"type": "int"}}}) == Primitive("int")
    assert parsed({"type": {"type": "array", "items": {"type": "map", "values": "int"}}}) == Array(
        Map(Primitive("int"))
    )
    assert parsed({"type": "error", "name": "E", "fields": []}) == Record("E", ())


@for_each(
    ("more", "logical"),
    [
        ({"logicalType": "decimal", "precision": 4, "scale": 2}, Logical("decimal", 4, 2)),
        ({"logicalType": "decimal", "precision": 76}, Logical("decimal", 76, 0)),
        *(
            ({"logicalType": "decimal", **wrong}, None)
            for wrong in (
                {},
                {"precision": 0},
                {"precision": 77},
                {"precision": 10**30},
                {"precision": 4, "scale": 5},
                {"precision": True},
            )
        ),
        *(({"logicalType": "decimal", "precision": one}, None) for one in ("4", 4.5, [4], None)),
        ({"logicalType": "decimal", "precision": 4, "scale": -1}, None),
        ({"logicalType": "timestamp-millis"}, None),
        ({"logicalType": ["decimal"]}, None),
    ],
)
def test_a_logical_type_that_cannot_stand_there_is_ignored(more: dict[str, Any], logical: Logical | None) -> None:
    assert parsed({"type": "bytes", **more}) == Primitive("bytes", logical)


def doubling(levels: int, leaf: Any) -> Any:
    """Return a schema of few types whose tree has 2 to the power of ``levels`` leaves."""
    fields = [record("T0", *([leaf] if leaf else []))]
    fields += [record(f"T{level}", f"T{level - 1}", f"T{level - 1}") for level in range(1, levels)]
    return record("All", *fields)


def nested(levels: int) -> Any:
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


def chained(levels: int) -> Any:
    """Return a schema whose text is flat, and whose tree is deep."""
    return record("All", record("T0", "int"), *(record(f"T{level}", f"T{level - 1}") for level in range(1, levels)))


SYMBOLS = {"type": "enum", "name": "E", "symbols": [f"S{number}" for number in range(100_000)]}
LETTERS = record("R", SYMBOLS, *["E"] * 15)


ENDLESS = {
    "leaves": doubling(40, "int"),
    "nulls": doubling(40, "null"),
    "empty records": doubling(40, None),
    "less": doubling(16, "int"),
    "lists in lists": nested(500),
    "some": nested(MOST_LEVELS),
    "a chain": chained(5000),
    "some of it": chained(MOST_LEVELS),
    "enums": record("R", SYMBOLS, *["E"] * 30),
    "a wide union": [record(f"R{number}", *["int"] * 100) for number in range(400)],
}


@for_each("case", ENDLESS)
def test_a_tree_without_end_is_refused(case: str) -> None:
    """Going through the largest ones would take for ever."""
    with pytest.raises(InvalidSchemaError):
        parsed(ENDLESS[case])


def circle(letter: str, levels: int, *around: str) -> Any:
    """Return records each of which holds the next one, or one ``around`` it, and the last one the first."""
    kind: Any = f"{letter}0"
    for level in reversed(range(levels)):
        kind = record(f"{letter}{level}", [*around, kind] if around else kind)
    return kind


WIDE = [record(f"R{number}", *[["null", "long"]] * 30) for number in range(120)]


PROGRAMS: dict[str, tuple[Any, Any, str]] = {
    "leaves": (doubling(13, "int"), doubling(13, "int"), ""),
    "empty records": (doubling(13, None), doubling(13, None), ""),
    "lists in lists": (nested(MOST_LEVELS - 1), nested(MOST_LEVELS - 1), ""),
    "a chain": (chained(MOST_LEVELS - 2), chained(MOST_LEVELS - 2), ""),
    "wide unions": (WIDE, [*WIDE[::-1], "null"], ""),
    "enums": (LETTERS, LETTERS, ""),
    "circles": (
        record("A", ["null", circle("W", 61)]),
        record("A", ["null", "int", circle("R", 30, "null")]),
        "the recursive types of these schemas cannot be compared",
    ),
    "records in themselves": (
        record("A", *["A"] * 3000),
        record("A", *[record(f"B{number}", "A") for number in range(3000)]),
        "the schema needs more than 262,144 instructions to read",
    ),
}


@pytest.mark.long
@for_each("case", PROGRAMS)
def test_a_program_is_small_or_refused(case: str) -> None:
    """Whatever schemas there are: without the limits some of these would take for ever, or all memory."""
    writer, reader, reason = PROGRAMS[case]
    schemas = [parse_avro_schema(json.dumps(one)) for one in (writer, reader)]
    if reason:
        with pytest.raises(InvalidSchemaError) as error:
            avro_program(*schemas)
        assert error.value.reason == reason
    else:
        assert avro_program(*schemas).tables.size < 1 << 17


def test_branches_of_unions_are_compared_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 5000 with each of 5000 would take minutes."""
    assert avro_matching.MOST_COMPARISONS == 1 << 18
    monkeypatch.setattr(avro_matching, "MOST_COMPARISONS", 1 << 13)
    for count in (90, 5000):
        named = (
            [record(f"{letter}{number}", kind) for number in range(count)]
            for letter, kind in (("R", "int"), ("Q", "string"))
        )
        schemas = [parse_avro_schema(json.dumps(one)) for one in named]
        if count == 90:
            assert avro_program(*schemas).code.size
        else:
            with pytest.raises(InvalidSchemaError, match="unions of these schemas need more than 8,192 comparisons"):
                avro_program(*schemas)


def test_a_name_has_no_nul_at_which_other_libraries_end_it() -> None:
    inner = {"type": "record", "name": "I\0", "aliases": ["J\0"], "fields": []}
    fields = [
        {"name": "a", "type": inner},
        {"name": "a\0", "aliases": ["b\0"], "default": "\0", "type": ["string", "I\0"]},
    ]
    record = parsed({"type": "record", "name": "R", "fields": fields})
    assert isinstance(record, Record)
    inner_type, field = record.fields[0].type, record.fields[1]
    assert isinstance(inner_type, Record)
    assert (inner_type.name, inner_type.aliases) == ("I\ufffd", ("J\ufffd",))
    assert (field.name, field.aliases, field.default) == ("a\ufffd", ("b\ufffd",), "\0")
    assert field.type == Union((Primitive("string"), inner_type))


def test_a_field_may_have_any_name() -> None:
    names = ["", " ", "\1", "é", "a.b", "🐘", "'\"\\", "value"]
    fields = [{"name": one, "type": "int"} for one in names]
    decoder = AvroDecoder.of(parse_avro_schema(json.dumps({"type": "record", "name": "R", "fields": fields})))
    assert [one.name for one in decoder.type] == names


WORDS = ("record", "enum", "fixed", "array", "map", "int", "bytes", "string", "null", "R")
KEYS = (
    "type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases", "namespace", "logicalType", "precision",
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)


@pytest.mark.long
@given(st.recursive(LEAVES, around, max_leaves=20))
@settings(max_examples=180, deadline=None)
def test_any_json_is_a_schema_or_refused(document: Any) -> None:
    try:
        schema = parse_avro_schema(json.dumps(document))
    except InvalidSchemaError:
        return
    assert avro_program(schema).code.shape[1] == 4

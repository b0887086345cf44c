"""Avro payloads that lie: each is null with a reason, in bounded time and memory, and no other row is another one."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.schemas.avro_schema import MOST_LEVELS, parse_avro_schema
from ledgerfs.messages.values import arena, row_spans
from ledgerfs.messages.values.avro_values import AvroDecoder
from tests.support.avro import zigzag
from tests.support.each import for_each
from tests.support.typed_golden import payloads


def decode(schema: Any, rows: list[bytes | None], offset: int = 0) -> tuple[pa.Array, list[str]]:
    decoder = AvroDecoder.of(parse_avro_schema(json.dumps(schema)), offset=offset)
    array, reasons = decoder.decode(*payloads(pa.array(rows, pa.binary())))
    array.validate(full=True)
    return array, [decoder.explain(one) if one else "" for one in reasons.tolist()]


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": one} for i, one in enumerate(types)]}


INTS = {"type": "array", "items": "int"}
TEXTS = {"type": "map", "values": "string"}
NULLS = {"type": "array", "items": "null"}
CUT = "it ends inside a field"
MORE = "bytes follow after its last field"
LIES = "a list in it has more items than bytes"
BEYOND = "a time or decimal of it is outside the range of its type"
HUGE = (2**31, 2**32, 2**62, 2**63 - 1, -(2**31), -(2**63), -(2**62))
BAD: dict[str, tuple[Any, bytes, str]] = {
    "nothing": ("int", b"", CUT),
    "half a number": ("long", b"\x80", CUT),
    "a number without end": ("long", b"\x80" * 11 + b"\1", CUT),
    "a number of 65 bits": ("long", b"\x80" * 9 + b"\2", CUT),
    "a number of 70 bits": ("long", b"\xff" * 9 + b"\x7f", CUT),
    "an int of 65 bits": ("int", b"\x80" * 9 + b"\2", CUT),
    "an int of 33 bits": ("int", b"\xff\xff\xff\xff\x1f", "a number of it has more bits than its type"),
    "a text of a size of 65 bits": ("string", b"\x82" + b"\x80" * 8 + b"\2a", CUT),
    "a branch of 65 bits": (["null", "int"], b"\x80" * 9 + b"\2", CUT),
    "a long for an int": ("int", zigzag(2**31), "a number of it has more bits than its type"),
    "a negative long for an int": ("int", zigzag(-(2**31) - 1), "a number of it has more bits than its type"),
    "half a float": ("float", b"abc", CUT),
    "half a double": ("double", b"abcdefg", CUT),
    "half a fixed": ({"type": "fixed", "name": "F", "size": 4}, b"abc", CUT),
    "more than a fixed": ({"type": "fixed", "name": "F", "size": 4}, b"abcde", MORE),
    "a boolean that is neither": ("boolean", b"\2", "a boolean of it is neither 0 nor 1"),
    "a text of a size below 0": ("string", zigzag(-1), CUT),
    "a text that is cut": ("string", zigzag(5) + b"abcd", CUT),
    "a text and more": ("string", zigzag(5) + b"abcdef", MORE),
    "a branch below 0": (["null", "int"], zigzag(-1), "it has a branch number that its union does not have"),
    "a branch above": (["null", "int"], zigzag(2), "it has a branch number that its union does not have"),
    "a branch of several": (["null", "int", "string"], zigzag(3), "it has a branch number that its union does not have"),
    "a symbol below 0": ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(-1), "it has a symbol number that its enum does not have"),
    "a symbol above": ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(1), "it has a symbol number that its enum does not have"),
    "a list that does not end": (INTS, zigzag(1) + b"\2", CUT),
    "a list whose block has no size": (INTS, zigzag(-1), CUT),
    "items that are not there": (INTS, zigzag(4) + b"\2\2\2\0"[:3], LIES),
    "pairs that are not there": (TEXTS, zigzag(2) + b"\0", LIES),
    "nulls without end": (NULLS, zigzag(2**40) + b"\0", LIES),
    "blocks of nulls without end": (NULLS, zigzag(4000) * 3 + b"\0", LIES),
    "a time of another day": ({"type": "int", "logicalType": "time-millis"}, zigzag(86_400_000), BEYOND),
    "a time before any": ({"type": "long", "logicalType": "time-micros"}, zigzag(-1), BEYOND),
    "a decimal of no digits": ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\0", BEYOND),
    "a decimal of more digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 2}, zigzag(1) + b"\x64", BEYOND,
    ),
    "a decimal of very many digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 76}, zigzag(40) + b"\1" + bytes(39), BEYOND,
    ),
    **{f"a text of {size} bytes": ("string", zigzag(size) + b"abc", CUT) for size in HUGE},
    **{f"a list of {count} items": (INTS, zigzag(count) + b"\2\2\0", LIES) for count in HUGE},
    **{f"a map of {count} pairs": (TEXTS, zigzag(count) + b"\2a\2b\0", LIES) for count in HUGE},
}  # fmt: skip


@for_each("case", BAD)
def test_a_payload_that_lies_is_null_with_a_reason(case: str) -> None:
    schema, payload, reason = BAD[case]
    good = {"int": zigzag(7), "long": zigzag(7)}.get(schema) if isinstance(schema, str) else None
    rows = [good, payload, good, None, payload]
    array, reasons = decode(schema, rows)
    none = "it has no value"
    assert reasons == ["" if good else none, reason, "" if good else none, none, reason]
    assert array.to_pylist() == [7 if good else None, None, 7 if good else None, None, None]


@for_each("before", range(6))
def test_a_row_is_taken_back_wherever_it_breaks(before: int) -> None:
    """In lists, options, choices and maps that had begun, so that nothing of it is left in the row after it."""
    types = ("string", INTS, TEXTS, ["null", record("int", INTS, name="Q")], ["null", "int", "string", INTS], "boolean")
    whole = [
        zigzag(2) + b"ab",
        zigzag(2) + b"\2\4\0",
        zigzag(1) + b"\2k\2v\0",
        b"\2\6" + zigzag(1) + b"\2\0",
        b"\6" + zigzag(1) + b"\2\0",
        b"\1",
    ]
    cut = [
        zigzag(9) + b"ab",
        zigzag(2) + b"\2\x80",
        zigzag(1) + b"\2k\x09v",
        b"\2\6" + zigzag(1) + b"\x80",
        b"\6" + zigzag(1) + b"\x80",
        b"\7",
    ]
    good = b"".join(whole)
    bad = b"".join(whole[:before]) + cut[before]
    alone, _ = decode(record(*types), [good])
    array, reasons = decode(record(*types), [good, bad, good, bad, None, good])
    (value,) = alone.to_pylist()
    assert [bool(one) for one in reasons] == [False, True, False, True, True, False]
    assert array.to_pylist() == [value, None, value, None, None, value]


def test_an_overlong_varint_is_a_number_as_for_fastavro() -> None:
    array, reasons = decode("long", [b"\x8e\x80\x80\x00", b"\xff" * 9 + b"\1"])
    assert array.to_pylist() == [7, -(2**63)]
    assert reasons == ["", ""]


def test_a_uuid_that_is_not_there_reads_no_bytes() -> None:
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    array, _ = decode(record(["null", record(uuid, name="Q")]), [b"\0", None, b"\0"])
    assert array.to_pylist() == [{"f0": None}, None, {"f0": None}]


def test_recursion_is_as_deep_as_the_stack() -> None:
    schema = record("int", ["null", "R"])
    deep = [b"\2\2" * levels + b"\2\0" for levels in (1, 500, 1020, 1100, 100_000)]
    array, reasons = decode(schema, [*deep, deep[0]])
    assert reasons == ["", "", "", "it is nested too deeply", "it is nested too deeply", ""]
    assert array.field(1).to_pylist()[:3] == [one[2:] for one in deep[:3]]


def test_a_record_that_only_holds_itself_has_no_values() -> None:
    assert decode(record("R"), [b"", b"\0"])[1] == ["it is nested too deeply"] * 2


def test_a_tree_with_more_children_than_bytes_of_nothing() -> None:
    """A type inside itself has bytes, though it is still being defined where its list is."""
    schema = record({"type": "array", "items": "R"})
    children = zigzag(20_000) + b"\0" * 20_000 + b"\0"
    array, reasons = decode(schema, [zigzag(1) + children + b"\0"])
    assert reasons == [""]
    assert array.field(0).to_pylist() == [[children]]


def test_lists_of_nothing_end() -> None:
    """Going through all items that these claim would take years; a thousand of them are read."""
    nothing = record(*[record(name=f"E{i}") for i in range(50)], *["null"] * 50)
    for schema in (
        NULLS,
        {"type": "array", "items": nothing},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
    ):
        _, reasons = decode(schema, [zigzag(2**60) + b"\0"] * 5_000)
        assert set(reasons) == {LIES}
        array, reasons = decode(schema, [zigzag(1000) + b"\0"] * 2_000)
        assert set(reasons) == {""}
        assert len(array.values) == 2_000_000


def test_few_bytes_that_stand_for_many_values_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A null in a list, of a record with very many fields, is one byte, and a word for each field."""
    monkeypatch.setattr(arena, "MOST_WORDS", 1 << 20)
    monkeypatch.setattr(row_spans, "FIRST_WORDS", 1 << 16)
    wide = {"type": "array", "items": ["null", record(*["long"] * 500, name="Wide")]}
    large = zigzag(100_000) + b"\0" * 100_000 + b"\0"
    small = zigzag(1) + b"\0\0"
    array, reasons = decode(wide, [small, large, small])
    assert reasons == ["", "its columns would take more memory than 1 GiB", ""]
    assert array.to_pylist() == [[None], None, [None]]
    medium = zigzag(900) + b"\0" * 900 + b"\0"
    with pytest.raises(CorruptObjectError):
        decode(wide, [medium] * 50)


def test_rows_are_decoded_in_spans_of_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record("long", INTS, ["null", "string"])
    rows = [
        zigzag(i) + zigzag(i % 7 + 1) + b"\2" * (i % 7 + 1) + b"\0" + (b"\2\2x" if i % 3 else b"\0") for i in range(500)
    ]
    rows[77] = b"\0"
    whole, reasons = decode(schema, rows)
    monkeypatch.setattr(row_spans, "FIRST_WORDS", 200)
    monkeypatch.setattr(arena, "MOST_WORDS", 2000)
    in_spans, same = decode(schema, rows)
    assert in_spans.equals(whole)
    assert reasons == same
    assert [bool(one) for one in reasons] == [i == 77 for i in range(500)]


def test_rows_of_very_different_sizes_grow_many_nodes() -> None:
    kinds = {
        "type": "array",
        "items": record("long", "string", ["null", "double"], TEXTS, {"type": "array", "items": INTS}, name="Q"),
    }
    item = (
        zigzag(2**40)
        + zigzag(1)
        + b"s"
        + zigzag(1)
        + struct.pack("<d", 0.5)
        + zigzag(1)
        + b"\2k\2v\0"
        + zigzag(2)
        + (zigzag(3) + b"\2\4\6\0") * 2
        + b"\0"
    )
    counts = [0, 1, 2, 0, 3000, 5, 0, 20_000, 1]
    array, reasons = decode(kinds, [zigzag(count) + item * count + b"\0" if count else b"\0" for count in counts])
    assert not any(reasons)
    value = {"f0": 2**40, "f1": "s", "f2": 0.5, "f3": [("k", "v")], "f4": [[1, 2, 3], [1, 2, 3]]}
    assert np.diff(array.offsets.to_numpy()).tolist() == counts
    assert array.flatten().to_pylist() == [value] * sum(counts)


def test_lists_in_lists_to_the_last_level() -> None:
    kind: Any = "int"
    for _ in range(MOST_LEVELS - 1):
        kind = {"type": "array", "items": kind}
    value: Any = 1
    for _ in range(MOST_LEVELS - 1):
        value = [value]
    array, reasons = decode(kind, [b"\2" * (MOST_LEVELS - 1) + b"\2" + b"\0" * (MOST_LEVELS - 1), b"\0"])
    assert reasons == ["", ""]
    assert array.to_pylist() == [value, []]


@for_each(
    "schema",
    ["int", "null", record(), ["null"], ["int"], ["null", "int"], INTS, TEXTS, record("null", record(name="E"))],
)
def test_no_rows_and_nulls_alone(schema: Any) -> None:
    array, reasons = decode(schema, [])
    assert len(array) == len(reasons) == 0
    array, reasons = decode(schema, [None, None])
    assert array.null_count == 2
    assert reasons == ["it has no value"] * 2


def test_bytes_before_each_value_are_left_out() -> None:
    array, reasons = decode("int", [b"12345" + zigzag(3), b"1234", b"12345", None, b"", b"12345" + zigzag(4)], offset=5)
    assert array.to_pylist() == [3, None, None, None, None, 4]
    assert reasons == ["", CUT, CUT, "it has no value", CUT, ""]
    # Of a schema whose values have no bytes, those before them have to be there, too.
    assert decode("null", [b"12345", b"1234"], offset=5)[1] == ["", CUT]


def test_wide_fixed_types_take_no_room_where_they_are_null() -> None:
    wide = {"type": "fixed", "name": "F", "size": 1 << 30}
    array, reasons = decode(["null", wide], [b"\0"] * 10_000)
    assert array.null_count == 10_000
    assert not any(reasons)
    assert array.nbytes < 1 << 20
    for size in (0, 1, 256, 257):
        kind = {"type": "fixed", "name": "F", "size": size}
        array, _ = decode(
            record(kind, ["null", "F"]), [bytes(size) + b"\0", bytes(size) + b"\2" + b"x" * size, bytes(size)]
        )
        assert array.to_pylist() == [{"f0": bytes(size), "f1": None}, {"f0": bytes(size), "f1": b"x" * size}, None]
        assert pa.types.is_fixed_size_binary(array.type[0].type) == (0 < size <= 256)


def test_of_equal_keys_of_a_map_the_last_counts() -> None:
    """As in Java and fastavro, whose maps have no key twice."""

    def datum(*pairs: tuple[str, str]) -> bytes:
        return b"".join(zigzag(1) + b"".join(zigzag(len(one)) + one.encode() for one in pair) for pair in pairs) + b"\0"

    many = [(f"k{i % 30}", str(i)) for i in range(100)]
    rows = [
        datum(("a", "1"), ("b", "2")),
        datum(("a", "1"), ("b", "2"), ("a", "3")),
        b"\0",
        datum(*many),
        b"\1",
        datum(("ab", "1"), ("ac", "2")),
    ]
    array, reasons = decode(TEXTS, rows)
    assert [dict(one) if one is not None else None for one in array.to_pylist()] == [
        {"a": "1", "b": "2"}, {"a": "3", "b": "2"}, {}, dict(many), None, {"ab": "1", "ac": "2"},
    ]  # fmt: skip
    assert [len(one) for one in array.to_pylist() if one is not None] == [2, 2, 0, 30, 2]
    assert reasons == ["", "", "", "", CUT, ""]
    alone, _ = decode(TEXTS, rows[:1])
    assert alone.to_pylist() == [[("a", "1"), ("b", "2")]]

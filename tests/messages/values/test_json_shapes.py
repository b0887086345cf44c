"""Types of JSON documents without a schema, against a slow way to find them out."""

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.messages.values.json_shapes import JsonShapes
from ledgerfs.messages.values.json_values import JsonDecoder
from tests.messages.values.test_json_values import decode, payloads
from tests.support.each import for_each
from tests.support.json_documents import (
    ANYTHING,
    STYLES,
    ContradictionError,
    Given,
    Number,
    Part,
    clean,
    clean_name,
    load,
)

OBJECTS = st.lists(st.tuples(st.text("abc", max_size=1), ANYTHING), max_size=4).map(lambda one: Given(tuple(one)))


def shapes_of(*documents: str | bytes) -> JsonShapes:
    shapes = JsonShapes()
    shapes.look(*payloads([one.encode() if isinstance(one, str) else one for one in documents]))
    return shapes


def kind_of(value: Any) -> str:
    if isinstance(value, Number):
        if re.fullmatch(r"-?\d+", value) and -(1 << 63) <= int(value) < 1 << 63:
            return "long"
        # What is larger than a double is kept as its digits.
        return "text" if abs(float(value)) == float("inf") and "I" not in value else "double"
    return {bool: "bool", str: "text", list: "list", Given: "object"}[type(value)]


def type_of(values: list[Any]) -> pa.DataType:
    """Return the type of all values."""
    values = [one for one in values if one is not None]
    match sorted({kind_of(one) for one in values}):
        case ["bool"]:
            return pa.bool_()
        case ["long"]:
            return pa.int64()
        case ["double"] | ["double", "long"]:
            return pa.float64()
        case ["list"]:
            return pa.list_(type_of([item for one in values for item in one]))
        case ["object"] if any(one.fields for one in values):
            fields: dict[str, list[Any]] = {}
            for name, part in (field for one in values for field in one.fields):
                fields.setdefault(clean_name(name), []).append(part)
            return pa.struct([(name, type_of(parts)) for name, parts in fields.items()])
    return pa.string()


def read(kind: pa.DataType, value: Any) -> Any:
    """Return what ``to_pylist`` gives for a value in an array of a type."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return clean(value) if isinstance(value, str) and not isinstance(value, Number) else Part(value)
    if pa.types.is_struct(kind):
        if not isinstance(value, Given):
            raise ContradictionError
        fields = {clean_name(name): one for name, one in value.fields}
        return {one.name: read(one.type, fields.get(one.name)) for one in kind}
    if pa.types.is_list(kind):
        return [read(kind.value_type, one) for one in value]
    if pa.types.is_boolean(kind):
        return value
    return int(value) if pa.types.is_integer(kind) else repr(float(value))


@pytest.mark.long
@given(st.lists(OBJECTS | OBJECTS | ANYTHING, max_size=6) | st.lists(ANYTHING, max_size=4), STYLES, st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_any_documents(values: list[Any], style: Any, split: int) -> None:
    texts = [style.document(one) for one in values]
    loaded = [load(one) for one in texts]
    objects = [one for one in loaded if isinstance(one, Given)]
    shapes = shapes_of(*texts)
    assert shapes.type == type_of(objects or loaded)
    in_two = shapes_of(*texts[:split])
    in_two.look(*payloads(texts[split:]))
    assert in_two.type == shapes.type
    rows, reasons = decode(JsonDecoder.of_type(shapes.type), texts)
    for row, value, reason in zip(rows, loaded, reasons, strict=True):
        try:
            wanted = read(shapes.type, value)
        except ContradictionError:
            assert (row, reason) == (None, "it is not an object")
        else:
            assert (row, reason) == (wanted, "")


@given(OBJECTS, STYLES, st.data())
@settings(max_examples=80, deadline=None)
def test_what_is_no_json_has_no_part_in_it(value: Any, style: Any, data: st.DataObject) -> None:
    text = style.document(value)
    cut = data.draw(st.integers(0, len(text) - 1))
    damaged = data.draw(st.sampled_from((text[:cut], text + b"x", text[:cut] + b"\xff" + text[cut + 1 :])))
    shapes = JsonShapes()
    reasons = shapes.look(*payloads([b'{"q":1}', damaged, None]))
    assert reasons[[0, 2]].tolist() == [0, -1]
    try:
        loaded = [load(damaged.decode("utf-8", "replace").encode())]
    except ValueError:
        loaded = []
        assert reasons[1] > 0
        assert JsonDecoder.of_type(shapes.type).explain(int(reasons[1]))
    if b"\xff" not in damaged or not loaded:
        objects = [one for one in loaded if isinstance(one, Given)]
        assert shapes.type == type_of([Given((("q", Number("1")),)), *objects])


@for_each(
    ("documents", "kind"),
    [
        ([], pa.string()),
        (["null"], pa.string()),
        (["{}"], pa.string()),
        (["1", "2.5"], pa.float64()),
        (["1", '{"a":1}', "[]"], pa.struct([("a", pa.int64())])),
        (['{"a":1}', '{"a":"x"}', '{"a":null,"b":[]}'], pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))])),
        (['{"a":[{"b":1}]}', '{"a":[{"c":true},{"b":1.5}]}'],
         pa.struct([("a", pa.list_(pa.struct([("b", pa.float64()), ("c", pa.bool_())])))])),
        (['{"a":9223372036854775808}'], pa.struct([("a", pa.float64())])),
        (['{"a":1}', '{"a":-1.79769313486231580e308}'], pa.struct([("a", pa.float64())])),
        (['{"a":1}', '{"a":1e309}'], pa.struct([("a", pa.string())])),
        (['{"a":[1.5,-1e309]}'], pa.struct([("a", pa.list_(pa.string()))])),
        (['{"a":1}', "1e309"], pa.struct([("a", pa.int64())])),
    ],
)  # fmt: skip
def test_types(documents: list[str], kind: pa.DataType) -> None:
    assert shapes_of(*documents).type == kind


def test_objects_of_very_many_fields_and_what_is_very_deep_are_text() -> None:
    many = json.dumps({"few": {"a": 1}, "many": {f"k{k}": k for k in range(1001)}})
    assert shapes_of(many).type == pa.struct([("few", pa.struct([("a", pa.int64())])), ("many", pa.string())])
    kind = shapes_of('{"a":' + "[" * 250 + "]" * 250 + "}").type
    levels = 0
    while pa.types.is_nested(kind):
        kind, levels = kind.field(0).type, levels + 1
    assert (levels, kind) == (64, pa.string())
    rows = [{f"field {row}-{k}" * 20: {"b": [k]} for k in range(100)} for row in range(9)]
    assert shapes_of(*map(json.dumps, rows)).type.num_fields == 900
    everywhere = [{f"r{row}": {f"f{k}": k for k in range(900)}} for row in range(12)]
    shapes = shapes_of(*map(json.dumps, everywhere))
    assert shapes.type == pa.string()  # more columns in all than an array may have
    rows = [{"known": 1, f"r{row}": {f"f{k}": k for k in range(900)}} for row in range(9)]
    shapes = shapes_of(*map(json.dumps, rows), json.dumps({"known": {f"g{k}": k for k in range(900)}}))
    assert shapes.type.field("known").type == pa.string()
    array, reasons = JsonDecoder.of_type(shapes.type).decode(*payloads([json.dumps(one).encode() for one in rows]))
    assert not reasons.any()
    assert array.field("r8").to_pylist()[8] == rows[8]["r8"]


def test_hostile_documents_add_nothing() -> None:
    shapes = JsonShapes()
    reasons = shapes.look(*payloads([b"[" * 10**6, b'{"a":' * 10**6, b"{" + b'"a":1,' * 10**5, b'{"a":1}']))
    assert [JsonDecoder.of_type(pa.string()).explain(one) for one in reasons[:3].tolist()] == [
        "it is nested too deeply", "it is nested too deeply", "it ends inside a field"
    ]  # fmt: skip
    assert shapes.type == pa.struct([("a", pa.int64())])


def test_a_name_that_is_no_text_has_replacements() -> None:
    document = b'{"a":{"\xff":1},"b":2}'
    shapes = shapes_of(document)
    assert shapes.type == pa.struct([("a", pa.struct([("\ufffd", pa.int64())])), ("b", pa.int64())])
    array, _ = JsonDecoder.of_type(shapes.type, is_closed=True).decode(*payloads([document]))
    assert array.to_pylist() == [{"a": {"\ufffd": 1}, "b": 2}]


def test_a_name_has_no_nul_at_which_other_libraries_end_it() -> None:
    """Two names that are one by that are one field, of which the last counts; texts keep theirs."""
    documents = [b'{"price":7,"price\\u0000":1,"in":{"\\u0000":"a\\u0000"}}', b'{"price\\u0000":2,"price\\ud800":3}']
    shapes = shapes_of(*documents)
    inner = pa.struct([("\ufffd", pa.string())])
    assert shapes.type == pa.struct([("price", pa.int64()), ("price\ufffd", pa.int64()), ("in", inner)])
    rows, reasons = decode(JsonDecoder.of_type(shapes.type, is_closed=True), documents)
    assert rows == [
        {"price": 7, "price\ufffd": 1, "in": {"\ufffd": "a\0"}},
        {"price": None, "price\ufffd": 3, "in": None},
    ]
    assert reasons == ["", ""]


def test_a_document_that_is_no_json_is_reported_so_wherever_it_has_a_field_more() -> None:
    decoder = JsonDecoder.of_type(pa.struct([("a", pa.int64())]), is_closed=True)
    documents = ['{"a":1,"b":', '{"b":1', '{"b":1} 2', '{"b":1,c}', '{"b":' + "[" * 2000, '{"b":[1,{}]}', '{"a":1}']
    rows, reasons = decode(decoder, [one.encode() for one in documents])
    assert reasons == [
        *["it ends inside a field"] * 2,
        "bytes follow after its last field",
        "it is not JSON",
        "it is nested too deeply",
        "it has a field that the inferred type lacks",
        "",
    ]
    assert rows == [*[None] * 6, {"a": 1}]

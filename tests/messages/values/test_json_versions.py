"""JSON of one schema read by another: by names and aliases, and only where both mean the same."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.json_values import JsonDecoder
from tests.messages.values.test_json_unions import CARD, DAY, FOUR, HUE, LONGS, PRICE, ROW, TIME, TRANSFER
from tests.messages.values.test_json_values import decode
from tests.support.each import for_each


def typed(kind: Any) -> SchemaInfo:
    return SchemaInfo("JSON", json.dumps(kind).encode())


def record_of(kind: Any, name: str = "R") -> Any:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}


PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
TIMES = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos",
    ),
}  # fmt: skip
OTHERS = {
    "enum": HUE,
    "decimal": PRICE,
    "fixed": FOUR,
    "duration": {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "record": CARD,
    "map": LONGS,
    "array": ROW,
}
MEANT: dict[str, Any] = {
    **{one: one for one in PLAIN},
    **{name: {"type": kind, "logicalType": name} for kind, names in TIMES.items() for name in names},
    **OTHERS,
}
NUMBERS = {"int", "long", "float", "double"}
SAME = [NUMBERS, {"string", "enum", "uuid"}, {"bytes", "fixed"}] + [
    {f"timestamp-{one}", f"local-timestamp-{one}"} for one in ("millis", "micros", "nanos")
]


AROUND: dict[str, Callable[[Any], Any]] = {
    "field": record_of,
    "field or null": lambda kind: record_of(["null", kind]),
    "field of an item": lambda kind: record_of({"type": "array", "items": record_of(kind, "Item")}),
    "value of a map": lambda kind: {"type": "map", "values": kind},
}


@pytest.mark.parametrize("around", AROUND)
def test_a_field_that_means_something_else_in_the_schema_that_is_wanted(around: str) -> None:
    schemas = {name: typed(AROUND[around](kind)) for name, kind in MEANT.items()}
    types = {name: decoder_of(one).type for name, one in schemas.items()}
    for writer, reader in product(MEANT, MEANT):
        is_same = writer == reader or any({writer, reader} <= one for one in SAME)
        is_same &= (writer, reader) != ("double", "float")
        if is_same:
            assert decoder_of(schemas[writer], schemas[reader]).type == types[reader], (writer, reader)
        else:
            with pytest.raises(InvalidSchemaError, match="cannot be read as"):
                pytest.fail(f"{writer} is read as {reader}: {decoder_of(schemas[writer], schemas[reader])}")


@for_each(
    ("old", "new", "reason"),
    [
        (TIME, {**TIME, "logicalType": "timestamp-micros"},
         "its field 'x', long (timestamp-millis), cannot be read as long (timestamp-micros)"),
        ("long", TIME, "its field 'x', long, cannot be read as long (timestamp-millis)"),
        (["null", "bytes"], "string", "its field 'x', bytes, cannot be read as string"),
        (record_of("int", "In"), record_of(DAY, "In"), "its field 'x.x', int, cannot be read as int (date)"),
        (ROW, {**ROW, "items": "string"}, "an item of its field 'x', long, cannot be read as string"),
        (LONGS, {**LONGS, "values": TIME}, "a value of its field 'x', long, cannot be read as long (timestamp-millis)"),
        (DAY, ["string", "long"], "its field 'x', int (date), cannot be read as long"),
        (["int", "string"], "string", "its field 'x', int, cannot be read as string"),
    ],
)  # fmt: skip
def test_why_a_version_is_not_read_as_another(old: Any, new: Any, reason: str) -> None:
    with pytest.raises(InvalidSchemaError) as error:
        decoder_of(typed(record_of(old)), typed(record_of(new)))
    assert error.value.reason == reason


@for_each(
    ("old", "new", "text", "value"),
    [
        ("int", "long", "5", 5),
        ("long", "int", "5", 5),
        ("int", "double", "5", "5.0"),
        ("null", "long", "null", None),
        (HUE, "string", '"RED"', "RED"),
        ("string", ["null", "int", "string"], '"5"', {"int": None, "string": "5"}),
        ("int", ["null", "int", "string"], "5", {"int": 5, "string": None}),
        # One record in the place of two that JSON does not tell apart.
        (
            ["null", CARD, TRANSFER],
            {"type": "record", "name": "Pay", "fields": [*CARD["fields"], *TRANSFER["fields"]]},
            '{"iban":"DE02"}',
            {"a": None, "iban": "DE02"},
        ),
        ([CARD, "int"], [record_of("int", "Other"), "long"], '{"x":1}', {"Other": {"x": 1}, "long": None}),
    ],
)
def test_versions_that_are_read_as_others(old: Any, new: Any, text: str, value: Any) -> None:
    decoder = decoder_of(typed(record_of(old)), typed(record_of(new)))
    assert decode(decoder, [f'{{"x":{text}}}'.encode()]) == ([{"x": value}], [""])


def test_a_version_of_types_inside_themselves() -> None:
    def tree(kind: Any) -> Any:
        fields = [{"name": "x", "type": kind}, {"name": "next", "type": ["null", "Tree"]}]
        return {"type": "record", "name": "Tree", "fields": fields}

    rows, _ = decode(decoder_of(typed(tree("int")), typed(tree("long"))), [b'{"x":1,"next":{"x":2}}'])
    assert rows == [{"x": 1, "next": '{"x":2}'}]
    with pytest.raises(InvalidSchemaError, match="its field 'x', int, cannot be read as"):
        decoder_of(typed(tree("int")), typed(tree(DAY)))
    deeper = record_of("long", "Tree")
    deeper["fields"].append({"name": "next", "type": record_of(DAY, "Second")})
    with pytest.raises(InvalidSchemaError, match=r"its field 'next.x', long, cannot be read as"):
        decoder_of(typed(tree("long")), typed(deeper))


ALIASES = [
    {"name": "title", "type": ["null", "string"], "aliases": ["name", "nick", "n\u00e9e", "id"]},
    {"name": "id", "type": "int", "aliases": ["title", "number"], "default": 7},
]


def of_fields(*fields: Any) -> Any:
    return {"type": "record", "name": "Old", "fields": [{"name": name, "type": kind} for name, kind in fields]}


@for_each(
    ("old", "text", "row"),
    [
        ([("name", "string"), ("id", "int")], '{"id":1,"name":"Ann"}', ("Ann", 1)),
        ([("n\u00e9e", "string"), ("number", "int")], '{"n\\u00e9e":"Bea","number":1}', ("Bea", 1)),
        # What is null is left out, and no other field takes its place.
        ([("title", "string"), ("name", "string"), ("id", "int"), ("number", "int")], '{"name":"no","number":2}', (None, None)),
        ([("nick", "string"), ("name", "string")], '{"nick":"no"}', (None, None)),
        ([("nick", "string"), ("name", "string")], '{"nick":"no","name":"Cyd"}', ("Cyd", None)),
    ],
)  # fmt: skip
def test_a_field_has_the_name_of_an_alias_where_the_version_has_it(old: Any, text: str, row: Any) -> None:
    wanted = typed({"type": "record", "name": "Own", "fields": ALIASES})
    rows, reasons = decode(decoder_of(typed(of_fields(*old)), wanted), [text.encode()])
    assert (reasons, [(one["title"], one["id"]) for one in rows]) == ([""], [row])


def test_a_version_of_the_same_schema_has_no_aliases() -> None:
    own = typed({"type": "record", "name": "Own", "fields": ALIASES})
    rows, _ = decode(decoder_of(own, own), [b'{"name":"no","number":2}'])
    assert rows == [{"title": None, "id": None}]


def test_an_alias_of_another_meaning() -> None:
    wanted = typed({"type": "record", "name": "Own", "fields": ALIASES})
    with pytest.raises(InvalidSchemaError, match="its field 'name', bytes, cannot be read as string"):
        decoder_of(typed(of_fields(("name", "bytes"))), wanted)


def test_one_field_that_has_several_names_in_a_version() -> None:
    part = {"type": "record", "name": "Part", "fields": ALIASES[:1]}
    wanted = typed(
        {"type": "record", "name": "W", "fields": [{"name": "a", "type": part}, {"name": "b", "type": "Part"}]}
    )
    old = of_fields(
        ("a", of_fields(("name", "string")) | {"name": "A"}), ("b", of_fields(("nick", "string")) | {"name": "B"})
    )
    with pytest.raises(InvalidSchemaError, match=r"its field 'b.title' has several names in its schema"):
        decoder_of(typed(old), wanted)


def test_documents_without_a_version_have_all_aliases_as_further_names() -> None:
    documents = [
        '{"name":"Ann","id":1}',
        '{"id":1,"n\\u00e9e":"Bea"}',
        '{"title":"Cyd","name":"no","number":1}',
        '{"number":1,"name":"no","title":"Dan"}',
        '{"name":"no","title":null,"id":1,"number":2}',
        '{"number":1,"name":{}}',
        "{}",
    ]
    schema = json.dumps({"type": "record", "name": "Own", "fields": ALIASES})
    rows, reasons = decode(JsonDecoder.of_schema(schema), [one.encode() for one in documents])
    assert [row and (row["title"], row["id"]) for row in rows] == [
        ("Ann", 1), ("Bea", 1), ("Cyd", 1), ("Dan", 1), (None, 1), None, (None, None)
    ]  # fmt: skip
    assert reasons == ["", "", "", "", "", "its field 'title' is not text", ""]


LONG = ["null", "long"]


@for_each("aliases", [["a", "b"], ["b", "a"]])
@for_each("nested", [False, True])
def test_of_several_names_the_own_one_counts_and_else_the_first_alias_in_any_order(
    aliases: list[str], nested: bool
) -> None:
    """Even where it is null, or comes after others; a name that does not count is left out, whatever its value is."""
    kind: Any = {"type": "record", "name": "R", "fields": [{"name": "c", "type": LONG, "aliases": aliases}]}
    first, second = aliases
    texts = {
        f'{{"{first}":5,"{second}":6}}': 5,
        f'{{"{second}":6,"{first}":5}}': 5,
        f'{{"{second}":6,"x":{{"c":1}},"{first}":null}}': None,
        f'{{"{first}":null,"{second}":6}}': None,
        f'{{"{second}":6}}': 6,
        f'{{"c":null,"{first}":5}}': None,
        f'{{"{first}":5,"{second}":6,"\\u0063":null}}': None,
        f'{{"{first}":"bad","{second}":[],"c":1}}': 1,
        f'{{ "{second}" : {{"c":2}} , "{first}":3,"{first}":4 }}': 4,
        '{"c":1}': 1,
        "{}": None,
    }
    documents = list(texts)
    if nested:
        # Of items and their record, each has its own names.
        kind["fields"].append(
            {"name": "in", "type": {"type": "array", "items": kind | {"name": "I", "fields": kind["fields"][:1]}}}
        )
        documents = [f'{{"in":[{one}, {one},{{"{second}":8}}],{one[1:]}'.replace(",}", "}") for one in documents]
    rows, reasons = decode(JsonDecoder.of_schema(json.dumps(kind)), [one.encode() for one in documents])
    assert reasons == [""] * len(texts)
    assert [row["c"] for row in rows] == list(texts.values())
    if nested:
        assert [[one["c"] for one in row["in"]] for row in rows] == [[one, one, 8] for one in texts.values()]


@for_each(
    ("text", "reason"),
    [
        ('{"a":1', "it ends inside a field"),
        ('{"a":1,"x":', "it ends inside a field"),
        ('{"a":1,x}', "it is not JSON"),
        ('{"a":1 2}', "it is not JSON"),
        ('{"a":1,"b":"bad","x":[1,]}', "it is not JSON"),
        ('{"a":"bad","b":1}', "its field 'c' is not a long"),
    ],
)
def test_why_a_document_with_aliases_is_not_read(text: str, reason: str) -> None:
    kind = {"type": "record", "name": "R", "fields": [{"name": "c", "type": LONG, "aliases": ["a", "b"]}]}
    rows, reasons = decode(JsonDecoder.of_schema(json.dumps(kind)), [b'{"b":1}', text.encode(), b'{"a":2}'])
    assert (rows, reasons) == ([{"c": 1}, None, {"c": 2}], ["", reason, ""])


def test_very_many_aliases_in_a_document_take_little_time() -> None:
    kind = {"type": "record", "name": "R", "fields": [{"name": "c", "type": LONG, "aliases": ["a", "b"]}]}
    text = '{"a":0' + ',"b":1' * 300_000 + ',"a":2' * 300_000 + "}"
    rows, _ = decode(JsonDecoder.of_schema(json.dumps(kind)), [text.encode()])
    assert rows == [{"c": 2}]


def test_a_field_is_read_once_though_two_claim_it() -> None:
    kind = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": LONG, "aliases": ["a"]} for name in ("b", "c")],
    }
    own = JsonDecoder.of_schema(json.dumps(kind))
    for decoder in own, decoder_of(typed(of_fields(("a", LONG))), typed(kind)):
        assert decode(decoder, [b'{"a":1}']) == ([{"b": 1, "c": None}], [""])  # type: ignore[arg-type]

"""Values by a schema: any schema and value against the decoder, an encoder of the tests' own and fastavro; and what is refused."""

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidRowsError, InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.encode.values.typed_rows import TypedRows
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES
from ledgerfs.messages.values.value_decoder import payloads_of
from tests.support.avro import Model, schemas
from tests.support.each import for_each


def avro(schema: Any, kind: str = "AVRO") -> SchemaInfo:
    return SchemaInfo(kind, json.dumps(schema).encode())


def record(*fields: Any) -> SchemaInfo:
    made = [{"name": name, "type": kind, **(more[0] if more else {})} for name, kind, *more in fields]
    return avro({"type": "record", "name": "R", "fields": made})


def encoded(schema: SchemaInfo, table: pa.Table) -> list[bytes | None]:
    rows = TypedRows.of(table.schema, schema, 1)
    batches = list(rows.all_messages(table.to_batches()))
    assert all(one["schema_version"].to_pylist() == [b"\0\0\0\0\0\0\0\1"] * one.num_rows for one in batches)
    return [payload for one in batches for payload in one["value"].to_pylist()]


def decoded(schema: SchemaInfo, payloads: list[bytes | None]) -> pa.Array:
    array, reasons = decoder_of(schema).decode(*payloads_of(pa.array(payloads, pa.binary())))
    assert reasons.tolist() == [-1 if one is None else 0 for one in payloads]
    return array


@st.composite
def written(draw: Any) -> tuple[Model, list[Any]]:
    model = Model.of(draw(schemas()))
    return model, draw(st.lists(st.none() | model.values(), min_size=1, max_size=8))


@pytest.mark.long
@given(written())
@settings(max_examples=120, deadline=None)
def test_any_values_of_any_schema(made: tuple[Model, list[Any]]) -> None:
    model, values = made
    schema = avro(model.schema)
    kind = decoder_of(schema).type
    rows = [None if one is None else model.in_arrow(one) for one in values]
    # The first is left out again: arrays may be slices.
    table = pa.table({"value": pa.array([rows[0], *rows], kind).slice(1)})
    try:
        payloads = encoded(schema, table)
    except InvalidSchemaError as error:
        assume("is recursive" not in str(error))
        raise
    assert [one is None for one in payloads] == [row is None for row in rows]
    assert decoded(schema, payloads).to_pylist() == rows
    parsed = fastavro.parse_schema(model.schema)
    for payload, row, value in zip(payloads, rows, values, strict=True):
        if payload is not None and row is not None:
            source = BytesIO(payload)
            fastavro.schemaless_reader(source, parsed, None)
            assert source.tell() == len(payload)
            if "decimal" not in schema.data.decode():
                assert payload == model.encode(value)


def is_reported_apart(kind: Any) -> bool:
    """Whether there is no union of several types in it."""
    if isinstance(kind, list):
        return sum(one != "null" for one in kind) < 2 and all(map(is_reported_apart, kind))
    if isinstance(kind, dict):
        parts = [one["type"] for one in kind.get("fields", ())]
        return all(
            map(is_reported_apart, [*parts, *(kind[name] for name in ("items", "values", "type") if name in kind)])
        )
    return True


def same(row: Any, found: Any) -> bool:
    """Whether a value is what was read of it: of decimals a text."""
    if isinstance(row, Decimal):
        return Decimal(found) == row
    if isinstance(row, dict):
        return list(row) == list(found) and all(same(one, found[name]) for name, one in row.items())
    if isinstance(row, list | tuple):
        return len(row) == len(found) and all(map(same, row, found))
    return bool(row == found)


@pytest.mark.long
@given(written())
@settings(max_examples=80, deadline=None)
def test_any_values_of_any_schema_as_json(made: tuple[Model, list[Any]]) -> None:
    model, values = made
    assume(is_reported_apart(model.schema))
    rows = [None if one is None else model.in_arrow(one) for one in values]
    table = pa.table({"value": pa.array([rows[0], *rows], decoder_of(avro(model.schema)).type).slice(1)})
    schema = avro(model.schema, "JSON")
    try:
        payloads = encoded(schema, table)
    except InvalidSchemaError as error:
        assume("is recursive" not in str(error))
        raise
    assert all(payload is None or json.loads(payload) is not None for payload in payloads)
    assert same(rows, decoded(schema, payloads).to_pylist())


LOGICAL = {
    "date": ("int", pa.date32()),
    "time-millis": ("int", pa.time32("ms")),
    "time-micros": ("long", pa.time64("us")),
    "timestamp-millis": ("long", pa.timestamp("ms", "UTC")),
    "timestamp-micros": ("long", pa.timestamp("us", "UTC")),
    "local-timestamp-millis": ("long", pa.timestamp("ms")),
    "local-timestamp-micros": ("long", pa.timestamp("us")),
}


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_logical_types(kind: str) -> None:
    fields: list[Any] = [
        {"name": name.replace("-", "_"), "type": ["null", {"type": of, "logicalType": name}]}
        for name, (of, _) in LOGICAL.items()
    ]
    fields += [
        {"name": "uuid", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "fixed", "name": "P", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}},
    ]  # fmt: skip
    schema = avro({"type": "record", "name": "R", "fields": fields}, kind)
    columns = {
        name.replace("-", "_"): pa.array([1, None, 86_399], pa.int32() if of == "int" else pa.int64()).cast(arrow)
        for name, (of, arrow) in LOGICAL.items()
    }
    columns["uuid"] = pa.array(["00112233-4455-6677-8899-aabbccddeeff"] * 3)
    columns["price"] = pa.array([Decimal("-1.25"), Decimal("0.00"), Decimal("9999999.99")])
    payloads = encoded(schema, pa.table(columns))
    if kind == "AVRO":
        assert decoded(schema, payloads).to_pylist() == pa.table(columns).to_pylist()
        parsed = fastavro.parse_schema(json.loads(schema.data))
        found: list[Any] = [fastavro.schemaless_reader(BytesIO(one or b""), parsed, None) for one in payloads]
        assert [one["price"] for one in found] == columns["price"].to_pylist()
        assert [one["uuid"] for one in found] == [bytes.fromhex("00112233445566778899aabbccddeeff")] * 3
        assert [one["date"] for one in found] == columns["date"].to_pylist()
    else:
        assert json.loads(payloads[0] or b"") == {
            **{name.replace("-", "_"): 1 for name in LOGICAL}, "uuid": columns["uuid"][0].as_py(), "price": "-1.25",
        }  # fmt: skip
        del columns["uuid"], columns["price"]
        rows = decoded(schema, payloads).to_pylist()
        assert [{name: one[name] for name in columns} for one in rows] == pa.table(columns).to_pylist()


def test_json_leaves_out_nulls_and_has_bytes_in_base64() -> None:
    schema = avro(
        {"type": "record", "name": "R", "fields": [
            {"name": "a", "type": ["null", "string"]}, {"name": "b", "type": "bytes"},
            {"name": "é", "type": {"type": "map", "values": "double"}},
            {"name": "items", "type": {"type": "array", "items": ["null", {
                "type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}],
            }]}},
        ]},
        "JSON",
    )  # fmt: skip
    rows = [
        {"a": None, "b": b"\xff", "é": [("x", 1.5)], "items": [{"n": 1}, None]},
        {"a": 'q"\n', "b": b"", "é": [], "items": []},
    ]
    table = pa.table({"value": pa.array([*rows, None], decoder_of(schema).type)})
    payloads = encoded(schema, table)
    assert payloads[:2] == [
        '{"b":"/w==","é":{"x":1.5},"items":[{"n":1},null]}'.encode(),
        '{"a":"q\\"\\n","b":"","é":{},"items":[]}'.encode(),
    ]
    assert payloads[2] is None
    assert decoded(schema, payloads).to_pylist() == [*rows, None]


def test_json_of_maps_with_nulls_and_of_small_decimals() -> None:
    inner = {"type": "record", "name": "I", "fields": [
        {"name": "n", "type": "null"}, {"name": "l", "type": {"type": "array", "items": ["null", "int"]}},
    ]}  # fmt: skip
    price = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 8}
    fields = [
        ("m", {"type": "map", "values": inner}),
        ("k", {"type": "map", "values": {"type": "array", "items": "null"}}),
        ("d", price),
    ]
    schema = avro(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}, "JSON"
    )
    rows = [
        {"m": [("a", {"n": None, "l": [1, None]}), ("b", {"n": None, "l": []})], "k": [("x", [None] * 3)], "d": "0.00000001"},
        {"m": [("c", {"n": None, "l": [3]})], "k": [("y", [None]), ("z", [])], "d": "-1.5"},
    ]  # fmt: skip
    payloads = encoded(schema, pa.table({"value": pa.array(rows, decoder_of(schema).type)}))
    assert payloads == [
        b'{"m":{"a":{"l":[1,null]},"b":{"l":[]}},"k":{"x":[null,null,null]},"d":"0.00000001"}',
        b'{"m":{"c":{"l":[3]}},"k":{"y":[null],"z":[]},"d":"-1.50000000"}',
    ]


def test_records_without_fields_as_parquet_has_them() -> None:
    schema = record(("e", ["null", {"type": "record", "name": "E", "fields": []}]))
    found = decoded(schema, encoded(schema, pa.table({"e": pa.array([True, None])})))
    assert found.to_pylist() == [{"e": {}}, {"e": None}]
    with pytest.raises(InvalidRowsError, match="row 1: its e is false"):
        encoded(schema, pa.table({"e": pa.array([True, False])}))


SAMPLES: dict[str, list[Any]] = {
    "BOOLEAN": [0, 1], "INT8": [-128, 127], "INT16": [-(2**15), 7], "INT32": [-(2**31), 5], "INT64": [-(2**63), 2**63 - 1],
    "DATE": [-1, 10**12], "TIME": [0, 86_399_999], "TIMESTAMP": [-1, 10**12], "INSTANT": [-(2**63), 2**63 - 1], "LOCAL_DATE": [-1, 20_000],
    "LOCAL_TIME": [0, 86_399_999_999_999], "LOCAL_DATE_TIME": [-(2**63), 2**63 - 1],
}  # fmt: skip


@for_each("name", [one for one in PRIMITIVE_TYPES if one != "BYTES"])
def test_primitives(name: str) -> None:
    kind = PRIMITIVE_TYPES[name]
    if name in SAMPLES:
        width = pa.int32() if kind in (pa.date32(), pa.time32("ms")) else pa.int64()
        values = pa.array([*SAMPLES[name], None], width).cast(kind)
    else:
        values = pa.array(["", "é", None] if name == "STRING" else [float("inf"), -0.5, None], kind)
    payloads = encoded(SchemaInfo(name), pa.table({"value": values}))
    assert payloads[2] is None
    assert decoded(SchemaInfo(name), payloads).equals(values)


def test_bytes_of_primitives() -> None:
    def one(name: str, value: Any, kind: pa.DataType) -> bytes | None:
        return encoded(SchemaInfo(name), pa.table({"value": pa.array([value], kind)}))[0]

    assert one("INT32", -2, pa.int64()) == b"\xff\xff\xff\xfe"
    assert one("INSTANT", -1, pa.timestamp("ns", "UTC")) == b"\xff" * 8 + (999_999_999).to_bytes(4, "big")
    assert one("LOCAL_DATE_TIME", -1, pa.timestamp("ns")) == b"\xff" * 8 + (86_400 * 10**9 - 1).to_bytes(8, "big")
    assert one("STRING", "é", pa.large_string()) == "é".encode()


def test_columns_are_fields_in_any_order_with_other_widths_and_defaults() -> None:
    schema = record(
        ("id", "int"), ("name", ["null", "string"]), ("tags", {"type": "array", "items": "string"}), ("key", "string"),
        ("kind", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"default": "B"}),
        ("level", ["int", "null"], {"default": 7}), ("real", "float"), ("raw", "bytes", {"default": "\u00ff"}),
    )  # fmt: skip
    table = pa.table(
        {
            "real": pa.array([1.5, float("nan")], pa.float64()),
            "tags": pa.array([["x"], []], pa.large_list(pa.large_string())),
            "key": ["k", None],
            "value_key": pa.array(["f", "f"]).dictionary_encode(),
            "id": pa.array([1, -1], pa.int64()),
        }
    )
    rows = TypedRows.of(table.schema, schema, 0)
    assert rows.schema.names == ["key", "value", "schema_version"]
    one = decoded(schema, encoded_as(rows, table))[0].as_py()
    assert one == {
        "id": 1, "name": None, "tags": ["x"], "key": "f", "kind": "B", "level": 7, "real": 1.5, "raw": b"\xff",
    }  # fmt: skip


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_columns_as_libraries_have_them(text: pa.DataType) -> None:
    """pandas has categories, Polars large texts and views of texts, both dictionaries of these."""
    schema = record(("a", ["null", "string"]), ("b", ["null", "string"]), ("c", {"type": "array", "items": "string"}))
    values = pa.array(["x", None, "a text that is longer than a view is"], pa.string()).cast(text)
    plain = pa.array(["x", "a text that is longer than a view is"], pa.string()).cast(text)
    categories = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint32()), plain)
    lists = pa.LargeListArray.from_arrays(pa.array([0, 1, 1, 2], pa.int64()), plain)
    table = pa.table({"a": values, "b": categories, "c": lists})
    rows = decoded(schema, encoded(schema, table)).to_pylist()
    assert [one["a"] for one in rows] == [one["b"] for one in rows] == values.to_pylist()
    assert [one["c"] for one in rows] == lists.to_pylist()


def encoded_as(rows: TypedRows, table: pa.Table) -> list[bytes | None]:
    return [payload for one in rows.all_messages(table.to_batches()) for payload in one["value"].to_pylist()]


NESTED = record(
    ("n", "int"), ("e", {"type": "enum", "name": "E", "symbols": ["A"]}), ("f", {"type": "fixed", "name": "F", "size": 2}),
    ("u", ["int", "string"]), ("l", {"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}}),
    ("m", {"type": "map", "values": "float"}), ("t", {"type": "int", "logicalType": "time-millis"}),
    ("d", {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 3, "scale": 0}),
    ("id", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}),
)  # fmt: skip
UNION = pa.struct([("int", pa.int64()), ("string", pa.string())])
GOOD: dict[str, tuple[Any, pa.DataType]] = {
    "n": (1, pa.int64()), "e": ("A", pa.string()), "f": (b"xy", pa.binary()), "u": ({"int": 1, "string": None}, UNION),
    "l": ([{"x": 1}, {"x": 2}], pa.list_(pa.struct([("x", pa.int64())]))), "m": ([("k", 1.0)], pa.map_(pa.string(), pa.float64())),
    "t": (1, pa.time64("us")), "d": (Decimal(-128), pa.decimal128(5, 0)), "id": ("00112233-4455-6677-8899-aabbccddeeff", pa.string()),
}  # fmt: skip
GOOD["t"] = (1000, pa.time64("us"))
BAD: list[tuple[str, Any, str]] = [
    ("n", 2**31, "its n is not a value of int32"),
    ("n", None, "its n is null"),
    ("e", "C", "its e is 'C', which is not a symbol"),
    ("f", b"xyz", "its f is not a value of fixed_size_binary"),
    ("u", {"int": None, "string": None}, "its u is null"),
    ("u", {"int": 1, "string": "x"}, "its u has values for several types"),
    ("u", {"int": 2**40, "string": None}, "its u.int is not a value of int32"),
    ("l", [{"x": 1}, {"x": None}], "its an item of l.x is null"),
    ("l", [{"x": 1}, None], "its an item of l is null"),
    ("m", [("k", None)], "its a value of m is null"),
    ("m", [("k", 0.1)], "its a value of m has more digits than float"),
    ("t", 1, "its t is not a value of time32"),
    ("d", Decimal(128), "its d needs more than the 1 bytes"),
    ("d", Decimal(99_999), "its d is not a value of decimal128"),
    ("id", "no", "its id is not a UUID"),
]


@for_each(("name", "value", "text"), BAD)
def test_a_value_that_the_schema_does_not_take_is_named(name: str, value: Any, text: str) -> None:
    columns = {one: pa.array([good, good, value if one == name else good], kind) for one, (good, kind) in GOOD.items()}
    assert len(encoded(NESTED, pa.table(columns).slice(0, 2))) == 2
    with pytest.raises(InvalidRowsError, match=f"row 2: {text}"):
        encoded(NESTED, pa.table(columns))
    values = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    with pytest.raises(
        InvalidRowsError,
        match=f"row 2: {text.replace('its ', 'its value.') if 'item' not in text and 'its a ' not in text else 'its'}",
    ):
        encoded(NESTED, pa.table({"value": values}))


@for_each(
    ("columns", "text"),
    [
        ({"b": [1]}, "a: is missing, and the schema has no default"),
        ({"a": [1], "c": [1]}, "c: not a message column, and not a field of the record 'R'"),
        ({"key": ["x"], "value_base64": ["x"]}, "value_base64: not a message column"),
        ({"event_time": [1]}, "value: the column is missing, and so are columns of fields"),
        ({"a": [b"x"]}, "a: has the type binary, but the schema has int32"),
        ({"a": [1], "key": ["x"]}, "key: is a message column; the column of the field with this name is 'value_key'"),
        ({"a": [1], "value": [1]}, "value: not a message column, .* the column `value` is the whole value"),
        ({"value": [1]}, "value: has the type int64, but the schema has the record 'R'"),
        ({"value": [{"a": 1, "z": 1}]}, "value.z: the record 'R' has no such field"),
        ({"value": [{"b": 1}]}, "value.a: is missing"),
    ],
)  # fmt: skip
def test_columns_that_the_schema_does_not_take_are_named_without_rows(columns: dict[str, Any], text: str) -> None:
    schema = record(("a", "int"), ("b", ["null", "int"]), ("key", ["null", "string"]))
    with pytest.raises(InvalidRowsError, match=text):
        TypedRows.of(pa.table(columns).schema, schema, 0)


@for_each(
    ("schema", "text"),
    [
        (SchemaInfo("PROTOBUF_NATIVE", b"{}"), "values of type PROTOBUF_NATIVE cannot be written"),
        (SchemaInfo("KEY_VALUE"), "values of type KEY_VALUE cannot be written"),
        (SchemaInfo("BYTES"), "values of type BYTES cannot be written"),
        (SchemaInfo("STRING", b"", {"__charset": "UTF-16"}), "in UTF-8, not in 'UTF-16'"),
        (SchemaInfo("AVRO", b'"int"', {"__AVRO_READ_OFFSET__": "5"}), "foreign bytes"),
        (avro(["int", "string"], "JSON"), "a union of several types cannot be written as JSON"),
        (record(("next", ["null", "R"])), "the type 'R' is recursive"),
    ],
)
def test_schemas_of_which_no_values_are_written(schema: SchemaInfo, text: str) -> None:
    with pytest.raises(InvalidSchemaError, match=text):
        TypedRows.of(pa.schema([("value", pa.null())]), schema, 0)


def test_a_field_named_value_is_value_beside_others_and_value_value_alone() -> None:
    schema = record(("value", ["null", "int"]), ("other", ["null", "int"]))
    whole = pa.array([{"value": 1}], pa.struct([("value", pa.int64())]))
    for columns in (
        {"value_value": [1]},
        {"value": [1], "other": [None]},
        {"value_value": [1], "other": [None]},
        {"value": whole},
    ):
        assert decoded(schema, encoded(schema, pa.table(columns))).to_pylist() == [{"value": 1, "other": None}]
    both = record(("value", ["null", "int"]), ("value_value", ["null", "int"]))
    for columns, values in (({"value_value": [1]}, (None, 1)), ({"value_value_value": [1]}, (1, None))):
        assert decoded(both, encoded(both, pa.table(columns))).to_pylist() == [
            dict(zip(("value", "value_value"), values, strict=True))
        ]
    # A record that is the field is no record that is the value.
    inner = record(("value", ["null", {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]}]))
    assert decoded(inner, encoded(inner, pa.table({"value_value": [{"a": 1}]}))).to_pylist() == [{"value": {"a": 1}}]
    with pytest.raises(InvalidRowsError, match="the column of the field with this name is 'value_value'"):
        encoded(inner, pa.table({"value": [{"a": 1}]}))


@pytest.mark.parametrize("kind", [pa.null(), pa.struct([("value", pa.float64())])], ids=str)
def test_a_column_value_alone_is_the_whole_also_of_a_record_with_such_a_field(kind: pa.DataType) -> None:
    schema = record(("unit", ["null", "string"]), ("value", ["null", "double"]))
    assert encoded(schema, pa.table({"value": pa.nulls(2, kind), "key": ["a", "b"]})) == [None, None]


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.struct([("a", pa.int32())])], ids=str)
def test_a_column_value_that_is_no_whole_value_names_the_field(kind: pa.DataType) -> None:
    schema = record(("unit", ["null", "string"]), ("value", ["null", "double"]))
    with pytest.raises(
        InvalidRowsError,
        match="alone, this column is the whole value, and the column of the field with this name is 'value_value'",
    ):
        encoded(schema, pa.table({"value": pa.nulls(2, kind), "key": ["a", "b"]}))

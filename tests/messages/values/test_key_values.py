"""Pairs of key and value: what is written is read, what lies about its parts is null with a reason."""

import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import InlineDecoder, SeparatedDecoder, message_keys
from tests.support.each import for_each
from tests.support.typed_golden import payloads

RECORD = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}


def schema(key: str, value: str, data: bytes = b"", encoding: str = "INLINE", **more: str) -> SchemaInfo:
    return SchemaInfo(
        "KEY_VALUE", data, {"kv.encoding.type": encoding, "key.schema.type": key, "value.schema.type": value, **more}
    )


def decode(decoder: Any, rows: list[bytes | None]) -> tuple[list[Any], list[str]]:
    array, reasons = decoder.decode(*payloads(pa.array(rows, pa.binary())))
    array.validate(full=True)
    assert array.type == decoder.type == pa.struct([("key", decoder.key.type), ("value", decoder.value.type)])
    return array.to_pylist(), [decoder.explain(one) if one else "" for one in reasons.tolist()]


def part(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


@given(
    st.lists(
        st.none() | st.tuples(st.none() | st.text(max_size=4), st.none() | st.integers(-(2**31), 2**31 - 1)), max_size=6
    )
)
@settings(max_examples=50, deadline=None)
def test_inline(pairs: list[tuple[str | None, int | None] | None]) -> None:
    rows = [
        None
        if one is None
        else part(None if one[0] is None else one[0].encode())
        + part(None if one[1] is None else struct.pack(">i", one[1]))
        for one in pairs
    ]
    found, reasons = decode(decoder_of(schema("STRING", "INT32")), rows)
    assert found == [None if one is None else {"key": one[0], "value": one[1]} for one in pairs]
    assert reasons == ["it has no value" if one is None else "" for one in pairs]


@given(st.lists(st.tuples(st.none() | st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=6))
@settings(max_examples=50, deadline=None)
def test_separated(pairs: list[tuple[str | None, bytes | None]]) -> None:
    decoder = decoder_of(schema("STRING", "BYTES", encoding="SEPARATED"))
    assert isinstance(decoder, SeparatedDecoder)
    keys = pa.array([None if key is None else key.encode() for key, _ in pairs], pa.binary())
    values = [value for _, value in pairs]
    found, reasons = decode(decoder.with_keys(keys), values)
    assert found == [{"key": key, "value": value} for key, value in pairs]
    assert not any(reasons)
    assert decode(decoder, values)[0] == [{"key": None, "value": value} for _, value in pairs]


LIES = "the sizes of its key and value do not match its length"
BAD = {
    "nothing": (b"", LIES),
    "half a size": (b"\0\0\0", LIES),
    "no value": (part(b"a"), LIES),
    "half a size of the value": (part(b"a") + b"\0\0\0", LIES),
    "a key that is longer": (struct.pack(">i", 2) + b"a" + part(None), LIES),
    "a key as long as all": (struct.pack(">i", 9) + b"a" + part(None), LIES),
    "a value that is longer": (part(b"a") + struct.pack(">i", 2) + b"b", LIES),
    "more than a value": (part(b"a") + part(b"\0\0\0\7") + b"c", "bytes follow after its last field"),
    "more than null": (part(None) + part(None) + b"c", "bytes follow after its last field"),
    "a bad value": (part(b"a") + part(b"b"), "in its value: it has another size than values of its type"),
    **{
        f"sizes of {size}": (struct.pack(">i", size) + b"a" + struct.pack(">i", size) + b"b", LIES)
        for size in (-2, -(2**31), 2**31 - 1, 2**31 - 4)
    },
}


@for_each("case", BAD)
def test_a_pair_that_lies_is_null_with_a_reason(case: str) -> None:
    payload, reason = BAD[case]
    good = part(b"k") + part(struct.pack(">i", 5))
    found, reasons = decode(decoder_of(schema("STRING", "INT32")), [good, payload, None, good, payload])
    pair = {"key": "k", "value": 5}
    assert found == [pair, None, None, pair, None]
    assert reasons == ["", reason, "it has no value", "", reason]


def test_a_bad_key_is_reported_from_a_bad_value() -> None:
    decoder = decoder_of(schema("INT32", "INT32", encoding="SEPARATED"))
    assert isinstance(decoder, SeparatedDecoder)
    keys = pa.array([b"\0\0\0\1", b"x", b"\0\0\0\1", b"x"])
    found, reasons = decode(decoder.with_keys(keys), [b"\0\0\0\2", b"\0\0\0\2", b"y", b"y"])
    assert found == [{"key": 1, "value": 2}, None, None, None]
    size = "it has another size than values of its type"
    assert reasons == ["", f"in its key: {size}", f"in its value: {size}", f"in its key: {size}"]


def test_parts_are_read_by_the_reader_s() -> None:
    wide = {**RECORD, "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "string", "default": "d"}]}
    writer = schema("STRING", "AVRO", json.dumps({"key": "", "value": RECORD}).encode())
    reader = schema("STRING", "AVRO", json.dumps({"key": "", "value": wide}).encode(), encoding="SEPARATED")
    decoder = decoder_of(writer, reader)
    assert isinstance(decoder, InlineDecoder)  # as they were written
    assert decode(decoder, [part(b"k") + part(b"\x06")])[0] == [{"key": "k", "value": {"x": 3.0, "y": "d"}}]
    with pytest.raises(InvalidSchemaError):
        decoder_of(writer, schema("INT32", "AVRO", json.dumps({"key": "", "value": RECORD}).encode()))


def test_keys_of_messages_are_text_or_bytes() -> None:
    batch = pa.record_batch({"key": ["é", None, None], "key_bytes": pa.array([None, b"\xff", None], pa.binary())})
    assert message_keys(batch).to_pylist() == ["é".encode(), b"\xff", None]


@pytest.mark.parametrize("text", ['"string"', '["null","int"]', json.dumps(RECORD)])
def test_schemas_of_parts_in_both_forms(text: str) -> None:
    data = json.dumps({"key": json.loads(text), "value": ""}).encode()
    counted = struct.pack(">i", len(text)) + text.encode() + struct.pack(">i", 0)
    for form in (data, counted, json.dumps({"key": text, "value": ""}).encode()):
        parts = key_value_schema(schema("AVRO", "INT64", form))
        assert json.loads(parts.key.data) == json.loads(text)
        assert (parts.value.type, parts.value.data, parts.is_separated) == ("INT64", b"", False)


@for_each(
    "wrong",
    [
        {"data": b"{"},
        {"data": b"{}"},
        {"data": b'{"key": ' + b"[" * 100_000},
        {"data": b"\0\0\0"},
        {"data": b"\0\0\0\5abc"},
        {"data": b"\0\0\0\0"},
        {"data": b"\xff\xff\xff\xfe" * 2},
        {"data": bytes(9)},
        {"key": "FLOATS"},
        {"value": "KEY_VALUE"},
        {"key.schema.properties": "{"},
        {"key.schema.properties": '{"a":' * 100_000},
    ],
)  # fmt: skip
def test_a_schema_of_no_pair_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchemaError):
        decoder_of(schema(**{"key": "STRING", "value": "INT32", **wrong}))


def test_properties_of_parts() -> None:
    own = json.dumps({"__charset": "UTF-16", "n": 5})
    parts = key_value_schema(
        schema("STRING", "BYTES", **{"key.schema.properties": own, "value.schema.properties": "[]"})
    )
    assert parts.key.properties == {"__charset": "UTF-16", "n": "5"}
    assert parts.value.properties == {}
    assert parts.key.charset == "UTF-16"
    row = part("é".encode("utf-16")) + part(b"v")
    assert decode(decoder_of(schema("STRING", "BYTES", **{"key.schema.properties": own})), [row])[0] == [
        {"key": "é", "value": b"v"}
    ]


@for_each("offset", ["-1", "x", "", "1e3", "²", "9" * 12])
def test_an_offset_that_is_no_number_is_refused(offset: str) -> None:
    with pytest.raises(InvalidSchemaError):
        decoder_of(SchemaInfo("AVRO", b'"int"', {"__AVRO_READ_OFFSET__": offset}))

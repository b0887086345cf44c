"""Schemas as brokers are told them: in text that they make the stored bytes of."""

import hashlib
import json
import struct

import pytest

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs_cluster.formats.stored_schema import has_hash, is_as_registered, reported_text
from tests.support.each import for_each

VALUE = b'{"type":"record","name":"R","fields":[{"name":"d","type":"double","default":1.50}]}'
PROPERTIES = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}


def stored(key: bytes, value: bytes) -> SchemaInfo:
    data = b"".join(struct.pack(">i", len(one)) + one for one in (key, value))
    return SchemaInfo("KEY_VALUE", data, PROPERTIES)


@pytest.mark.parametrize("key", [b"", b"null"])
def test_a_pair_is_reported_with_its_parts_as_they_are_written(key: bytes) -> None:
    text = reported_text(stored(key, VALUE))
    assert text == '{"key":"","value":' + VALUE.decode() + "}"
    assert reported_text(SchemaInfo("KEY_VALUE", text.encode(), PROPERTIES)).startswith('{"key":"","value":{"type"')


@for_each(
    "schema", [SchemaInfo("STRING"), SchemaInfo("STRING", b"null"), SchemaInfo("AVRO", VALUE), SchemaInfo("INT64")]
)
def test_others_are_reported_as_they_are(schema: SchemaInfo) -> None:
    assert reported_text(schema) == schema.data.decode()


@for_each(
    "schema",
    [
        SchemaInfo("NONE", unreadable="lost"),
        SchemaInfo("NONE"),
        SchemaInfo("BYTES"),
        SchemaInfo("WRONG"),
        SchemaInfo("AVRO", b"\xff"),
        SchemaInfo("KEY_VALUE", b"\0\0\0\x09x"),
        stored(b"", b"{"),
        stored(b"", b"[" * 100_000),
        stored(b"", b"\xff"),
    ],
)
def test_what_no_broker_takes_is_refused(schema: SchemaInfo) -> None:
    with pytest.raises(InvalidSchemaError):
        reported_text(schema)


def test_the_hash_of_a_pair_is_that_of_its_stored_form() -> None:
    pair = stored(b"", VALUE.replace(b"1.50", b"1.5"))
    wanted = hashlib.sha256(pair.data).digest()
    reported = SchemaInfo(
        "KEY_VALUE", json.dumps({"key": "", "value": json.loads(VALUE)}, indent=1).encode(), PROPERTIES
    )
    assert has_hash(pair, wanted)
    assert has_hash(reported, wanted)
    assert not has_hash(SchemaInfo("KEY_VALUE", reported.data.replace(b'"R"', b'"S"'), PROPERTIES), wanted)
    assert not has_hash(SchemaInfo("KEY_VALUE", b"\0", PROPERTIES), wanted)
    assert not has_hash(SchemaInfo("AVRO", VALUE), wanted)


def test_properties_are_a_part_of_what_is_registered() -> None:
    one = SchemaInfo("AVRO", VALUE, {"a": "b"})
    assert is_as_registered(one, SchemaInfo("AVRO", json.dumps(json.loads(VALUE)).encode(), {"a": "b"}))
    assert not is_as_registered(one, SchemaInfo("AVRO", VALUE))
    assert not is_as_registered(one, SchemaInfo("JSON", VALUE, {"a": "b"}))
    assert key_value_schema(stored(b"", VALUE)).value.data == VALUE

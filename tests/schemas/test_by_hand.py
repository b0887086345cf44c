"""Schemas that a user gives: as good as those of a cluster, or an error that says what is wrong with them."""

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from ledgerfs.errors import InvalidOptionError, InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.formats.schemas.described import definition_of, fields_of
from ledgerfs.formats.schemas.protobuf_files import native_schema_data, read_native_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.schemas.by_hand import PLAIN_TYPES, key_value_by_hand, schema_by_hand
from tests.support.each import for_each

AVSC = """{"type":"record","name":"Order","fields":[
{"name":"id","type":"long"},{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}}]}"""
PROTO = """
syntax = "proto3";
package shop;
import "part.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; repeated Part parts = 2; google.protobuf.Timestamp at = 3; map<string, int32> counts = 4;
  message Inner { bool b = 1; }
}
"""


@pytest.fixture
def avsc(tmp_path: Path) -> Path:
    (tmp_path / "order.avsc").write_text(AVSC)
    return tmp_path / "order.avsc"


@pytest.fixture
def proto(tmp_path: Path) -> Path:
    (tmp_path / "part.proto").write_text('syntax = "proto3"; package shop; message Part { string name = 1; }')
    (tmp_path / "order.proto").write_text(PROTO)
    return tmp_path / "order.proto"


def test_avro_and_json_by_a_file(avsc: Path) -> None:
    found = schema_by_hand(None, avsc, properties={"__AVRO_READ_OFFSET__": "5"})
    assert (found.type, found.data, found.avro_offset) == ("AVRO", AVSC.encode(), 5)
    assert schema_by_hand("json", avsc) == SchemaInfo("JSON", AVSC.encode())
    assert fields_of(found) == ["id: long", "at: timestamp-millis"]
    assert definition_of(found) == json.loads(AVSC)


@for_each("name", PLAIN_TYPES)
def test_types_that_need_no_file(name: str) -> None:
    assert schema_by_hand(name.lower()) == SchemaInfo(name)
    assert fields_of(SchemaInfo(name)) == []
    assert definition_of(SchemaInfo(name)) is None


@pytest.mark.process
def test_protobuf_by_its_source_or_by_descriptors(proto: Path, tmp_path: Path) -> None:
    found = schema_by_hand(None, proto, "shop.Order")
    assert found.type == "PROTOBUF_NATIVE"
    assert fields_of(found) == ["id: int64", "parts: repeated Part", "at: Timestamp", "counts: repeated CountsEntry"]
    files, message = read_native_schema(found.data)
    assert message.name == "Order"
    assert json.loads(found.data)["rootFileDescriptorName"] == "order.proto"
    (tmp_path / "order.desc").write_bytes(files.SerializeToString())
    assert (
        read_native_schema(schema_by_hand(None, tmp_path / "order.desc", ".shop.Order.Inner").data)[1].name == "Inner"
    )
    with pytest.raises(
        InvalidSchemaError,
        match=r"the file defines several messages; choose one with --message: shop\.Part, shop\.Order, shop\.Order\.Inner",
    ):
        schema_by_hand(None, tmp_path / "order.desc")
    with pytest.raises(
        InvalidSchemaError, match=r"order\.desc: the file has no message 'Order'; choose one with --message"
    ):
        schema_by_hand(None, tmp_path / "order.desc", "Order")
    del files.file[0]
    (tmp_path / "less.desc").write_bytes(files.SerializeToString())
    with pytest.raises(InvalidSchemaError, match="--include_imports"):
        schema_by_hand(None, tmp_path / "less.desc", "shop.Order")


def test_the_only_message_needs_no_name_and_golden_schemas_are_read(golden_typed: Path) -> None:
    for file in (golden_typed / "schemas").glob("*protonative*.json"):
        body = json.loads(file.read_text())["responses"]
        for one in json.loads(next(iter(body.values()))["body"])["getSchemaResponses"]:
            info = SchemaInfo(one["type"], one["data"].encode(), one["properties"])
            assert fields_of(info)
            if info.type == "PROTOBUF_NATIVE":
                files, message = read_native_schema(info.data)
                again = native_schema_data(files.SerializeToString(), json.loads(info.data)["rootMessageTypeName"])
                assert read_native_schema(again) == (files, message)
    alone = FileDescriptorSet()
    alone.file.add(name="a.proto", package="a").message_type.add(name="Only")
    assert json.loads(native_schema_data(alone.SerializeToString(), None))["rootMessageTypeName"] == "a.Only"


@pytest.mark.process
def test_protobuf_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "wrong.proto").write_text("message {")
    with pytest.raises(InvalidSchemaError, match=r"protoc rejects the file: [^ ]*wrong\.proto:1:9"):
        schema_by_hand(None, tmp_path / "wrong.proto")
    (tmp_path / "empty.desc").write_bytes(b"")
    with pytest.raises(InvalidSchemaError, match=r"empty\.desc: the file defines no message"):
        schema_by_hand(None, tmp_path / "empty.desc")
    (tmp_path / "wrong.desc").write_bytes(b"\xff\xff")
    with pytest.raises(InvalidSchemaError, match=r"wrong\.desc: not a set of file descriptors"):
        schema_by_hand(None, tmp_path / "wrong.desc")
    circle = FileDescriptorSet()
    for name, other in (("a", "b"), ("b", "a")):
        circle.file.add(name=name, dependency=[other])
    with pytest.raises(InvalidSchemaError, match="circle"):
        native_schema_data(circle.SerializeToString(), "x")
    for data in (
        b"",
        b"{}",
        b'{"fileDescriptorSet": "%", "rootMessageTypeName": "x"}',
        b'{"fileDescriptorSet": "", "rootMessageTypeName": "x"}',
    ):
        with pytest.raises(InvalidSchemaError):
            read_native_schema(data)


def test_without_protoc_is_said_how(proto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.schemas.by_hand._protoc", list)
    with pytest.raises(InvalidOptionError, match="protoc --include_imports"):
        schema_by_hand(None, proto, "shop.Order")


def test_pairs(avsc: Path) -> None:
    made = key_value_by_hand(
        schema_by_hand("int32"), schema_by_hand(None, avsc, properties={"x": "y"}), is_separated=True
    )
    parts = key_value_schema(made)
    assert (parts.key, parts.is_separated) == (SchemaInfo("INT32"), True)
    assert (parts.value.type, parts.value.properties) == ("AVRO", {"x": "y"})
    assert parse_avro_schema(parts.value.data) == parse_avro_schema(AVSC)
    assert fields_of(made) == ["key: INT32", "value: AVRO (id: long, at: timestamp-millis)"]
    assert definition_of(made)["encoding"] == "SEPARATED"
    assert not key_value_schema(key_value_by_hand(parts.value, parts.key, is_separated=False)).is_separated


def test_what_is_no_schema_is_said_so(avsc: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.avsc"
    for text in ("", "hello", '{"type":"record"}'):
        wrong.write_text(text)
        with pytest.raises(InvalidSchemaError, match=r"wrong\.avsc"):
            schema_by_hand(None, wrong)
    for given, what in (
        ((None,), "expected a file"),
        (("avro",), "needs a file"),
        (("int64", avsc), "needs no file"),
        (("int63",), "did you mean int64"),
        (("none",), "no such type.*are bytes anyway"),
        (("key_value",), "no such type.*--key"),
        (("protobuf",), "no such type.*use protobuf_native"),
        ((None, avsc, "shop.Order"), "--message"),
        ((None, tmp_path / "nothing.avsc"), "No such file"),
        ((None, tmp_path), "cannot be read"),
    ):
        with pytest.raises(InvalidOptionError, match=what):
            schema_by_hand(*given)
    with pytest.raises(InvalidSchemaError, match="unknown character set 'klingon'"):
        schema_by_hand("string", properties={"__charset": "klingon"})
    with pytest.raises(InvalidSchemaError, match="'five', expected a number of bytes"):
        schema_by_hand(None, avsc, properties={"__AVRO_READ_OFFSET__": "five"})

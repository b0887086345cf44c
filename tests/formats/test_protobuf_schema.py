"""Protobuf schemas: what they say of messages, and what is none."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.protobuf_schema import EnumType, Field, Kind, Message, descriptor_schema, protobuf_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.protobuf_values import ProtobufDecoder
from tests.support.each import for_each
from tests.support.protobuf import Model, models

P = FieldDescriptorProto


def legacy() -> FileDescriptorProto:
    """A proto2 file with all that proto3 does not have."""
    made = FileDescriptorProto(name="legacy.proto", package="old", syntax="proto2", dependency=["base.proto"])
    message = made.message_type.add(name="Legacy")
    message.field.add(name="id", number=1, type=P.TYPE_SINT32, label=P.LABEL_REQUIRED)
    message.field.add(name="level", number=3, type=P.TYPE_ENUM, type_name=".base.Level", default_value="TOP", label=1)
    packed = message.field.add(name="packed", number=2, type=P.TYPE_BOOL, label=P.LABEL_REPEATED)
    packed.options.packed = True
    message.field.add(name="pair", number=9, type=P.TYPE_GROUP, type_name=".old.Legacy.Pair", label=P.LABEL_REPEATED)
    message.nested_type.add(name="Pair").field.add(name="up", number=1, type=11, type_name=".old.Legacy", label=1)
    message.oneof_decl.add(name="choice")
    message.field.add(name="tag", number=4, type=P.TYPE_BYTES, default_value="\\001\\377", oneof_index=0, label=1)
    return made


def base() -> FileDescriptorProto:
    made = FileDescriptorProto(name="base.proto", package="base", syntax="proto2")
    level = made.enum_type.add(name="Level")
    level.options.allow_alias = True
    for number, name in ((5, "TOP"), (1, "LOW"), (5, "HIGH")):
        level.value.add(name=name, number=number)
    return made


def a_set(*files: FileDescriptorProto) -> bytes:
    return FileDescriptorSet(file=files).SerializeToString()


def native(files: bytes, root: Any, **parts: Any) -> SchemaInfo:
    text = {"fileDescriptorSet": base64.b64encode(files).decode(), "rootMessageTypeName": root, **parts}
    return SchemaInfo("PROTOBUF_NATIVE", json.dumps(text).encode())


def test_a_set_whose_files_come_before_what_they_import() -> None:
    schema = protobuf_schema(native(a_set(legacy(), base()), "old.Legacy", rootFileDescriptorName="legacy.proto"))
    assert schema == descriptor_schema(FileDescriptorSet(file=[base(), legacy()]), "old.Legacy")
    assert schema.root == "old.Legacy"
    level = EnumType("base.Level", (1, 5), ("LOW", "TOP"), is_closed=True)
    fields = (
        Field("id", 1, Kind.SINT32, has_presence=True),
        Field("level", 3, Kind.ENUM, has_presence=True, enum=level, default=5),
        Field("packed", 2, Kind.BOOL, is_repeated=True),
        Field("pair", 9, Kind.GROUP, is_repeated=True, message="old.Legacy.Pair"),
        Field("tag", 4, Kind.BYTES, has_presence=True, oneof="choice", default=b"\x01\xff"),
    )
    pair = Field("up", 1, Kind.MESSAGE, has_presence=True, message="old.Legacy")
    assert schema.messages == {
        "old.Legacy": Message("old.Legacy", fields),
        "old.Legacy.Pair": Message("old.Legacy.Pair", (pair,)),
    }


def test_versions_with_the_same_names_do_not_meet() -> None:
    kinds = []
    for kind in (P.TYPE_INT32, P.TYPE_STRING):
        made = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
        made.message_type.add(name="M").field.add(name="x", number=1, type=kind, label=P.LABEL_OPTIONAL)
        kinds.append(protobuf_schema(native(a_set(made), "p.M")).messages["p.M"].fields[0])
    assert kinds == [Field("x", 1, Kind.INT32), Field("x", 1, Kind.STRING)]


def a_ring() -> bytes:
    files = [FileDescriptorProto(name=f"{one}.proto", dependency=[f"{(one + 1) % 3}.proto"]) for one in range(3)]
    return a_set(*files)


def twice() -> bytes:
    made = base()
    made.message_type.add(name="Level")
    return a_set(made)


def a_map(*fields: tuple[str, int], label: int = P.LABEL_OPTIONAL) -> bytes:
    made = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    message = made.message_type.add(name="M")
    entry = message.nested_type.add(name="FEntry")
    entry.options.map_entry = True
    for name, number in fields:
        entry.field.add(name=name, number=number, type=P.TYPE_INT32, label=label)
    message.field.add(name="f", number=1, label=P.LABEL_REPEATED, type=P.TYPE_MESSAGE, type_name=".p.M.FEntry")
    return a_set(made)


def test_entries_of_a_map_have_the_key_first() -> None:
    entry = protobuf_schema(native(a_map(("value", 2), ("key", 1)), "p.M")).messages["p.M.FEntry"]
    assert [one.name for one in entry.fields] == ["key", "value"]


@for_each(
    ("info", "why"),
    [
        (native(b"\xff\xff", "old.Legacy"), "JSON with a set"),
        (native(a_set(legacy()), "old.Legacy"), "lacks 'base.proto'"),
        (native(a_set(legacy(), base()), "old.Other"), "no message 'old.Other'"),
        (native(a_set(legacy(), base()), ""), "no message ''"),
        (native(a_set(legacy(), base()), "base.Level"), "no message"),
        (native(b"", "old.Legacy"), "no message"),
        (native(a_set(legacy(), base()), None), "does not contain the name of its message"),
        (native(a_set(legacy(), base()), "old.Legacy", fileDescriptorSet="%%%"), "JSON with a set"),
        (native(a_set(legacy(), base()), "old.Legacy", fileDescriptorSet=7), "JSON with a set"),
        (native(a_ring(), "x"), "import each other"),
        (native(twice(), "base.Level"), "not consistent"),
        (native(a_set(base(), FileDescriptorProto(name="base.proto")), "x"), "two files 'base.proto'"),
        (native(a_map(("a", 1), ("b", 2)), "p.M"), "does not have one key and one value"),
        (native(a_map(("key", 1), ("value", 3)), "p.M"), "does not have one key and one value"),
        (native(a_map(("key", 2), ("value", 1)), "p.M"), "does not have one key and one value"),
        (native(a_map(("key", 1), ("value", 2), label=P.LABEL_REPEATED), "p.M"), "not consistent"),
        (native(a_map(("key", 1)), "p.M"), "not consistent"),
        (SchemaInfo("PROTOBUF_NATIVE", b""), "JSON with"),
        (SchemaInfo("PROTOBUF_NATIVE", b"[" * 100_000), "JSON with"),
        (SchemaInfo("PROTOBUF_NATIVE", b'"text"'), "JSON with"),
        (SchemaInfo("PROTOBUF", b'{"name": "M"}'), "lacks the property __PARSING_INFO__"),
    ],
)
def test_schemas_that_are_none(info: SchemaInfo, why: str) -> None:
    with pytest.raises(InvalidSchemaError, match=why):
        protobuf_schema(info)


@given(models(), st.data())
@settings(max_examples=70, deadline=None)
def test_damaged_sets_are_errors_by_name(model: Model, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(model.files) - 1))
    damaged = model.files[:at] + data.draw(st.binary(max_size=2)) + model.files[at + data.draw(st.integers(0, 2)) :]
    try:
        schema = protobuf_schema(native(damaged, model.root))
    except InvalidSchemaError:
        return
    assert schema.root == model.root
    assert pa.types.is_struct(ProtobufDecoder.of(schema).type)
    assert all(one.message in {None, *schema.messages} for kind in schema.messages.values() for one in kind.fields)


def old(listed: Any, data: bytes = b'{"name": "Event", "type": "record", "fields": []}') -> SchemaInfo:
    return SchemaInfo("PROTOBUF", data, {"__PARSING_INFO__": listed if isinstance(listed, str) else json.dumps(listed)})


def listed(number: Any = 1, name: Any = "x", kind: str = "INT64", label: str = "LABEL_OPTIONAL") -> dict[str, Any]:
    return {"number": number, "name": name, "type": kind, "label": label, "definition": None}


def test_the_fields_that_an_old_schema_lists() -> None:
    schema = protobuf_schema(
        old([listed(3), listed(1, "many", "MESSAGE", "LABEL_REPEATED"), listed(2, "y", "SINT32", "LABEL_REQUIRED")])
    )
    fields = (
        Field("x", 3, Kind.INT64, has_presence=True),
        Field("many", 1, Kind.MESSAGE, is_repeated=True),
        Field("y", 2, Kind.SINT32, has_presence=True),
    )
    assert schema.messages == {"Event": Message("Event", fields)}
    assert schema.root == "Event"
    (cut,) = protobuf_schema(old([listed(name="a\0b")])).messages["Event"].fields
    assert cut.name == "a\ufffdb"  # at a NUL other libraries end names
    assert protobuf_schema(old([], b"")).messages == {"": Message("", ())}


@for_each(
    "wrong",
    [
        "no JSON", "7", "[7]", '[{"number": 1}]', '{"a": 1}', [listed(0)], [listed(1 << 29)], [listed(True)], [listed("1")],
        [listed(1.0)], [listed(name=7)], [listed(kind="INT128")], [listed(1), listed(1, "y")], [listed(1), listed(2)],
    ],
)  # fmt: skip
def test_lists_of_fields_that_are_none(wrong: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="the PROTOBUF schema"):
        protobuf_schema(old(wrong))

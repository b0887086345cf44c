"""Objects of saved schemas: what is in them comes back, and what is no such object is an error by name."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptSchemaFileError, UnsupportedFormatError
from ledgerfs.formats.schemas.saved_schema import (
    dump_schema,
    is_saved_name,
    is_saved_schema,
    is_schemas_folder,
    parse_schema,
    saved_name,
    topic_folder,
)
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import schema_owner
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"
VERSION = SchemaVersion(3, SchemaInfo("AVRO", b'"long"', {"a": "b"}), 1_700_000_000_000, source="http://x", saved_ms=5)

versions = st.builds(
    SchemaVersion,
    st.integers(-1, 2**63 - 1),
    st.builds(SchemaInfo, st.text(), st.binary(), st.dictionaries(st.text(), st.text(), max_size=3)),
    st.none() | st.integers(0, 2**53),
    st.booleans(),
    st.sampled_from(["", "http://broker", BY_HAND]),
    st.none() | st.integers(0, 2**53),
).filter(lambda one: one.version >= 0 or one.is_by_hand)


@given(versions, st.text())
def test_a_version_comes_back_as_it_was_saved(version: SchemaVersion, topic: str) -> None:
    name = saved_name(topic, version)
    assert is_saved_name(name)
    assert parse_schema(dump_schema(topic, version), f"folder/{name}") == (topic, version)


def test_the_name_is_the_same_for_whoever_saves_it_and_another_for_another_schema() -> None:
    name = saved_name(TOPIC, VERSION)
    assert name.startswith("3-")
    assert saved_name(TOPIC, replace(VERSION, source="http://y", saved_ms=6)) == name
    others = [
        replace(VERSION, timestamp_ms=1),
        replace(VERSION, version=4),
        replace(VERSION, schema=SchemaInfo("JSON", b'"long"', {"a": "b"})),
        replace(VERSION, schema=SchemaInfo("AVRO", b'"int"', {"a": "b"})),
        replace(VERSION, schema=SchemaInfo("AVRO", b'"long"')),
        replace(VERSION, is_deletion=True),
        replace(VERSION, source=BY_HAND),
        replace(VERSION, source=BY_HAND, saved_ms=6),
    ]
    assert len({name, saved_name("other", VERSION), *(saved_name(TOPIC, one) for one in others)}) == 10
    assert saved_name(TOPIC, replace(VERSION, version=ANY_VERSION)).startswith("any-")


def saved(**changes: object) -> bytes:
    return json.dumps({**json.loads(dump_schema(TOPIC, VERSION)), **changes}).encode()


@for_each(
    "data",
    [b"", dump_schema(TOPIC, VERSION)[:-20], b"[" * 100_000, b"\xff", b"[]", b"{}", saved(format="other"), saved(version="3"),
     saved(version=True), saved(type=None), saved(properties=[]), saved(properties={"a": 1}), saved(data=3), saved(registered_ms=1.5),
     saved(deletion=0), saved(topic=None), saved(data='"int"'), saved(version=4), saved(registered_ms=7), saved(topic="persistent://a/b/c")],
)  # fmt: skip
def test_what_is_torn_or_foreign_or_changed_is_named(data: bytes) -> None:
    key = f"_ledgerfs/schemas/public/default/orders/{saved_name(TOPIC, VERSION)}"
    with pytest.raises(CorruptSchemaFileError) as caught:
        parse_schema(data, key)
    assert caught.value.key == key


def test_base64_that_is_none_is_named() -> None:
    document = json.loads(dump_schema(TOPIC, VERSION))
    del document["data"]
    for wrong in ({}, {"data_base64": "%"}, {"data_base64": 3}):
        with pytest.raises(CorruptSchemaFileError):
            parse_schema(json.dumps({**document, **wrong}).encode(), saved_name(TOPIC, VERSION))


def test_of_a_newer_ledgerfs_is_said_so() -> None:
    with pytest.raises(UnsupportedFormatError, match="saved in format 2; this version of ledgerfs reads 1"):
        parse_schema(saved(format_version=2), "x")


def test_folders_of_topics() -> None:
    assert topic_folder(schema_owner("public/default/orders")) == "public/default/orders/"
    assert topic_folder(schema_owner("persistent://t/n/å b+1-partition-7")) == "t/n/%C3%A5+b%2B1/"
    assert topic_folder(schema_owner("persistent://t/c/n/a/b")) == "t/c%2Fn/a%2Fb/"
    assert topic_folder(schema_owner("persistent://t/n/..")) == "t/n/%2E%2E/"
    long, other = (topic_folder(schema_owner("t/n/" + "x" * 900 + end)).split("/")[2] for end in "ab")
    assert len(long) == len(other) < 250
    assert long != other


def test_own_keys_and_others() -> None:
    name = saved_name(TOPIC, VERSION)
    assert is_saved_schema(f"_ledgerfs/schemas/public/default/orders/{name}")
    for other in (
        name,
        f"x/_ledgerfs/schemas/{name}",
        "_ledgerfs/schemas/notes.json",
        f"_ledgerfs/state/{name}",
        f"_ledgerfs/schemas/{name}/data",
    ):
        assert not is_saved_schema(other), other
    for folder in ("_ledgerfs/", "_ledgerfs/schemas/", "_ledgerfs/schemas/public/"):
        assert is_schemas_folder(folder)
    for folder in ("_ledgerfs", "_ledger/", "_ledgerfs/state/", "", "/"):
        assert not is_schemas_folder(folder), folder

"""Schemas of ZooKeeper and BookKeeper: the golden ones are what the admin API told of them, also of those that are deleted."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError, UnsupportedFormatError
from ledgerfs.formats.schemas.schema_info import TYPE_NUMBERS, SchemaInfo, SchemaVersion, key_value_schema
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.proto.metadata_pb2 import SchemaEntryRecord
from ledgerfs_cluster.formats.stored_schema import StoredVersion, locator_path, parse_locator, parse_stored_schema
from tests.cluster.support.encoders import build_locator, build_stored_schema
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
KEY = "/schemas/public/default/orders"
ENTRY = "entry 5:0"

ids = st.integers(0, MAX_INT64)
text = st.text(st.characters(codec="utf-8"), max_size=8)
stored = st.builds(StoredVersion, ids, st.builds(Position, ids, ids), st.binary(max_size=32))
locators = st.lists(stored, min_size=1, max_size=4, unique_by=lambda one: one.version)
schemas = st.builds(
    SchemaVersion,
    version=ids,
    schema=st.builds(
        SchemaInfo,
        st.sampled_from(sorted(TYPE_NUMBERS)),
        st.binary(max_size=20),
        st.dictionaries(text, text, max_size=3),
    ),
    timestamp_ms=st.none() | st.integers(1, MAX_INT64),
    is_deletion=st.booleans(),
)


class Stored:
    """A topic's golden locator and entries, and what the admin API told of it."""

    def __init__(self, folder: Path, path: str, locator: dict[str, Any]) -> None:
        self.path = path
        self.data = base64.b64decode(locator["locator"])
        self.entries = {place: base64.b64decode(data) for place, data in locator["entries"].items()}
        self._answers = folder / "schemas"

    @property
    def versions(self) -> list[tuple[StoredVersion, SchemaVersion]]:
        """All versions with what BookKeeper has of them."""
        places = parse_locator(self.data, key=self.path)
        return [
            (one, parse_stored_schema(self.entries["{}:{}".format(*one.position)], key=self.path, version=one.version))
            for one in places
        ]

    def reported(self) -> dict[str, Any] | None:
        """Return the answers, with which of them were given when; None for topics of the broker's own."""
        for one in self._answers.glob("public*.json"):
            answers: dict[str, Any] = json.loads(one.read_text())
            if locator_path(answers["topic"]) == self.path:
                return answers
        return None


@pytest.fixture(scope="session")
def locators_of_typed(golden_typed: Path) -> list[Stored]:
    found = json.loads((golden_typed / "schemas" / "_ledgers.json").read_text())
    return [Stored(golden_typed, path, one) for path, one in found.items()]


def body(answers: dict[str, Any], end: str) -> Any:
    (answer,) = (one for request, one in answers.items() if request.endswith(f"/{end}"))
    return json.loads(answer["body"]) if answer["status"] == 200 and answer["body"] else {}


def data_of(schema: SchemaInfo) -> object:
    """Return what a schema says, whichever of the two forms of pairs it has."""
    if schema.type != "KEY_VALUE":
        return schema.data
    pair = key_value_schema(schema)
    return [
        (one.type, dict(one.properties), json.loads(one.data) if one.data else "") for one in (pair.key, pair.value)
    ]


def assert_reported(found: SchemaVersion, reported: dict[str, Any]) -> None:
    assert (found.version, found.schema.type, found.timestamp_ms) == (
        reported["version"],
        reported["type"],
        reported["timestamp"],
    )
    assert found.schema.properties == reported["properties"]
    assert data_of(found.schema) == data_of(
        SchemaInfo(reported["type"], reported["data"].encode(), reported["properties"])
    )
    assert not found.is_deletion


def test_golden_schemas_are_what_the_admin_api_reported(locators_of_typed: list[Stored]) -> None:
    """It tells those after the last deletion."""
    topics = versions = 0
    for one in locators_of_typed:
        reported = one.reported()
        if reported is None:
            continue
        topics += 1
        found = [schema for _, schema in one.versions]
        last_deletion = max((schema.version for schema in found if schema.is_deletion), default=-1)
        alive = [schema for schema in found if schema.version > last_deletion]
        listed = body(reported["responses"], "schemas").get("getSchemaResponses", [])
        assert len(alive) == len(listed)
        for schema, answer in zip(alive, listed, strict=True):
            assert_reported(schema, answer)
            versions += 1
    assert topics > 65
    assert versions > 90


def test_golden_positions_are_those_of_the_admin_api(locators_of_typed: list[Stored]) -> None:
    for one in locators_of_typed:
        reported = one.reported()
        if reported is None or not (metadata := body(reported["responses"], "metadata")):
            continue
        places = [(place.version, *place.position) for place, _ in one.versions]
        assert places == [(index["version"], index["ledgerId"], index["entryId"]) for index in metadata["index"]]
        newest = metadata["info"]
        assert places[-1] == (newest["version"], newest["ledgerId"], newest["entryId"])


def test_golden_versions_that_are_deleted_are_still_there(locators_of_typed: list[Stored]) -> None:
    """Of a soft deletion the API hides everything before it: its answers from before are what BookKeeper still has."""
    compared = 0
    for one in locators_of_typed:
        reported = one.reported()
        if reported is None or not one.path.endswith(("/avro-deleted", "/avro-deleted-last")):
            continue
        found = {schema.version: schema for _, schema in one.versions}
        (before,) = (name for name in reported if name.startswith("before the deletion"))
        for answer in body(reported[before], "schemas")["getSchemaResponses"]:
            assert_reported(found[answer["version"]], answer)
            compared += 1
        (deletion,) = (schema for schema in found.values() if schema.is_deletion)
        assert deletion.schema == SchemaInfo("NONE")
        assert (deletion.version, deletion.timestamp_ms is not None) == (1, True)
    assert compared >= 2


def test_golden_hashes_are_those_of_the_data(locators_of_typed: list[Stored]) -> None:
    for one in locators_of_typed:
        for place, schema in one.versions:
            assert place.hash == (b"" if schema.is_deletion else hashlib.sha256(schema.schema.data).digest())


def test_golden_locators_and_entries_are_built_again(locators_of_typed: list[Stored]) -> None:
    for one in locators_of_typed:
        places = parse_locator(one.data, key=one.path)
        assert build_locator(places) == one.data
        for number, (_, schema) in enumerate(one.versions):
            built = build_stored_schema(one.path.removeprefix("/schemas/"), schema, places[:number])
            assert parse_stored_schema(built, key=ENTRY, version=schema.version) == schema


@settings(deadline=None, max_examples=80)
@given(locators)
def test_any_locator_round_trips_ascending(versions: list[StoredVersion]) -> None:
    ascending = tuple(sorted(versions, key=lambda one: one.version))
    assert parse_locator(build_locator(versions), key=KEY) == ascending


@settings(deadline=None, max_examples=80)
@given(schemas, locators)
def test_any_schema_round_trips(schema: SchemaVersion, before: list[StoredVersion]) -> None:
    later = build_stored_schema("public/default/orders", schema, before)
    assert parse_stored_schema(later, key=ENTRY, version=schema.version) == schema


def test_fields_have_the_numbers_of_pulsar() -> None:
    index = "0803 1204 0809 1001 1A01AA"
    assert parse_locator(bytes.fromhex(f"0A0B {index}"), key=KEY) == (StoredVersion(3, Position(9, 1), b"\xaa"),)
    assert parse_locator(bytes.fromhex(f"0A0B {index} 120B {index}"), key=KEY) == (
        StoredVersion(3, Position(9, 1), b"\xaa"),
    )
    schema = "0A0174 1200 1803 2202 7B7D 2807 3000 3A06 0A0161 120162"
    assert parse_stored_schema(bytes.fromhex(f"1217 {schema} 2A0B {index}"), key=ENTRY, version=4) == SchemaVersion(
        4, SchemaInfo("JSON", b"{}", {"a": "b"}), timestamp_ms=7
    )


@for_each(
    "data",
    [
        "",
        "FF",
        "0A00",
        "0A02 0803",
        "0A06 0803 1202 0809",
        "0A06 1204 0809 1001",
        "0A08 0803 1204 0809 1001 1208 0803 1204 0809 1002",
        "0A11 08FFFFFFFFFFFFFFFFFF01 1204 0809 1001",
        "0A11 0803 120D 08FFFFFFFFFFFFFFFFFF01 1001",
    ],
)
def test_a_locator_that_no_broker_writes_is_corrupt(data: str) -> None:
    with pytest.raises(CorruptMetadataError) as caught:
        parse_locator(bytes.fromhex(data), key=KEY)
    assert caught.value.key == KEY


@for_each("data", ["", "FF", "1200", "2A08 0803 1204 0809 1001"])
def test_an_entry_that_no_broker_writes_is_corrupt(data: str) -> None:
    with pytest.raises(CorruptMetadataError) as caught:
        parse_stored_schema(bytes.fromhex(data), key=ENTRY, version=0)
    assert caught.value.key == ENTRY


@for_each("number", [-5, 22, 23, 1000])
def test_an_unknown_type_is_refused_by_its_number(number: int) -> None:
    record = SchemaEntryRecord()
    record.schema.type = number
    with pytest.raises(UnsupportedFormatError, match=f"unknown type {number - 1}"):
        parse_stored_schema(record.SerializeToString(), key=ENTRY, version=0)


@settings(deadline=None, max_examples=120)
@given(st.binary(max_size=80), schemas, locators, st.integers(0, 40), st.integers(0, 40))
def test_arbitrary_bytes_raise_nothing_else(
    data: bytes, schema: SchemaVersion, versions: list[StoredVersion], at: int, end: int
) -> None:
    locator, entry = build_locator(versions), build_stored_schema("t/n/x", schema, versions)
    for valid in (locator, entry):
        for attempt in (data, valid + data, valid[:at] + data + valid[end:]):
            errors = []
            try:
                found = parse_locator(attempt, key=KEY)
                assert [one.version for one in found] == sorted({one.version for one in found})
                assert min(min(one.version, *one.position) for one in found) >= 0
            except CorruptMetadataError as error:
                errors.append(error)
            try:
                parse_stored_schema(attempt, key=KEY, version=0)
            except (CorruptMetadataError, UnsupportedFormatError) as error:
                errors.append(error)
            assert {error.key for error in errors} <= {KEY}


@for_each(
    ("topic", "path"),
    [
        ("persistent://public/default/orders", "/schemas/public/default/orders"),
        ("persistent://public/default/orders-partition-3", "/schemas/public/default/orders"),
        ("public/typed/persistent/avro+%C3%A5+b%2B1", "/schemas/public/typed/avro+%C3%A5+b%2B1"),
        ("persistent://t/c/n/x", "/schemas/t/n/x"),
        ("pulsar/interop/127.0.0.1:26003/persistent/healthcheck", "/schemas/pulsar/127.0.0.1:26003/healthcheck"),
    ],
)
def test_partitions_share_a_locator(topic: str, path: str) -> None:
    assert locator_path(topic) == path

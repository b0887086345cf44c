"""Every message of every typed golden topic: as Pulsar decoded it with the schema of each, and with the newest."""

import json
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import UndecodableValueError, UnknownSchemaError
from ledgerfs.formats.schemas.protobuf_schema import protobuf_schema
from ledgerfs.formats.schemas.schema_info import BY_HAND, SchemaVersion
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.typed_values import fields_of_each
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.saving import save_schemas
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from tests.support.admin_api import golden_answers, serving
from tests.support.each import for_each
from tests.support.typed_answers import CONTRADICTIONS, assert_outermost, assert_said, same_protobuf
from tests.support.typed_golden import (
    TOPICS,
    WITHOUT_SCHEMA,
    Node,
    Topic,
    assert_equal,
    plain,
    schemas_of,
    topic,
    topics,
)

TOP = "public/typed/"
DELETED = ("avro-deleted", "avro-deleted-force", "avro-deleted-last", "avro-deleted-last-force")
WITH_SCHEMA = tuple(name for name in TOPICS if name not in WITHOUT_SCHEMA)
KINDS = ("avro-random", "avro", "json", "kv-inline", "kv-separated", "prim", "protonative", "proto", "py", "")
"""How names of topics begin, by the kind of their schemas; a topic is of the first one."""
IDS = ("ledger_id", "entry_id", "batch_index")
Counts = dict[tuple[int | None, str], int]

NOT_DECODED: dict[str, Counts] = {
    # Pulsar's client silently gives their bytes: the deletion hid the schema from it, and from us if nothing was saved before.
    "avro-deleted": {(0, "is unknown"): 33},
    # Pulsar's client raises for these very messages: their number has another schema by now.
    "avro-deleted-force": {(0, "the number was reused"): 33},
    # Pulsar's client asks no schema what is in a document, and gives it as it is.
    "json-odd": {
        (0, "its field 'number' is not an int"): 39,
        (0, "its field 'lines' is not a list"): 6,
    },
    # Messages that name no schema: Pulsar's client gives their bytes.
    "avro-mixed-bytes": {(None, "its message has no schema version"): 66},
    "bytes-then-avro": {(None, "its message has no schema version"): 33},
}
"""By topic what has no value though Pulsar's client gives one, or an error: versions, reasons and counts. All else has that of Pulsar."""

NOT_RESOLVED: dict[str, Counts] = {
    # As Pulsar's client says: the newest schema has a field without default that version 1 lacks.
    "avro-random-3": {(1, "it has no field 'owner_1', for which 'ledgerfs.random.R3' has no default"): 57},
    # Avro makes no int of a long, and nothing an Avro record of a text or a document.
    "avro-deleted": {(2, "long cannot be read as int"): 33},
    "avro-deleted-force": {(0, "long cannot be read as int"): 33},
    "type-changed": {
        (0, "has the type STRING, which cannot be read as AVRO"): 33,
        (1, "has the type JSON, which cannot be read as AVRO"): 33,
    },
}
"""The same of what only the newest schema cannot read."""


@pytest.fixture(scope="module")
def typed(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """The bucket with all that the admin API told in the end, and a descriptor for the topic whose schemas lack one."""
    folder = tmp_path_factory.mktemp("typed")
    bucket = linked(golden_typed, folder / "bucket")
    save(golden_typed, bucket, "responses", TOPICS)
    natives = schemas_of(golden_typed, f"{TOP}protonative")
    given = [SchemaVersion(number, info, source=BY_HAND, saved_ms=1) for number, info in natives.items()]
    SavedSchemas(bucket.raw_store).add(f"persistent://{TOP}proto", given)
    return bucket


def linked(golden_typed: Path, folder: Path) -> Bucket:
    """Return a bucket of the same objects."""
    folder.mkdir()
    for path in (golden_typed / "bucket").iterdir():
        (folder / path.name).hardlink_to(path)
    return open_bucket(f"file://{folder}")


def save(golden_typed: Path, bucket: Bucket, when: str, names: tuple[str, ...]) -> None:
    """Save what a broker told of the schemas of topics at some time, as ``ledgerfs schemas save`` does."""
    asked = [f"persistent://{one}" for one in sorted({f"{TOP}{name}".partition("-partition-")[0] for name in names})]
    with serving(golden_answers(golden_typed, when)) as admin:
        done = list(save_schemas(AdminApi(AdminRequests(admin.url)), SavedSchemas(bucket.raw_store), asked))
    assert [one.error for one in done] == [None] * len(asked)


@cache
def said(golden_typed: Path, name: str) -> Topic:
    """Return a topic and what Pulsar says of its messages: right where its client alone is wrong, and knows it."""
    found = topic(golden_typed, TOP + name)
    nodes: list[Node] | None = None
    if name == "avro-offset":
        # The client forgets the bytes before the datum, but not where it reads by the newest schema, which is the only one.
        nodes = [one["value"] for one in topic(golden_typed, TOP + name, "expected-latest").expected]
    if name == "prim-string-utf16":
        # The client takes all text for UTF-8.
        texts = (None if one is None else one.decode("utf-16") for one in found.rows["value"].to_pylist())
        nodes = [{"t": "null"} if text is None else {"t": "string", "v": text} for text in texts]
    if nodes is None:
        return found
    return replace(found, expected=[one | {"value": node} for one, node in zip(found.expected, nodes, strict=True)])


def scanned(bucket: Bucket, name: str, found: Topic, **options: Any) -> tuple[ScanReport, pa.StructArray]:
    """Return the report of a scan with null for what cannot be decoded, and its values, of the messages that Pulsar lists."""
    scan, report = bucket.topic(TOP + name).scan(values="typed", on_undecodable="null", **options), ScanReport()
    table = scan.to_arrow(report)
    assert [[one[column] for column in IDS] for one in found.expected] == [
        list(row) for row in zip(*(table[column].to_pylist() for column in IDS), strict=True)
    ]
    assert table.schema == scan.schema
    values = table["value"].combine_chunks()
    values.validate(full=True)
    return report, values


def counts(report: ScanReport, expected: Counts) -> Counts:
    """Return what a scan reports that it could not decode, with the words of ours that are in its reasons."""
    found = {}
    for one in report.undecodable:
        (phrase,) = (phrase for version, phrase in expected if version == one.version and phrase in one.reason)
        found[one.version, phrase] = one.count
        assert one.is_error == (one.version is not None)
    return found


def is_decoded(found: Topic) -> np.ndarray:
    """Return which messages have a value of a schema, or none at all."""
    raw = found.rows["value"].to_pylist()
    pairs = zip(found.expected, raw, strict=True)
    return np.array(
        ["error" not in one and one["schema_type"] != "BYTES" and text not in CONTRADICTIONS for one, text in pairs]
    )


def test_these_are_all_topics(golden_typed: Path) -> None:
    assert [name.removeprefix(TOP) for name in topics(golden_typed)] == sorted(TOPICS)
    assert len(TOPICS) == 77


@pytest.mark.parametrize("name", WITH_SCHEMA)
def test_each_message_as_its_own_schema_has_it(typed: Bucket, golden_typed: Path, name: str) -> None:
    found = said(golden_typed, name)
    report, values = scanned(typed, name, found, schema_version="each")
    decoded = is_decoded(found)
    schemas = {one.version: one.schema for one in typed.topic(TOP + name).schema_versions() if not one.is_deletion}
    assert values.type.names == [f"v{number}" for number in schemas]
    for number, info in schemas.items():
        column, rows = pc.struct_field(values, f"v{number}"), np.flatnonzero(decoded & (found.versions == number))
        assert column.null_count == len(column) - rows.size + column.take(pa.array(rows)).null_count, "of others"
        assert_said(column.take(pa.array(rows)), [found.expected[row]["value"] for row in rows], info)
    assert counts(report, NOT_DECODED.get(name, {})) == NOT_DECODED.get(name, {})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind or "others")
def test_each_message_as_the_newest_schema_has_it(typed: Bucket, golden_typed: Path, kind: str) -> None:
    names = [name for name in WITH_SCHEMA if next(one for one in KINDS if name.startswith(one)) == kind]
    for_each("name", names)(require_newest)(typed=typed, golden_typed=golden_typed)


def require_newest(typed: Bucket, golden_typed: Path, name: str) -> None:
    """Require of the messages of a topic that the newest schema gives the values that Pulsar reported.

    Where it reported none, messages of the newest schema, and documents, have the values of their own schema.
    """
    found = said(golden_typed, name)
    report, values = scanned(typed, name, found)
    newest = typed.schemas_of(TOP + name).latest
    assert newest is not None
    reported = found
    if f"{TOP}{name}" in topics(golden_typed, "expected-latest"):
        reported = topic(golden_typed, TOP + name, "expected-latest")
        schemas = schemas_of(golden_typed, TOP + name)
    elif newest.schema.type == "JSON":
        schemas = schemas_of(golden_typed, TOP + name)
    else:
        schemas = {newest.version: newest.schema}
    decoded = is_decoded(reported)
    for number, info in schemas.items():
        rows = np.flatnonzero(decoded & (reported.versions == number))
        writer = newest.schema if name == "proto" else info
        assert_said(
            values.take(pa.array(rows)), [reported.expected[row]["value"] for row in rows], writer, newest.schema
        )
    expected = NOT_DECODED.get(name, {}) | NOT_RESOLVED.get(name, {})
    assert counts(report, expected) == expected
    are_lost = pc.and_(found.rows["value"].is_valid(), values.is_null())
    assert pc.sum(are_lost).as_py() == sum(expected.values())


@for_each("name", sorted(NOT_DECODED | NOT_RESOLVED))
def test_the_first_that_cannot_be_decoded_is_an_error(typed: Bucket, name: str) -> None:
    """Those without a version are none."""
    for options in ({"schema_version": "each"}, {}):
        topic_of_it = typed.topic(TOP + name)
        nulls = topic_of_it.scan(values="typed", on_undecodable="null", **options)
        report = ScanReport()
        nulls.to_arrow(report)
        errors = {tuple(map(int, one.first.split(":"))): one for one in report.undecodable if one.is_error}
        scan = topic_of_it.scan(values="typed", **options)
        if not errors:
            assert scan.to_arrow().num_rows == topic_of_it.count()
            continue
        with pytest.raises(UndecodableValueError) as caught:
            scan.to_arrow()
        first = errors[min(errors)]
        assert caught.value.key == f"value of message {first.first}"
        assert first.reason in str(caught.value)
        skips = topic_of_it.scan(values="typed", on_undecodable="skip", **options)
        of_skips = ScanReport()
        assert skips.to_arrow(of_skips).num_rows == topic_of_it.count() - sum(one.count for one in errors.values())
        assert of_skips.undecodable == report.undecodable


@for_each("name", WITHOUT_SCHEMA)
def test_without_a_schema_values_are_the_bytes_that_pulsar_gives(typed: Bucket, golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, TOP + name)
    why = (
        "the cluster deleted all schemas"
        if name == "avro-deleted-last"
        else "no schema of this topic is known: save the schemas"
    )
    with pytest.raises(UnknownSchemaError, match=why):
        typed.topic(TOP + name).scan(values="typed")
    values = typed.topic(TOP + name).scan(["value"], values="auto").to_arrow()["value"].combine_chunks()
    assert values == found.rows["value"]
    assert_equal(values, [one["value"] for one in found.expected])


def test_schemas_that_the_cluster_deleted_decode_what_was_written_if_they_were_saved_before(
    golden_typed: Path, tmp_path: Path
) -> None:
    """Pulsar's client, which only has what is left, is no witness: fastavro is."""
    bucket = linked(golden_typed, tmp_path / "bucket")
    for when in ("before the deletion", "responses"):
        save(golden_typed, bucket, when, DELETED)
    compared = 0
    for name in DELETED:
        found = topic(golden_typed, TOP + name)
        scan = bucket.topic(TOP + name).scan(["value"], values="typed", schema_version="each")
        report = ScanReport()
        values = scan.to_arrow(report)["value"].combine_chunks()
        assert report.undecodable == []
        assert values.is_valid().equals(found.rows["value"].is_valid())
        generations = fields_of_each(bucket.schemas_of(TOP + name))
        published = found.rows["publish_time"].cast(pa.int64()).to_numpy() // 1000
        for row, one in enumerate(values.to_pylist()):
            raw = found.rows["value"][row].as_py()
            written = [
                (field, version)
                for field, version in generations
                if version.version == found.versions[row] and version.timestamp_ms <= published[row] + 1000
            ]
            field, version = written[-1]
            schema = json.loads(version.schema.data)
            wanted = None if raw is None else fastavro.schemaless_reader(BytesIO(raw), schema, None)
            assert one is None or {name for name, value in one.items() if value is not None} == {field}
            assert (one and one[field]) == wanted
            compared += raw is not None
    assert compared == 330


def test_old_protobuf_schemas_tell_the_outermost_message(golden_typed: Path, tmp_path: Path) -> None:
    """As they are, without the descriptor of which the other tests know all fields."""
    bucket = linked(golden_typed, tmp_path / "bucket")
    save(golden_typed, bucket, "responses", ("proto",))
    found, natives = topic(golden_typed, f"{TOP}proto"), schemas_of(golden_typed, f"{TOP}protonative")
    report, values = scanned(bucket, "proto", found, schema_version="each")
    assert report.undecodable == []
    compared = 0
    for number, native in natives.items():
        rows = np.flatnonzero(found.versions == number)
        is_same = same_protobuf(protobuf_schema(native))
        for row, one in zip(rows, plain(values.field(f"v{number}").take(pa.array(rows))), strict=True):
            node = found.expected[row]["value"]
            assert (one is None) == (node["t"] == "null")
            for field, value in (one or {}).items():
                assert_outermost(value, node["v"][field], is_same)
                compared += 1
    assert compared > 4000

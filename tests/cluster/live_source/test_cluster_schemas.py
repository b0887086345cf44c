"""Schemas of a living cluster are its own: what typed values are read by, with nothing saved, and what commands show and save."""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.bucket.known_schemas import KnownSchemas
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import (
    CorruptMetadataError,
    InvalidSchemaError,
    StaleObjectError,
    StoreUnreachableError,
    UndecodableValueError,
    UnknownSchemaError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.scan.report import ScanReport
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.stored_schema import StoredVersion
from ledgerfs_cluster.live_source import cluster_schemas
from ledgerfs_cluster.pulsar_admin.saving import save_schemas
from tests.cluster.support.encoders import build_locator
from tests.cluster.support.live_clusters import CLOSED, TOPIC, LiveCluster, ledgers_of
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.typed_golden import (
    TOPICS,
    WITHOUT_SCHEMA,
    answers,
    assert_same_rows,
    bucket_with_schemas,
    plain,
)
from tests.support.typed_golden import topic as golden_topic

HOUR = 3_600_000
TOP = "public/typed/"
HIDDEN = ("avro-deleted", "avro-deleted-last")
"""Topics of which the admin API tells less than the cluster has, since a soft deletion hides it."""


@pytest.fixture(scope="module")
def golden(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """The typed golden set, all of it hot: the entries of its topics, its locators, and the entries that these name."""
    said = open_bucket(f"file://{golden_typed}/bucket")
    stored = json.loads((golden_typed / "schemas" / "_ledgers.json").read_text())
    with LiveCluster(tmp_path_factory.mktemp("typed-cluster")) as cluster:
        for topic in said.topics():
            for ledger_id, entries in ledgers_of(said, topic.name):
                cluster.write_ledger(topic.name, entries, ledger_id=ledger_id, state=CLOSED)
        for path, one in stored.items():
            cluster.put_schemas(path, base64.b64decode(one["locator"]), {
                tuple(map(int, place.split(":"))): base64.b64decode(data) for place, data in one["entries"].items()
            })  # fmt: skip
        before = cluster.nodes
        yield cluster
        assert cluster.not_reads() == []
        assert cluster.nodes == before


@pytest.fixture(scope="module")
def live(golden: LiveCluster) -> Bucket:
    return open_bucket(golden.url)


@pytest.fixture(scope="module")
def saved(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """The same as a bucket, with what the admin API told in the end."""
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket")


@pytest.mark.long
@for_each("version", ["latest", "each"])
@for_each("name", sorted(set(TOPICS) - set(WITHOUT_SCHEMA) - set(HIDDEN))[::4])
def test_every_golden_message_is_read_as_by_the_schemas_of_the_admin_api(
    live: Bucket, saved: Bucket, name: str, version: str
) -> None:
    options = {"values": "typed", "on_undecodable": "null", "schema_version": version}
    found, said = (bucket.topic(TOP + name).scan(**options) for bucket in (live, saved))
    reports = ScanReport(), ScanReport()
    assert_same_rows(found.to_arrow(reports[0]), said.to_arrow(reports[1]))
    ours, theirs = ([(one.version, one.count) for one in report.undecodable] for report in reports)
    assert ours == theirs


@pytest.mark.parametrize("name", HIDDEN)
def test_versions_that_were_deleted_softly_are_read(live: Bucket, golden_typed: Path, name: str) -> None:
    """Of these Pulsar's client gives bytes; the witness is what the admin API told before the deletion."""
    said = golden_topic(golden_typed, TOP + name)
    scan = live.topic(TOP + name).scan(["value"], values="typed", schema_version="each")
    report = ScanReport()
    values = scan.to_arrow(report)["value"].combine_chunks()
    assert list(report.undecodable) == []
    for number, info in said.schemas.items():
        rows = np.flatnonzero(said.versions == number)
        expected, reasons = said.decode(decoder_of(info), rows)
        assert rows.size > 30
        assert not (reasons > 0).any()
        assert plain(pc.struct_field(values, f"v{number}").take(pa.array(rows))) == plain(expected)


def test_what_it_has_is_what_the_admin_api_reported(live: Bucket, golden_typed: Path) -> None:
    known = KnownSchemas(live)
    reported = answers(golden_typed)
    damaged: dict[str, Exception] = {}
    found = known.all_versions(damaged.__setitem__)
    assert damaged == {}
    assert list(found) == known.topics() == sorted(found)
    assert {name for name, versions in reported.items() if versions} < set(found)
    compared = 0
    for name, versions in reported.items():
        last = max((one.version for one in found.get(name, ()) if one.is_deletion), default=-1)
        alive = [one for one in found.get(name, ()) if one.version > last]
        assert [(one.version, one.timestamp_ms) for one in alive] == [
            (one.version, one.timestamp_ms) for one in versions
        ]
        assert all(one.schema.means_the_same(other.schema) for one, other in zip(alive, versions, strict=True))
        assert {one.source for one in alive} <= {known.source}
        compared += len(alive)
    assert compared > 90


def test_saved_from_both_they_are_one(live: Bucket, golden_typed: Path, tmp_path: Path) -> None:
    """The admin API writes the definitions of pairs in another way; nothing that is read by them becomes ambiguous."""
    bucket = bucket_with_schemas(golden_typed, tmp_path / "bucket")
    source = KnownSchemas(live)
    done = list(save_schemas(source, SavedSchemas(bucket.raw_store), source.topics()))
    assert [(one.topic, one.error) for one in done if one.error is not None] == []
    assert sum(one.new for one in done) > 10
    for name in ("kv-inline-string-protonative", "kv-separated-evolved", "avro-evolved", "avro-deleted-last"):
        options = {"values": "typed", "schema_version": "each"}
        found, said = (one.topic(TOP + name).scan(**options) for one in (bucket, live))
        assert_same_rows(found.to_arrow(), said.to_arrow())


def test_topics_of_the_broker_and_those_without(live: Bucket) -> None:
    events = live.schemas_of("public/typed/__change_events")
    assert [(one.version, one.schema.type) for one in events.versions] == [(0, "AVRO")]
    topic = live.topic(TOP + "prim-bytes")
    assert pa.types.is_binary(topic.scan(["value"], values="auto").schema.field("value").type)
    with pytest.raises(UnknownSchemaError, match="the cluster has no schema of this topic"):
        topic.scan(["value"], values="typed")


def entry(value: int, version: int | None = None, published: int = HOUR) -> bytes:
    made = metadata(publish_time_ms=published)
    if version is not None:
        made.schema_version = version.to_bytes(8, "big")
    return frame(made, value.to_bytes(8, "big"))


def of_two_versions(cluster: LiveCluster) -> None:
    """Write a topic with a message of each of two versions."""
    cluster.add_schema(TOPIC, SchemaInfo("DOUBLE"), timestamp_ms=1)
    cluster.add_schema(TOPIC, SchemaInfo("INT64"), timestamp_ms=2)
    cluster.write_ledger(TOPIC, [entry(7, 0), entry(8, 1)], state=CLOSED)


def numbers(bucket: Bucket, **options: Any) -> list[Any]:
    return bucket.topic(TOPIC).scan(["value"], values="typed", **options).to_arrow()["value"].to_pylist()


def lose(cluster: LiveCluster, version: int) -> int:
    """Lose the ledger of a version, as by a mistaken clean-up; return its id."""
    ledger_id = cluster.schema_ledgers(TOPIC)[version]
    cluster.delete_from_bookkeeper(ledger_id, flag=False)
    return ledger_id


def test_a_lost_version_is_reported_of_where_it_is_needed(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    ledger_id = lose(cluster, 0)
    bucket = open_bucket(cluster.url)
    assert numbers(bucket, on_undecodable="null") == [None, 8]
    scan = bucket.topic(TOPIC).scan(["value"], values="typed", schema_version="each", on_undecodable="null")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [None, {"v1": 8}]
    (reported,) = report.undecodable
    assert (reported.version, reported.count, reported.is_error) == (0, 1, True)
    assert f"schema version 0 cannot be read from entry 0 of ledger {ledger_id}" in reported.reason
    with pytest.raises(UndecodableValueError, match=f"ledger {ledger_id}"):
        numbers(bucket)
    with pytest.raises(InvalidSchemaError, match=f"ledger {ledger_id}"):
        numbers(bucket, schema_version=0)


@pytest.mark.parametrize("values", ["typed", "auto"])
def test_the_newest_version_that_is_lost_is_no_lack_of_schemas(cluster: LiveCluster, values: str) -> None:
    of_two_versions(cluster)
    ledger_id = lose(cluster, 1)
    bucket = open_bucket(cluster.url)
    with pytest.raises(InvalidSchemaError, match=f"schema version 1 .* ledger {ledger_id}"):
        bucket.topic(TOPIC).scan(["value"], values=values)
    assert len(numbers(bucket, schema_version=0, on_undecodable="skip")) == 1
    lose(cluster, 0)
    with pytest.raises(InvalidSchemaError, match="schema version 1"):
        bucket.topic(TOPIC).scan(["value"], values=values, schema_version="each")


def test_an_entry_that_is_no_schema_is_as_good_as_lost(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    path = "/schemas/public/default/junk"
    cluster.put_schemas(path, build_locator([StoredVersion(0, Position(900, 0), b"")]), {(900, 0): b"\xff\xff"})
    (found,) = open_bucket(cluster.url).schemas_of("public/default/junk").versions
    assert "ledger 900" in found.schema.unreadable
    cluster.zookeeper.set(path, b"\xff\xff")
    with pytest.raises(CorruptMetadataError, match="locator"):
        open_bucket(cluster.url).schemas_of("public/default/junk")


def test_bookies_that_are_down_are_no_loss(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    bucket = open_bucket(cluster.url)
    cluster.bookies[0].kill()
    assert [one.schema.type for one in bucket.schemas_of(TOPIC).versions] == ["DOUBLE", "INT64"]
    for one in cluster.bookies[1:]:
        one.kill()
    with pytest.raises(StoreUnreachableError):
        bucket.schemas_of(TOPIC)


def test_each_scan_reads_them_anew(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    bucket = open_bucket(cluster.url)
    before = bucket.topic(TOPIC).scan(["value"], values="typed", on_undecodable="null")
    cluster.add_schema(TOPIC, SchemaInfo("INT64", properties={"a": "b"}), timestamp_ms=3)
    cluster.write_ledger(TOPIC, [entry(9, 2)], state=CLOSED)
    assert before.to_arrow()["value"].to_pylist() == [None, 8]
    assert numbers(bucket, on_undecodable="null") == [None, 8]
    bucket.refresh()
    assert numbers(bucket, on_undecodable="null") == [None, 8, 9]


def test_a_soft_deletion_hides_nothing(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    cluster.add_schema(TOPIC, SchemaInfo("NONE"), timestamp_ms=4, is_deletion=True)
    bucket = open_bucket(cluster.url)
    assert [(one.version, one.is_deletion) for one in bucket.topic(TOPIC).schema_versions()] == [
        (0, False), (1, False), (2, True),
    ]  # fmt: skip
    assert numbers(bucket, on_undecodable="null") == [None, 8]


def test_a_number_that_was_given_again_is_not_read_by_the_new_schema(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    cluster.delete_schemas(TOPIC)
    bucket = open_bucket(cluster.url)
    with pytest.raises(UnknownSchemaError, match="the cluster has no schema"):
        numbers(bucket)
    cluster.add_schema(TOPIC, SchemaInfo("INT64"), timestamp_ms=2 * HOUR)
    cluster.write_ledger(TOPIC, [entry(5, 0, 3 * HOUR)], state=CLOSED)
    bucket.refresh()
    scan = bucket.topic(TOPIC).scan(["value"], values="typed", on_undecodable="null")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [None, None, 5]
    reasons = {one.version: one.reason for one in report.undecodable}
    assert "the number was reused" in reasons[0]
    assert "the cluster did not have it when the scan began" in reasons[1]


@pytest.mark.parametrize("is_given_again", [True, False])
def test_schemas_that_are_deleted_while_they_are_read(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, is_given_again: bool
) -> None:
    of_two_versions(cluster)
    bucket = open_bucket(cluster.url)

    def change() -> None:
        cluster.delete_schemas(TOPIC)
        if is_given_again:
            cluster.add_schema(TOPIC, SchemaInfo("BOOLEAN"), timestamp_ms=9)

    meanwhile(monkeypatch, iter([change]))
    found = bucket.schemas_of(TOPIC).versions
    assert [(one.version, one.schema.type) for one in found] == ([(0, "BOOLEAN")] if is_given_again else [])


def test_schemas_that_never_stay_end_with_an_error(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    of_two_versions(cluster)

    def change() -> None:
        cluster.delete_schemas(TOPIC)
        cluster.add_schema(TOPIC, SchemaInfo("BOOLEAN"))

    meanwhile(monkeypatch, repeat(change))
    with pytest.raises(StaleObjectError, match="changed during each of several tries to read them"):
        open_bucket(cluster.url).schemas_of(TOPIC)


def meanwhile(monkeypatch: pytest.MonkeyPatch, changes: Iterator[Callable[[], None]]) -> None:
    """Have something happen between the reading of a locator and that of the entries it names."""
    parse = cluster_schemas.parse_locator

    def parsed(data: bytes, *, key: str) -> tuple[StoredVersion, ...]:
        found = parse(data, key=key)
        next(changes, lambda: None)()
        return found

    monkeypatch.setattr(cluster_schemas, "parse_locator", parsed)


def test_commands_tell_of_them(cluster: LiveCluster, tmp_path: Path) -> None:
    of_two_versions(cluster)
    cluster.add_schema("public/default/other", SchemaInfo("AVRO", b'{"type": "string"}'), timestamp_ms=1)
    lost = lose(cluster, 0)
    listed = json.loads(output("schemas", "ls", cluster.url, "--json"))
    assert [(one["topic"][-6:], one["version"], one["type"]) for one in listed] == [
        ("orders", 0, None), ("orders", 1, "INT64"), ("/other", 0, "AVRO"),
    ]  # fmt: skip
    assert f"ledger {lost}" in listed[0]["lost"]
    assert {one["source"] for one in listed} == {cluster.url}
    table = output("schemas", "ls", cluster.url, TOPIC)
    assert "(lost)" in table
    assert f"ledger {lost}" in table
    assert b"no schema is in the cluster" in run("schemas", "ls", cluster.url, "public/default/none").stderr
    assert json.loads(output("schemas", "show", cluster.url, "public/default/other")) == {"type": "string"}
    assert f"ledger {lost}".encode() in run("schemas", "show", cluster.url, TOPIC, "--version", "0", code=2).stderr
    shown = run("schemas", "show", cluster.url, "public/default/none", code=2)
    assert b"the cluster has no schema of this topic" in shown.stderr
    done = run("topics", cluster.url, "--schemas")
    assert b"schema version" not in done.stderr
    (reported,) = json.loads(output("topics", cluster.url, "--schemas", "--json"))
    assert reported["unsaved_schemas"] == []


@pytest.mark.parametrize("locator", [b"\xff\xff", b""], ids=["bytes", "empty"])
def test_a_damaged_locator_hides_no_other(cluster: LiveCluster, tmp_path: Path, locator: bytes) -> None:
    of_two_versions(cluster)
    bad, no_topic = "public/default/bad", "public/default/nothing"
    cluster.write_ledger(bad, [entry(7, 0)], state=CLOSED)
    for name in (bad, no_topic):
        cluster.put_schemas(f"/schemas/{name}", locator, {})
    damaged = [f"persistent://{name}" for name in (bad, no_topic)]
    for topics in ((), (bad, TOPIC, no_topic)):
        done = run("schemas", "ls", cluster.url, *topics, "--json", code=1)
        assert [(one["topic"], one["version"]) for one in json.loads(done.stdout)] == [
            (f"persistent://{TOPIC}", 0), (f"persistent://{TOPIC}", 1),
        ]  # fmt: skip
        for name in damaged:
            assert f"{name}: left out: ".encode() in done.stderr
        assert b"no schema" not in done.stderr
        assert b"INT64" in run("schemas", "ls", cluster.url, *topics, code=1).stdout
    listed = run("topics", cluster.url, "--schemas", "--json", code=1)
    assert [(one["name"], one["schemas"], one["unsaved_schemas"]) for one in json.loads(listed.stdout)] == [
        (f"persistent://{bad}", None, None), (f"persistent://{TOPIC}", 2, []),
    ]  # fmt: skip
    for name in damaged:
        assert listed.stderr.count(f"{name}: its schemas cannot be read: ".encode()) == 1
    assert b"is lost" not in listed.stderr
    lines = run("topics", cluster.url, "--schemas", code=1).stdout.decode().splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == ["schemas", "?", "2"]
    saved = run("schemas", "save", cluster.url, "--to", str(tmp_path / "schemas"), code=1)
    for name in damaged:
        assert f"{name}: not saved: ".encode() in saved.stderr
    assert b"2 schema versions of 1 topics, 2 new; 2 topics failed" in saved.stderr


def test_they_are_saved_beside_a_bucket_and_never_into_a_cluster(cluster: LiveCluster, tmp_path: Path) -> None:
    of_two_versions(cluster)
    cluster.add_schema("public/default/other", SchemaInfo("AVRO", b'{"type": "string"}'), timestamp_ms=1)
    before = cluster.nodes
    (tmp_path / "tier" / "_ledgerfs").mkdir(parents=True)
    place = str(tmp_path / "tier" / "_ledgerfs" / "schemas")
    done = run("schemas", "save", cluster.url, "--to", place)
    assert b"3 schema versions of 2 topics, 3 new" in done.stderr
    bucket = open_bucket(str(tmp_path / "tier"))
    assert [one.schema for one in bucket.schemas_of(TOPIC).versions] == [SchemaInfo("DOUBLE"), SchemaInfo("INT64")]
    lost = lose(cluster, 0)
    done = run("schemas", "save", cluster.url, "--to", place, "--topic", TOPIC, code=1)
    assert f"ledger {lost}".encode() in done.stderr
    assert b"1 topics failed" in done.stderr
    assert len(bucket.schemas_of(TOPIC).versions) == 2
    after = cluster.nodes
    refused = b"ledgerfs cannot write to a live"
    assert refused in run("schemas", "save", cluster.url, code=2).stderr
    assert refused in run("schemas", "save", cluster.url, cluster.url, code=2).stderr
    assert refused in run("schemas", "set", cluster.url, TOPIC, "--type", "string", code=2).stderr
    assert b"Missing argument 'BUCKET'" in run("schemas", "save", "http://127.0.0.1:1", code=2).stderr
    assert cluster.nodes == after
    assert set(after) < set(before)


def test_schemas_of_a_bucket_that_the_cluster_offloads_to(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    cluster.add_schema("public/default/other", SchemaInfo("STRING"))
    cluster.roll_over(TOPIC)
    cluster.offload(TOPIC, cluster.list_of(TOPIC).ledgers[0].ledger_id)
    tier = cluster.bucket_url("tier")
    done = run("schemas", "save", cluster.url, tier)
    assert b"2 schema versions of 1 topics, 2 new" in done.stderr
    assert numbers(open_bucket(tier), on_undecodable="null") == [None, 8]


def test_verify_reports_of_lost_ones_alone(cluster: LiveCluster) -> None:
    of_two_versions(cluster)
    assert verify(cluster.url).findings == ()
    lose(cluster, 0)
    (finding,) = verify(cluster.url).findings
    assert (finding.kind, finding.severity) == ("lost-schemas", Severity.REMARK)
    assert f"persistent://{TOPIC}: 0" in finding.message

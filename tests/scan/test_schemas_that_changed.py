"""Topics whose newest schema is of another type than that of older messages, or has the number that another one had."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import InvalidSchemaError, UndecodableValueError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.scan.report import ScanReport
from ledgerfs.schemas.by_hand import key_value_by_hand
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"
HOUR = 3_600_000
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
AVRO, JSON = (SchemaInfo(kind, json.dumps(ORDER).encode()) for kind in ("AVRO", "JSON"))
INT32 = SchemaInfo("INT32")
PAYLOADS = {"AVRO": b"\x0e", "JSON": b'{"id":7}'}


def entry(payload: bytes, version: int, published: int = 9 * HOUR) -> bytes:
    made = metadata(publish_time_ms=published)
    made.schema_version = version.to_bytes(8, "big")
    return frame(made, payload)


def topic_of(folder: Path, entries: list[bytes], *saved: SchemaVersion) -> Topic:
    topic = open_bucket(put_in_folder(folder, offload(entries))).topic(TOPIC)
    SavedSchemas(topic.bucket.raw_store).add(TOPIC, saved)
    return topic


@for_each(("old", "new"), [(AVRO, JSON), (JSON, AVRO)])
@for_each("are_pairs", [False, True])
def test_avro_and_json_of_one_record_are_not_read_as_each_other(
    tmp_path_factory: pytest.TempPathFactory, old: SchemaInfo, new: SchemaInfo, are_pairs: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    kinds = [old.type, new.type]
    schemas = [key_value_by_hand(INT32, one, is_separated=False) if are_pairs else one for one in (old, new)]
    payloads = [PAYLOADS[kind] for kind in kinds]
    if are_pairs:
        payloads = [b"\0\0\0\4\0\0\0\5" + len(one).to_bytes(4, "big") + one for one in payloads]
    versions = [SchemaVersion(number, one, HOUR * (number + 1)) for number, one in enumerate(schemas)]
    topic = topic_of(tmp_path, [entry(one, number) for number, one in enumerate(payloads)], *versions)

    def value(row: Any) -> Any:
        return row["value"] if are_pairs else row

    scan = topic.scan(["value"], values="typed", on_undecodable="null")
    report = ScanReport()
    none, one = scan.to_arrow(report)["value"].to_pylist()
    assert (none, value(one)) == (None, {"id": 7})
    (lost,) = report.undecodable
    assert (lost.version, lost.count, lost.is_error) == (0, 1, True)
    assert lost.reason == f"its schema has the type {old.type}, which cannot be read as {new.type}"
    with pytest.raises(UndecodableValueError, match=f"the type {old.type}, which cannot be read as {new.type}"):
        topic.scan(["value"], values="typed").to_arrow()
    each = topic.scan(["value"], values="typed", schema_version="each").to_arrow()["value"].to_pylist()
    assert [(value(row["v0"]) if row["v0"] else None, value(row["v1"]) if row["v1"] else None) for row in each] == [
        ({"id": 7}, None),
        (None, {"id": 7}),
    ]


def test_the_first_of_two_schemas_that_had_a_number_is_that_of_the_rows(tmp_path: Path) -> None:
    """Both fail for one reason; the younger schema's message is before the older one's."""
    cut = b"\x80"
    entries = [entry(b"\x02\0", 0), entry(cut, 0), entry(cut, 0, HOUR), entry(cut, 0), entry(b"\x04", 0, HOUR)]
    older, younger = (SchemaInfo("AVRO", json.dumps(one).encode()) for one in (ORDER, WIDER))
    topic = topic_of(tmp_path, entries, SchemaVersion(0, older, 1000), SchemaVersion(0, younger, 8 * HOUR))
    scan = topic.scan(["ledger_id", "entry_id", "value"], values="typed", on_undecodable="null")
    report = ScanReport()
    (batch,) = scan.batches(report)
    assert batch["value"].is_valid() == pa.array([True, False, False, False, True])
    (lost,) = report.undecodable
    assert (lost.count, lost.first) == (3, f"{batch['ledger_id'][1]}:{batch['entry_id'][1]}")
    with pytest.raises(UndecodableValueError, match=f"value of message {lost.first}: {lost.reason}"):
        topic.scan(["value"], values="typed").to_arrow()


def test_one_that_cannot_be_used_is_an_error_that_names_the_topic(tmp_path: Path) -> None:
    odd = SchemaVersion(0, SchemaInfo("STRING", b"", {"__charset": "klingon"}), HOUR, source="http://broker")
    topic = topic_of(tmp_path, [entry(b"x", 0)], odd)
    with pytest.raises(InvalidSchemaError, match=f"^{TOPIC}: .*unknown character set 'klingon'"):
        topic.scan(values="typed")
    with pytest.raises(InvalidSchemaError, match=r"^schema_version: the schema is a record without"):
        topic.scan(values="typed", schema_version={"type": "record"})


def test_an_own_avro_schema_is_one_whatever_type_the_topic_has(tmp_path: Path) -> None:
    """And never left unread: numbers are not shown as if they were what it says."""
    by_hand = SchemaVersion(ANY_VERSION, SchemaInfo("INT64"), source=BY_HAND, saved_ms=1)
    topic = topic_of(tmp_path, [entry(number.to_bytes(8, "big"), number) for number in range(4)], by_hand)
    scan = topic.scan(["value"], values="typed", schema_version=ORDER, on_undecodable="null")
    assert str(scan.schema.field("value").type) == "struct<id: int64>"
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [None] * 4
    (lost,) = {one.reason for one in report.undecodable}
    assert lost == "its schema has the type INT64, which cannot be read as AVRO"


@for_each("are_pairs", [False, True])
def test_a_field_of_json_that_has_another_meaning_in_the_wanted_version(
    tmp_path_factory: pytest.TempPathFactory, are_pairs: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")

    def schema(logical: str) -> SchemaInfo:
        at = {"name": "at", "type": {"type": "long", "logicalType": logical}}
        one = SchemaInfo("JSON", json.dumps({**ORDER, "fields": [*ORDER["fields"], at]}).encode())
        return key_value_by_hand(INT32, one, is_separated=False) if are_pairs else one

    payloads = [b'{"id":1,"at":1700000000123}', b'{"id":2,"at":1700000000123000}']
    if are_pairs:
        payloads = [b"\0\0\0\4\0\0\0\5" + len(one).to_bytes(4, "big") + one for one in payloads]
    versions = [SchemaVersion(n, schema(f"timestamp-{one}"), n * HOUR) for n, one in enumerate(("millis", "micros"))]
    topic = topic_of(tmp_path, [entry(one, number) for number, one in enumerate(payloads)], *versions)

    def ids(version: Any) -> tuple[list[Any], list[tuple[int | None, int, str]]]:
        scan = topic.scan(["value"], values="typed", on_undecodable="null", schema_version=version)
        report = ScanReport()
        rows = [row["value"] if row and are_pairs else row for row in scan.to_arrow(report)["value"].to_pylist()]
        return [row and row["id"] for row in rows], [(one.version, one.count, one.reason) for one in report.undecodable]

    millis, micros = "long (timestamp-millis)", "long (timestamp-micros)"
    assert ids("latest") == ([None, 2], [(0, 1, f"its field 'at', {millis}, cannot be read as {micros}")])
    assert ids(0) == ([1, None], [(1, 1, f"its field 'at', {micros}, cannot be read as {millis}")])
    assert are_pairs or ids(ORDER) == ([1, 2], [])
    each = topic.scan(["value"], values="typed", schema_version="each").to_arrow()["value"].combine_chunks()
    found = [each.field(name).field("value") if are_pairs else each.field(name) for name in ("v0", "v1")]
    assert found[0].field("at")[0].as_py() == found[1].field("at")[1].as_py()

"""Topics whose newest schema is of another type than that of older messages, or has the number that another one had."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import UndecodableValueError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.by_hand import key_value_by_hand
from ledgerfs.schemas.saved_schemas import SavedSchemas
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


@pytest.mark.parametrize(("old", "new"), [(AVRO, JSON), (JSON, AVRO)])
@pytest.mark.parametrize("are_pairs", [False, True])
def test_avro_and_json_of_one_record_are_not_read_as_each_other(
    tmp_path: Path, old: SchemaInfo, new: SchemaInfo, are_pairs: bool
) -> None:
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
    none, one = scan.to_table()["value"].to_pylist()
    assert (none, value(one)) == (None, {"id": 7})
    (lost,) = scan.undecodable
    assert (lost.version, lost.count, lost.is_error) == (0, 1, True)
    assert lost.reason == f"it is a value of a schema of type {old.type}, which is not read as {new.type}"
    with pytest.raises(UndecodableValueError, match=f"of type {old.type}, which is not read as {new.type}"):
        topic.scan(["value"], values="typed").to_table()
    each = topic.scan(["value"], values="typed", schema_version="each").to_table()["value"].to_pylist()
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
    (batch,) = scan
    assert batch["value"].is_valid() == pa.array([True, False, False, False, True])
    (lost,) = scan.undecodable
    assert (lost.count, lost.first) == (3, f"{batch['ledger_id'][1]}:{batch['entry_id'][1]}")
    with pytest.raises(UndecodableValueError, match=f"value of message {lost.first}: {lost.reason}"):
        topic.scan(["value"], values="typed").to_table()

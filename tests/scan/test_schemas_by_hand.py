"""What a user gives by hand is what values are read with: for a version, for any that nothing else tells of, as of a time."""

from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"
HOUR = 3_600_000


def entry(value: int, version: int | None = None, published: int = HOUR) -> bytes:
    made = metadata(publish_time_ms=published)
    if version is not None:
        made.schema_version = version.to_bytes(8, "big")
    return frame(made, value.to_bytes(8, "big"))


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    """Return one of numbers of 8 bytes: without a version, with version 3, and with version 0, an hour and nine hours old."""
    entries = [entry(1), entry(2, 3), entry(3, 0), entry(4, 0, 9 * HOUR)]
    return open_bucket(put_in_folder(tmp_path, offload(entries))).topic(TOPIC)


def give(topic: Topic, version: int, kind: str, registered: int | None = None, source: str = BY_HAND) -> None:
    given = SchemaVersion(version, SchemaInfo(kind), registered, source=source, saved_ms=1)
    SavedSchemas(topic.bucket.raw_store).add(TOPIC, [given])


def values(topic: Topic, **options: object) -> list[object]:
    return topic.scan(["value"], values="typed", on_undecodable="null", **options).to_table()["value"].to_pylist()  # type: ignore[arg-type]


def test_one_that_cannot_be_used_is_an_error_that_names_the_topic(topic: Topic) -> None:
    odd = SchemaVersion(0, SchemaInfo("STRING", b"", {"__charset": "klingon"}), HOUR, source="http://broker")
    SavedSchemas(topic.bucket.raw_store).add(TOPIC, [odd])
    with pytest.raises(InvalidSchemaError, match=f"^{TOPIC}: .*unknown character set 'klingon'"):
        topic.scan(values="typed")
    with pytest.raises(InvalidSchemaError, match=r"^schema_version: the schema is a record without"):
        topic.scan(values="typed", schema_version={"type": "record"})


def test_an_own_avro_schema_is_one_whatever_type_the_topic_has(topic: Topic) -> None:
    """And never left unread: numbers are not shown as if they were what it says."""
    give(topic, ANY_VERSION, "INT64")
    own = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    scan = topic.scan(["value"], values="typed", schema_version=own, on_undecodable="null")
    assert str(scan.schema.field("value").type) == "struct<id: int64>"
    assert scan.to_table()["value"].to_pylist() == [None] * 4
    assert {one.reason for one in scan.undecodable} == {
        "it is a value of a schema of type INT64, which is not read as AVRO"
    }

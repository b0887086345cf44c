"""Exports of typed values: what is written, and what a folder is when schemas change."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import InvalidOptionError, UndecodableValueError
from ledgerfs.export.export import export_topic
from ledgerfs.export.folder import RECORD_NAME
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.typed_golden import bucket_with_schemas

EVOLVED = "public/typed/avro-evolved"
CHANGED = "public/typed/type-changed"


@pytest.fixture
def typed(golden_typed: Path, tmp_path: Path) -> Bucket:
    return bucket_with_schemas(golden_typed, tmp_path / "bucket")


def rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.parquet"), key=lambda path: int(path.stem))
    found: list[dict[str, Any]] = pa.concat_tables(map(pq.read_table, files)).to_pylist()
    return found


def contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RECORD_NAME).read_text())["contents"]
    return found


def test_what_is_typed_of_itself_is_the_same_export(typed: Bucket, tmp_path: Path) -> None:
    topic = typed.topic(EVOLVED)
    report = export_topic(topic, tmp_path / "out", "parquet", values="typed", flatten=True)
    again = export_topic(topic, tmp_path / "out", "parquet", values="auto", flatten=True)
    assert (again.written, again.kept) == (0, report.written)


def test_folders_of_bytes_say_nothing_of_values(typed: Bucket, tmp_path: Path) -> None:
    export_topic(typed.topic(EVOLVED), tmp_path / "out", "parquet")
    assert not {"values", "schema_version", "flatten", "on_undecodable", "schemas"} & contents(tmp_path / "out").keys()
    with pytest.raises(InvalidOptionError, match=r"with other .*values"):
        export_topic(typed.topic(EVOLVED), tmp_path / "out", "parquet", values="typed")


def test_with_other_schemas_it_is_another_export(typed: Bucket, tmp_path: Path) -> None:
    topic, out = typed.topic(EVOLVED), tmp_path / "out"
    before = export_topic(topic, out, "parquet", values="typed")
    newer = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "more", "type": "string", "default": "?"}],
    }
    version = SchemaVersion(3, SchemaInfo("AVRO", json.dumps(newer).encode()), 1_900_000_000_000)
    SavedSchemas(typed.raw_store).add(topic.name, [version])
    with pytest.raises(InvalidOptionError, match=r"with other schema_version, schemas, fields of values \(value.title"):
        export_topic(topic, out, "parquet", values="typed")
    assert "more" not in pq.read_schema(next(out.glob("*.parquet"))).field("value").type.names
    after = export_topic(topic, out, "parquet", values="typed", overwrite=True, on_undecodable="null")
    assert (after.written, after.kept) == (before.written, 0)
    assert {one["value"]["more"] for one in rows(out) if one["value"]} == {"?"}


def test_values_that_cannot_be_decoded_are_counted_and_kept_in_mind(typed: Bucket, tmp_path: Path) -> None:
    topic = typed.topic(CHANGED)
    with pytest.raises(UndecodableValueError):
        export_topic(topic, tmp_path / "raise", "jsonl", values="typed")
    for choice, left in (("null", 105), ("skip", 105 - 66)):
        report = export_topic(topic, tmp_path / choice, "jsonl", values="typed", on_undecodable=choice)
        assert report.rows == left
        assert sum(one.count for one in report.undecodable) == 66
        again = export_topic(topic, tmp_path / choice, "jsonl", values="typed", on_undecodable=choice)
        assert (again.rows, again.undecodable, again.undecodable_before) == (0, [], 66)
        with pytest.raises(InvalidOptionError, match="on_undecodable"):
            export_topic(topic, tmp_path / choice, "jsonl", values="typed")


def test_values_without_a_version_are_told_of_in_every_run(tmp_path: Path) -> None:
    orders = "public/default/orders"
    fields = metadata(sequence_id=1, publish_time_ms=CREATED_MS)
    url = put_in_folder(tmp_path, offload([frame(fields, b"x"), frame(fields, b"y")], 1))
    schema = SchemaVersion(0, SchemaInfo("INT64"), CREATED_MS)
    SavedSchemas(open_bucket(url).raw_store).add(orders, [schema])
    out = str(tmp_path / "out")
    given = ("export", url, orders, out, "--values", "typed", "--format", "jsonl", "--columns", "value")
    assert b"2 values are not decoded, the first is of message 1:0: it names no schema" in run(*given).stderr
    assert b"2 values were not decoded before: their messages name no schema" in run(*given).stderr
    report = export_topic(open_bucket(url).topic(orders), Path(out), "jsonl", columns=["value"], values="typed")
    assert (report.kept, report.undecodable_before, report.unnamed_before) == (1, 0, 2)


def test_the_command_tells_of_them(typed: Bucket, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    options = ["--values", "typed", "--on-undecodable", "null", "--flatten", "--format", "csv"]
    done = run("export", typed.store.url, CHANGED, out, *options, code=1)
    said = done.stderr.decode()
    assert "33 values are not decoded, the first is of message" in said
    again = run("export", typed.store.url, CHANGED, out, *options, code=1).stderr.decode()
    assert "66 values were not decoded before" in again
    run("export", typed.store.url, EVOLVED, str(tmp_path / "good"), *options)
    run("export", typed.store.url, EVOLVED, str(tmp_path / "one"), "--values", "typed", "--schema-version", "9", code=2)

"""Exports of typed values, and of JSON: what is written, and what a folder is when schemas or fields change."""

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
from tests.support.json_topics import ledger, put
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


def test_values_without_a_version_are_reported_of_in_every_run(tmp_path: Path) -> None:
    orders = "public/default/orders"
    fields = metadata(sequence_id=1, publish_time_ms=CREATED_MS)
    url = put_in_folder(tmp_path, offload([frame(fields, b"x"), frame(fields, b"y")], 1))
    schema = SchemaVersion(0, SchemaInfo("INT64"), CREATED_MS)
    SavedSchemas(open_bucket(url).raw_store).add(orders, [schema])
    out = str(tmp_path / "out")
    given = ("export", url, orders, out, "--values", "typed", "--format", "jsonl", "--columns", "value")
    assert (
        b"2 values are not decoded, the first in message 1:0: its message has no schema version" in run(*given).stderr
    )
    assert b"2 values were not decoded by earlier runs: their messages have no schema version" in run(*given).stderr
    report = export_topic(open_bucket(url).topic(orders), Path(out), "jsonl", columns=["value"], values="typed")
    assert (report.kept, report.undecodable_before, report.unnamed_before) == (1, 0, 2)


def test_the_command_reports_of_them(typed: Bucket, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    options = ["--values", "typed", "--on-undecodable", "null", "--flatten", "--format", "csv"]
    done = run("export", typed.store.url, CHANGED, out, *options, code=1)
    said = done.stderr.decode()
    assert "33 values are not decoded, the first in message" in said
    again = run("export", typed.store.url, CHANGED, out, *options, code=1).stderr.decode()
    assert "66 values were not decoded by earlier runs" in again
    run("export", typed.store.url, EVOLVED, str(tmp_path / "good"), *options)
    run("export", typed.store.url, EVOLVED, str(tmp_path / "one"), "--values", "typed", "--schema-version", "9", code=2)


EVENTS = "public/default/events"


def json_rows(folder: Path) -> list[Any]:
    """Return the values of all files, which have one type."""
    files = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    assert len({str(one.schema) for one in files}) == 1
    found: list[Any] = pa.concat_tables(files)["value"].to_pylist()
    return found


def test_all_files_have_one_type_and_a_later_ledger_may_change_it(tmp_path: Path) -> None:
    url, out = put(tmp_path / "b", [{"a": 1}], [{"b": [2]}, None]), tmp_path / "out"
    report = export_topic(open_bucket(url).topic(EVENTS), out, "parquet", values="json")
    assert (report.written, json_rows(out)) == (2, [{"a": 1, "b": None}, {"a": None, "b": [2]}, None])
    put_in_folder(tmp_path / "b", ledger(3, {"a": 5}))
    report = export_topic(open_bucket(url).topic(EVENTS), out, "parquet", values="json")
    assert (report.written, report.kept) == (1, 2)
    put_in_folder(tmp_path / "b", ledger(4, {"a": 2.5, "c": True}))
    topic = open_bucket(url).topic(EVENTS)
    before = json_rows(out)
    reported = r"other .*fields of values \(value.a, value.c\); choose"
    with pytest.raises(InvalidOptionError, match=reported):
        export_topic(topic, out, "parquet", values="json")
    with pytest.raises(InvalidOptionError, match=r"other .*on_undecodable, .*fields of values \(value.a, value.c\)"):
        export_topic(topic, out, "parquet", values="json", on_undecodable="null")
    assert json_rows(out) == before
    report = export_topic(topic, out, "parquet", values="json", overwrite=True)
    assert report.written == 4
    assert [one["a"] for one in json_rows(out) if one] == [1.0, None, 5.0, 2.5]
    # With a type that is given nothing is ever another export.
    kind = pa.struct([("a", pa.float64())])
    report = export_topic(topic, tmp_path / "given", "parquet", values="json", schema_version=kind)
    put_in_folder(tmp_path / "b", ledger(5, {"d": 1}))
    report = export_topic(
        open_bucket(url).topic(EVENTS), tmp_path / "given", "parquet", values="json", schema_version=kind
    )
    assert (report.written, report.kept) == (1, 4)


def test_a_late_ledger_may_change_the_order_of_fields(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    url, out = put_in_folder(tmp_path / "b", ledger(5, {"a": 1, "b": {"c": 2, "d": 3}})), tmp_path / "out"
    for flatten in (False, True):
        export_topic(open_bucket(url).topic(EVENTS), out / str(flatten), "jsonl", values="json", flatten=flatten)
    put_in_folder(tmp_path / "b", ledger(4, {"b": {"d": 1}}))
    for flatten in (False, True):
        with pytest.raises(InvalidOptionError, match=r"fields of values \(in another order\); choose"):
            export_topic(open_bucket(url).topic(EVENTS), out / str(flatten), "jsonl", values="json", flatten=flatten)

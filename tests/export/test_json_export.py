"""Exports of values that are JSON: one type for all files of a folder."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.export import export_topic
from tests.support.json_topics import ledger, put
from tests.support.ledgers import put_in_folder

EVENTS = "public/default/events"


def rows(folder: Path) -> list[Any]:
    """Return the values of all files, which have one type."""
    files = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    assert len({str(one.schema) for one in files}) == 1
    found: list[Any] = pa.concat_tables(files)["value"].to_pylist()
    return found


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_all_files_have_one_type_and_a_later_ledger_may_change_it(tmp_path: Path) -> None:
    url, out = put(tmp_path / "b", [{"a": 1}], [{"b": [2]}, None]), tmp_path / "out"
    report = export_topic(open_bucket(url).topic(EVENTS), out, "parquet", values="json")
    assert (report.written, rows(out)) == (2, [{"a": 1, "b": None}, {"a": None, "b": [2]}, None])
    put_in_folder(tmp_path / "b", ledger(3, {"a": 5}))
    report = export_topic(open_bucket(url).topic(EVENTS), out, "parquet", values="json")
    assert (report.written, report.kept) == (1, 2)
    put_in_folder(tmp_path / "b", ledger(4, {"a": 2.5, "c": True}))
    topic = open_bucket(url).topic(EVENTS)
    before = rows(out)
    told = r"other .*fields of values \(value.a, value.c\); take"
    with pytest.raises(InvalidOptionError, match=told):
        export_topic(topic, out, "parquet", values="json")
    with pytest.raises(InvalidOptionError, match=r"other .*on_undecodable, .*fields of values \(value.a, value.c\)"):
        export_topic(topic, out, "parquet", values="json", on_undecodable="null")
    assert rows(out) == before
    report = export_topic(topic, out, "parquet", values="json", overwrite=True)
    assert report.written == 4
    assert [one["a"] for one in rows(out) if one] == [1.0, None, 5.0, 2.5]
    # With a type that is given nothing is ever another export.
    kind = pa.struct([("a", pa.float64())])
    report = export_topic(topic, tmp_path / "given", "parquet", values="json", schema_version=kind)
    put_in_folder(tmp_path / "b", ledger(5, {"d": 1}))
    report = export_topic(
        open_bucket(url).topic(EVENTS), tmp_path / "given", "parquet", values="json", schema_version=kind
    )
    assert (report.written, report.kept) == (1, 4)


def test_a_late_ledger_may_change_the_order_of_fields(tmp_path: Path) -> None:
    url, out = put_in_folder(make(tmp_path / "b"), ledger(5, {"a": 1, "b": {"c": 2, "d": 3}})), tmp_path / "out"
    for flatten in (False, True):
        export_topic(open_bucket(url).topic(EVENTS), out / str(flatten), "jsonl", values="json", flatten=flatten)
    put_in_folder(tmp_path / "b", ledger(4, {"b": {"d": 1}}))
    for flatten in (False, True):
        with pytest.raises(InvalidOptionError, match=r"fields of values \(in another order\); take"):
            export_topic(open_bucket(url).topic(EVENTS), out / str(flatten), "jsonl", values="json", flatten=flatten)

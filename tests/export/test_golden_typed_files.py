"""Exports of every typed golden topic: Parquet is the scan's table, and jsonl and CSV say the same."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket
from ledgerfs.export.export import export_topic
from ledgerfs.scan.report import ScanReport
from tests.support.each import for_each
from tests.support.invoked import run
from tests.support.typed_golden import TOPICS, WITHOUT_SCHEMA, assert_same_rows
from tests.support.typed_json import slow_json

TOP = "public/typed/"
FEW = ("avro-logical", "avro-unions", "json-pojo", "kv-separated-string-json", "protonative", "prim-instant")

OF_VERSIONS = ("avro-evolved", "avro-deleted", "kv-inline-evolved", "protonative", "type-changed")


CASES = [*((name, "latest") for name in (*TOPICS, "avro-partitioned")), *((name, "each") for name in OF_VERSIONS)]
KINDS = ("avro-random", "avro", "json", "kv-inline", "kv-separated", "prim", "proto", "py", "")
"""How names of topics begin, by the kind of their schemas; a topic is of the first one."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind or "others")
def test_parquet_is_the_table_of_the_scan(typed: Bucket, tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    cases = [case for case in CASES if next(one for one in KINDS if case[0].startswith(one)) == kind]
    for_each(("name", "version"), cases)(require_table)(typed=typed, tmp_path_factory=tmp_path_factory)


def require_table(typed: Bucket, tmp_path_factory: pytest.TempPathFactory, name: str, version: str) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    topic, values = typed.topic(TOP + name), "auto" if name in WITHOUT_SCHEMA else "typed"
    options = {"values": values, "schema_version": version, "on_undecodable": "null"}
    of_scan = ScanReport()
    rows = topic.scan(**options).to_arrow(of_scan)
    report = export_topic(topic, tmp_path / "out", "parquet", **options)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert_same_rows(pa.concat_tables(pq.ParquetFile(file).read() for file in files), rows)
    by_scan, by_export = (
        {(one.version, one.reason): one.count for one in read.undecodable} for read in (of_scan, report)
    )
    assert by_scan == by_export


@pytest.mark.parametrize("name", FEW)
def test_lines_and_csv_say_what_the_scan_does(typed: Bucket, tmp_path: Path, name: str) -> None:
    topic = typed.topic(TOP + name)
    flat = topic.scan(values="typed", flatten=True).to_arrow()
    export_topic(topic, tmp_path / "csv", "csv", values="typed", flatten=True)
    rows = []
    for file in sorted((tmp_path / "csv").glob("*.csv"), key=lambda path: int(path.stem)):
        with file.open(newline="") as lines:
            rows += list(csv.DictReader(lines))
    assert list(rows[0]) == [in_text(one) for one in flat.schema]
    texts = [
        json.loads(one) if one else None
        for one in slow_json(topic.scan(values="typed").to_arrow()["value"].combine_chunks())
    ]
    export_topic(topic, tmp_path / "jsonl", "jsonl", values="typed")
    files = sorted((tmp_path / "jsonl").glob("*.jsonl"), key=lambda path: int(path.stem))
    assert [json.loads(line).get("value") for file in files for line in file.read_bytes().splitlines()] == texts
    for field in flat.schema:
        if field.name not in topic.scan().schema.names or field.name == "value":
            said = slow_json(flat[field.name].combine_chunks())
            assert [row[in_text(field)] for row in rows] == [in_csv(text, field.type) for text in said], field
    lines = run("head", typed.store.url, TOP + name, "-n", "1000", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == texts


def in_text(field: pa.Field) -> str:
    """Return the name of a column: of bytes, that of their base64."""
    is_bytes = pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type)
    return f"{field.name}_base64" if is_bytes else str(field.name)


def in_csv(text: str | None, kind: pa.DataType) -> str:
    """Return what a cell has of a value as JSON: texts and times without their quotes, numbers as Arrow writes them."""
    if text is None:
        return ""
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(json.loads(text))], kind).cast(pa.string())[0].as_py()
    if pa.types.is_floating(kind):
        return pa.array([float(json.loads(text))], kind).cast(pa.string())[0].as_py()
    return text if pa.types.is_nested(kind) or not text.startswith('"') else str(json.loads(text))

"""Scans whose values are columns, over the typed golden set with its schemas saved in the bucket."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledgerfs import Bucket
from ledgerfs.errors import InvalidOptionError, UnknownSchemaError
from ledgerfs.scan.report import ScanReport
from tests.support.each import for_each
from tests.support.typed_golden import assert_equal

EVOLVED = "avro-evolved"


def expected(golden_typed: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(golden_typed / "expected-typed" / f"public%2Ftyped%2F{name}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def test_one_version_for_all(typed: Bucket) -> None:
    topic = typed.topic(f"public/typed/{EVOLVED}")
    scan = topic.scan(["value"], values="typed", schema_version=1, on_undecodable="null")
    assert [one.name for one in scan.schema.field("value").type] == [
        "id", "name", "amount", "note", "blob", "code", "added", "kind", "lines",
    ]  # fmt: skip
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]}
    mine = topic.scan(["value"], values="typed", schema_version=schema, flatten=True)
    assert mine.schema == pa.schema([("id", pa.float64())])
    report = ScanReport()
    ids, rows = mine.to_arrow()["id"].to_pylist(), scan.to_arrow(report)["value"].to_pylist()
    assert [float(one["id"]) for one in rows if one] == [one for one, row in zip(ids, rows, strict=True) if row]
    assert {one.version for one in report.undecodable} == {2}


def test_fields_beside_the_other_columns(typed: Bucket) -> None:
    topic = typed.topic(f"public/typed/{EVOLVED}")
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "key", "type": "string", "aliases": ["name"]}],
    }
    table = topic.scan(
        ["key", "value", "entry_id"], values="typed", schema_version=schema, flatten=True, on_undecodable="null"
    ).to_arrow()
    assert table.schema.names == ["key", "id", "value_key", "entry_id"]
    nested = topic.scan(["value"], values="typed", schema_version=schema, on_undecodable="null").to_arrow()
    assert table["id"].to_pylist() == [None if one is None else one["id"] for one in nested["value"].to_pylist()]


def test_a_topic_without_schemas(typed: Bucket) -> None:
    topic = typed.topic("public/typed/prim-bytes")
    assert topic.schema_versions() == ()
    assert topic.scan(values="auto").schema == topic.scan().schema
    with pytest.raises(UnknownSchemaError, match="ledgerfs schemas save"):
        topic.scan(values="typed")
    with pytest.raises(UnknownSchemaError, match="there are 0, 1, 2"):
        typed.topic(f"public/typed/{EVOLVED}").scan(values="typed", schema_version=7)
    with pytest.raises(InvalidOptionError):
        typed.topic(f"public/typed/{EVOLVED}").scan(values="typed", schema_version="newest")


@for_each("name", ["kv-separated-avro-avro", "kv-separated-bytes-string"])
def test_pairs_have_the_keys_of_messages_where_these_are_not_asked_for(
    typed: Bucket, golden_typed: Path, name: str
) -> None:
    table = typed.topic(f"public/typed/{name}").scan(["value"], values="typed").to_arrow()
    assert table.schema.names == ["value"]
    said = [one["value"] for one in expected(golden_typed, name)]
    values = table["value"].combine_chunks()
    for part in ("key", "value"):
        assert_equal(values.field(part), [one.get(part, {"t": "null"}) for one in said])

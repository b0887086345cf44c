"""``ledgerfs import --schema`` as a user runs it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.commands import output, run

ORDERS = "public/default/orders"
AVSC = json.dumps(
    {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "default": "\u0000"},
    ]}
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "orders.avsc").write_text(AVSC)
    return tmp_path


def values_of(place: Path, topic: str = ORDERS) -> list[object]:
    lines = output("head", f"{place}/bucket", topic, "--values", "typed", "--json").splitlines()
    return [json.loads(line)["value"] for line in lines]


def test_rows_of_files_by_an_avro_schema(place: Path) -> None:
    (place / "orders.csv").write_text("id,name,at,key\n1,x,2026-01-02,k\n2,,2026-01-03,\n")
    given = (f"{place}/orders.csv", f"{place}/bucket", ORDERS, "--schema", f"{place}/orders.avsc")
    said = run("import", *given).stderr
    assert b": 2 messages in 1 entries, " in said
    assert said.endswith(b" B, schema version 0\n")
    wanted = [
        {"id": 1, "name": "x", "at": "2026-01-02", "price": "0.00"},
        {"id": 2, "at": "2026-01-03", "price": "0.00"},
    ]
    assert values_of(place) == wanted
    assert "AVRO" in output("schemas", "ls", f"{place}/bucket", ORDERS)
    # What a flat export has is the same again.
    run("export", f"{place}/bucket", ORDERS, f"{place}/export", "--values", "typed", "--flatten")
    run("import", f"{place}/export", f"{place}/bucket", "public/default/again", "--schema", f"{place}/orders.avsc")
    assert values_of(place, "public/default/again") == wanted
    as_json = ("--schema-type", "json", "--schema-version", "7")
    pq.write_table(pa.table({"value": [{"id": 3, "at": None}]}), place / "bad.parquet")
    done = run("import", f"{place}/bad.parquet", f"{place}/bucket", ORDERS, *given[3:], *as_json, code=2)
    assert b"row 0: its value.at is null" in done.stderr
    assert values_of(place) == wanted
    told = json.loads(output("import", *given, *as_json, "--json"))
    assert (told["messages"], told["schema_version"]) == (2, 7)
    assert output("schemas", "ls", f"{place}/bucket", ORDERS).count("import") == 2


def test_primitive_values_and_errors(place: Path) -> None:
    pq.write_table(pa.table({"value": [5, None], "key": ["a", "b"]}), place / "counts.parquet")
    counts = "public/default/counts"
    run("import", f"{place}/counts.parquet", f"{place}/bucket", counts, "--schema-type", "int64")
    assert values_of(place, counts) == [5, None]
    (place / "texts.jsonl").write_text('{"value": "é"}\n')
    run("import", f"{place}/texts.jsonl", f"{place}/bucket", "public/default/texts", "--schema-type", "string")
    assert values_of(place, "public/default/texts") == ["é"]
    rows = (f"{place}/counts.parquet", f"{place}/bucket", counts)
    for options, text in (
        (("--schema-type", "int32"), b"schema version: has to be given"),
        (("--schema-type", "int32", "--schema-version", "0"), b"schema version 0 is another one, of type INT64"),
        (("--schema-type", "what"), b"what"),
        (("--schema", f"{place}/orders.avsc", "--schema-version", "1"), b"a column of"),
        (("--schema-version", "1"), b"is the number of a schema; give the schema"),
    ):
        assert text in run("import", *rows, *options, code=2).stderr

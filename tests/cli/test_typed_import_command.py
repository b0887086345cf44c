"""``ledgerfs import --schema`` as a user runs it."""

import json
from datetime import UTC, datetime, time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from tests.support.commands import run as run_process
from tests.support.invoked import output, run

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
    said = run_process("import", *given).stderr
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
    reported = json.loads(output("import", *given, *as_json, "--json"))
    assert (reported["messages"], reported["schema_version"]) == (2, 7)
    assert output("schemas", "ls", f"{place}/bucket", ORDERS).count("import") == 2


def test_a_csv_of_fields_is_read_as_it_was_written(place: Path) -> None:
    """Names that two columns would have, bytes, and texts that look like numbers."""
    fields = {
        "b": "bytes", "b_base64": "string", "Key": "string", "key_bytes_base64": "string", "topic": "bytes", "value": "bytes",
        "value_base64": "string", "value_topic_base64": "string", "x_base64": "bytes", "n": "long", "d": "double", "o": "boolean",
        "t": {"type": "int", "logicalType": "time-millis"}, "at": {"type": "long", "logicalType": "timestamp-millis"},
    }  # fmt: skip
    schema = {"type": "record", "name": "R", "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}
    (place / "r.avsc").write_text(json.dumps(schema))
    row = {
        "b": b"\xff", "b_base64": "YWI=", "Key": "007", "key_bytes_base64": "", "topic": b"t", "value": b"\xfe", "value_base64": "v",
        "value_topic_base64": "vt", "x_base64": b"", "n": 2**63 - 1, "d": 0.1, "o": True, "t": time(1, 2, 3, 4000),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    }  # fmt: skip
    kinds = {"t": pa.time32("ms"), "at": pa.timestamp("ms", "UTC")}
    value = pa.array([row], pa.struct([(one, kinds.get(one, pa.array([row[one]]).type)) for one in fields]))
    pq.write_table(pa.table({"value": value, "key_bytes": [b"\1"]}), place / "rows.parquet")
    run("import", f"{place}/rows.parquet", f"{place}/bucket", ORDERS, "--schema", f"{place}/r.avsc")
    for kind in ("csv", "parquet"):
        out, again = f"{place}/{kind}", f"public/default/{kind}"
        given = ("--values", "typed", "--flatten", "--format", kind, "--columns", "topic,key,key_bytes,value")
        run("export", f"{place}/bucket", ORDERS, out, *given)
        run("import", out, f"{place}/bucket", again, "--schema", f"{place}/r.avsc")
        (reported,) = (
            open_bucket(f"{place}/bucket")
            .topic(again)
            .scan(["key_bytes", "value"], values="typed")
            .to_arrow()
            .to_pylist()
        )
        assert reported == {"key_bytes": b"\1", "value": row}
    (header, *_) = next(Path(f"{place}/csv").glob("*.csv")).read_text().splitlines()
    names = header.replace('"', "").split(",")
    assert names == [
        "topic", "key", "key_bytes_base64", "b_base64", "value_b_base64", "value_Key", "value_key_bytes_base64", "value_topic_base64",
        "value", "value_base64", "value_value_base64", "value_value_topic_base64", "x_base64_base64", "n", "d", "o", "t", "at",
    ]  # fmt: skip
    (place / "bad.csv").write_text("n,b_base64\n1,YWI=\n2,???\n")
    (place / "small.avsc").write_text(json.dumps({**schema, "fields": [schema["fields"][0], schema["fields"][9]]}))
    bad = run(
        "import", f"{place}/bad.csv", f"{place}/bucket", "public/default/bad", "--schema", f"{place}/small.avsc", code=2
    )
    assert b"row 1: its b_base64 is not base64: '???'" in bad.stderr


def test_a_csv_of_one_column(place: Path) -> None:
    for kind, texts, wanted in (
        ("int64", ["1", "", "9223372036854775807", "3.0"], [1, None, 2**63 - 1, 3]),
        ("boolean", ["true", "", "False"], [True, None, False]),
        ("double", ["0.1", "", "NaN", "-inf"], [0.1, None, "NaN", "-Infinity"]),
        ("string", ["007", "", '""'], ["007", None, ""]),
        ("time", ["01:02:03.004"], ["01:02:03.004"]),
    ):
        (place / "x.csv").write_text("\n".join(["value", *texts, ""]))
        run("import", f"{place}/x.csv", f"{place}/bucket", f"public/default/{kind}", "--schema-type", kind)
        assert values_of(place, f"public/default/{kind}") == wanted
    for kind, text in (("int64", "1.5"), ("int8", "128"), ("boolean", "yes"), ("double", "1e999"), ("int32", '""')):
        (place / "x.csv").write_text(f"value\n0\n{text}\n")
        done = run("import", f"{place}/x.csv", f"{place}/bucket", "public/default/bad", "--schema-type", kind, code=2)
        assert b"row 1: its value is not a value of " in done.stderr

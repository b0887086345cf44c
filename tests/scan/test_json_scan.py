"""Scans whose values are JSON, as columns that are inferred over all that is read, or given."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import Bucket, open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import (
    InvalidOptionError,
    InvalidSchemaError,
    MissingLedgerError,
    StaleObjectError,
    UndecodableValueError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.scan.json_documents import InferredType
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.value_reading import ValueReading
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.json_topics import NAME, entry, ledger, put, reported
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.typed_golden import Node

EVENTS = "public/default/events"
COMMIT, ABORT = 21, 22
ORDERS = [{"id": 1, "who": "ann"}, {"id": 2, "total": 2.5}], [{"id": 3, "total": 7, "lines": [{"n": 1}]}, None]
ALL = pa.struct(
    [
        ("id", pa.int64()),
        ("who", pa.string()),
        ("total", pa.float64()),
        ("lines", pa.list_(pa.struct([("n", pa.int64())]))),
    ]
)


def topic_of(folder: Path, *ledgers: Any) -> Topic:
    return open_bucket(put(folder, *ledgers)).topic(EVENTS)


def values_of(topic: Topic, **options: Any) -> list[Any]:
    found: list[Any] = topic.scan(["value"], values="json", **options).to_arrow()["value"].to_pylist()
    return found


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    SCALARS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcé", max_size=2), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text("abcé", max_size=2), ANYTHING, max_size=4)


@given(st.lists(st.lists(DOCUMENTS | st.none(), min_size=1, max_size=5), min_size=1, max_size=3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_row_is_what_json_loads_gives(
    tmp_path_factory: pytest.TempPathFactory, ledgers: list[list[Any]], flatten: bool
) -> None:
    topic = topic_of(tmp_path_factory.mktemp("json"), *ledgers)
    scan = topic.scan(["entry_id", "value"], values="json", flatten=flatten)
    kind = topic.scan(["value"], values="json").schema.field("value").type
    report = ScanReport()
    rows = scan.to_arrow(report).to_pylist()
    said = [reported(kind, one) for documents in ledgers for one in documents]
    if flatten and pa.types.is_struct(kind):
        assert [{**row, "entry_id": 0} for row in rows] == [
            {"entry_id": 0} | (one or dict.fromkeys(kind.names)) for one in said
        ]
    else:
        assert [row["value"] for row in rows] == said
    named = {name for documents in ledgers for one in documents if one for name in one}
    assert named == (set(kind.names) if pa.types.is_struct(kind) else set())
    assert topic.count(values="json", on_undecodable="skip") == len(rows)
    assert report.undecodable == []


def test_columns_are_of_what_is_read(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, *ORDERS)
    first = topic.scan(["value"], values="json", end_time=CREATED_MS + 200, clock_slack_ms=0)
    assert first.schema.field("value").type == pa.struct(list(ALL)[:3])
    assert first.to_arrow().num_rows == 2
    assert values_of(topic, start_time=CREATED_MS + 201, clock_slack_ms=0) == [None]


@for_each("flatten", [False, True])
def test_names_with_a_nul_stay_different_where_rows_go_to_other_libraries(
    tmp_path_factory: pytest.TempPathFactory, flatten: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    topic = topic_of(tmp_path, [{"price": 5}, {"price": 7, "price\0": 1}])
    table = pa.table(topic.scan(["value"], values="json", flatten=flatten))
    rows = table.to_pylist() if flatten else table["value"].to_pylist()
    assert rows == [{"price": 5, "price\ufffd": None}, {"price": 7, "price\ufffd": 1}]
    fields = [{"name": name, "type": "long"} for name in ("price", "price\0")]
    schema = {"type": "record", "name": "R", "fields": fields}
    given = topic.scan(["value"], values="json", schema_version=schema, flatten=flatten)
    assert pa.table(given) == table
    with pytest.raises(InvalidSchemaError, match="a NUL character in field names"):
        topic.scan(values="json", schema_version=pa.struct([("price\0", pa.int64())]))


def in_transaction(number: int, transaction: int, document: object, **fields: object) -> bytes:
    return entry(number, document, transaction_least=transaction, transaction_most=7, **fields)


def test_messages_that_are_no_rows_have_no_part_in_it(tmp_path: Path) -> None:
    """Of transactions that were not committed; the outcome of the last one comes in a later ledger."""
    first = [
        entry(0, {"a": 1}),
        in_transaction(1, 1, {"aborted": 1}),
        in_transaction(2, 2, {"late": True}),
        frame(metadata(marker_type=ABORT, transaction_least=1, transaction_most=7)),
    ]
    commit = frame(metadata(marker_type=COMMIT, transaction_least=2, transaction_most=7))
    url = put_in_folder(tmp_path, offload(first, 1, name=NAME))
    bucket = open_bucket(url)
    topic = bucket.topic(EVENTS)
    early = topic.scan(["value"], values="json")
    assert early.to_arrow()["value"].to_pylist() == [{"a": 1}]
    assert topic.json_type(transactions="all").names == ["a", "aborted", "late"]
    put_in_folder(tmp_path, offload([entry(5, {"b": "x"}), commit], 2, name=NAME, uuid=2))
    # A scan that was made before reads the ledgers that it was made of.
    assert early.to_arrow()["value"].to_pylist() == [{"a": 1}]
    bucket.refresh()
    assert values_of(topic) == [
        {"a": 1, "late": None, "b": None},
        {"a": None, "late": True, "b": None},
        {"a": None, "late": None, "b": "x"},
    ]
    assert early.to_arrow()["value"].to_pylist() == [{"a": 1}]


def test_partitions_have_one_type(tmp_path: Path) -> None:
    parts = [f"{NAME}-partition-{number}" for number in range(3)]
    made = [
        ledger(1, {"a": 1}, {"a": 2}, name=parts[0]),
        ledger(1, {"a": 2.5, "b": [1]}, name=parts[1]),
        ledger(2, {"b": [], "c": {"d": None}}, None, name=parts[2]),
    ]
    topic = open_bucket(put_in_folder(tmp_path, *made)).topic(EVENTS)
    kind = pa.struct([("a", pa.float64()), ("b", pa.list_(pa.int64())), ("c", pa.struct([("d", pa.string())]))])
    for order in ("partition", "publish_time"):
        scan = topic.scan(["value"], values="json", order=order)
        assert scan.schema.field("value").type == kind
        assert scan.to_arrow()["value"].to_pylist() == [
            {"a": 1.0, "b": None, "c": None},
            *(
                [{"a": 2.0, "b": None, "c": None}, {"a": 2.5, "b": [1], "c": None}]
                if order == "partition"
                else [{"a": 2.5, "b": [1], "c": None}, {"a": 2.0, "b": None, "c": None}]
            ),
            {"a": None, "b": [], "c": {"d": None}},
            None,
        ]
    assert topic.partitions[0].json_type() == pa.struct([("a", pa.int64())])


def test_what_is_no_json_is_an_error_null_or_left_out(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, [{"a": 1}, b'{"a":', {"b": 2}], [b"\x00\x01", 5, None, b"null"])
    with pytest.raises(UndecodableValueError, match=r"message 1:1: it ends inside a field"):
        topic.scan(values="json").to_arrow()
    nulls = topic.scan(["value"], values="json", on_undecodable="null")
    report = ScanReport()
    assert nulls.to_arrow(report)["value"].to_pylist() == [
        {"a": 1, "b": None},
        None,
        {"a": None, "b": 2},
        *[None] * 4,
    ]
    assert {(one.version, one.reason, one.count, one.first, one.is_error) for one in report.undecodable} == {
        (None, "it ends inside a field", 1, "1:1", True),
        (None, "it is not JSON", 1, "2:0", True),
        (None, "it is not an object", 1, "2:1", True),
    }
    left = topic.scan(["value"], values="json", on_undecodable="skip")
    assert left.to_arrow()["value"].to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}, None, None]
    assert left.count() == topic.count(values="json", on_undecodable="skip") == 4
    assert topic.scan(["entry_id"], values="json", on_undecodable="skip").to_arrow().num_rows == 4
    assert topic.count(values="json") == 7
    assert topic.json_type(2, on_undecodable="skip").names == ["a", "b"]
    assert topic.json_type(2).names == ["a"]


@for_each(
    "schema",
    [
        pa.struct([("total", pa.int32()), ("who", pa.string())]),
        pa.schema([("total", pa.int32()), ("who", pa.string())]),
        {
            "type": "record",
            "name": "O",
            "fields": [{"name": "total", "type": "int"}, {"name": "who", "type": "string"}],
        },
        SchemaInfo(
            "AVRO",
            b'{"type":"record","name":"O","fields":[{"name":"total","type":"int"},{"name":"who","type":"string"}]}',
        ),
    ],
)
def test_a_type_that_is_given_leaves_out_other_fields(tmp_path_factory: pytest.TempPathFactory, schema: Any) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    topic = topic_of(tmp_path, *ORDERS)
    scan = topic.scan(["value"], values="json", schema_version=schema, on_undecodable="null")
    assert scan.schema.field("value").type == pa.struct([("total", pa.int32()), ("who", pa.string())])
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [
        {"total": None, "who": "ann"},
        None,
        {"total": 7, "who": None},
        None,
    ]
    assert [(one.count, one.first) for one in report.undecodable] == [(1, "1:1")]


def test_schemas_and_numbers_that_are_none(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, *ORDERS)
    for version in (0, 1, True, "each", "newest", SchemaInfo("INT64"), None, b"{}"):
        with pytest.raises(InvalidOptionError, match="ignores the schema versions of messages"):
            topic.scan(values="json", schema_version=version)
    for rows in ("x", -1, True, 1.0):
        with pytest.raises(InvalidOptionError, match=r"limit="):
            topic.json_type(rows)
    for schema in (pa.struct([("a", pa.duration("s"))]), {"type": "record"}):
        with pytest.raises(InvalidSchemaError):
            topic.scan(values="json", schema_version=schema)


def test_a_rare_row_is_found_in_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topic_of(tmp_path, [{"id": i, "rare": i % 700 == 699} for i in range(3000)])
    options: dict[str, Any] = {
        "values": "json", "flatten": True, "where": pc.field("rare"), "schema_version": topic.json_type()
    }  # fmt: skip
    steps: list[int] = []
    read = ValueReading.__call__

    def counted(reading: ValueReading, batch: pa.RecordBatch) -> Any:
        steps.append(batch.num_rows)
        return read(reading, batch)

    monkeypatch.setattr(ValueReading, "__call__", counted)
    for limit in range(6):
        steps.clear()
        found = topic.scan(["id"], limit=limit, **options).to_arrow()["id"].to_pylist()
        assert found == [699, 1399, 2099, 2799][:limit]
        assert len(steps) < 15
        assert limit != 1 or sum(steps) < 3 * 700


def test_a_field_that_an_inferred_type_lacks_is_never_left_out_unseen(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, [{"a": 1, "in": {"b": 2}}], [{"a": 2, "in": {"b": 3, "c": 4}}])
    before = InferredType(topic.json_type(1))
    with pytest.raises(UndecodableValueError, match=r"message 2:0: it has a field that the inferred type lacks"):
        topic.scan(values="json", schema_version=before).to_arrow()
    scan = topic.scan(["value"], values="json", schema_version=before, on_undecodable="null")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [{"a": 1, "in": {"b": 2}}, None]
    assert sum(one.count for one in report.undecodable) == 1
    assert values_of(topic, schema_version=before.type) == [{"a": n, "in": {"b": n + 1}} for n in (1, 2)]


def test_a_ledger_that_is_replaced_between_the_passes(tmp_path: Path) -> None:
    """Its second pass is an error: rows without a field, by the type of the first one, are never made."""
    topic = topic_of(tmp_path, [{"a": 1}], [{"a": 2}])
    scan = topic.scan(["value"], values="json")
    uuid = hash((NAME, 2)) % (1 << 100)
    put_in_folder(tmp_path, offload([entry(0, {"new": "x" * 50})], 2, name=NAME, uuid=uuid))
    with pytest.raises(StaleObjectError, match="was replaced"):
        scan.to_arrow()
    assert values_of(open_bucket(f"file://{tmp_path}").topic(EVENTS)) == [
        {"a": 1, "new": None},
        {"a": None, "new": "x" * 50},
    ]


def test_damage_is_met_by_both_passes_alike(tmp_path: Path) -> None:
    whole = ledger(2, {"b": "x" * 100}, {"c": 3})
    at = whole.data.index(b"x" * 100)
    (tmp_path / "t").mkdir()
    url = put_in_folder(tmp_path / "t", ledger(1, {"a": 1}), whole)
    (key,) = [key for key, data in whole.objects.items() if data == whole.data]
    (tmp_path / "t" / key).write_bytes(whole.data[:at] + b"y" + whole.data[at + 1 :])
    topic = open_bucket(url).topic(EVENTS)
    with pytest.raises(OSError, match="entry 2:0: its CRC32C"):
        topic.scan(values="json")
    scan = topic.scan(["value"], values="json", on_corrupt="skip")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [{"a": 1, "c": None}, {"a": None, "c": 3}]
    assert len(report.skipped) == 1
    (tmp_path / "t" / key).unlink()
    bucket = open_bucket(url)
    with pytest.raises(MissingLedgerError):
        bucket.topic(EVENTS).scan(values="json")
    assert values_of(bucket.topic(EVENTS), on_corrupt="skip") == [{"a": 1}]


@pytest.fixture(scope="module")
def golden(golden_typed: Path) -> Bucket:
    return open_bucket(f"file://{golden_typed}/bucket")


@for_each("name", ["json-odd", "json-pojo", "json-random-0", "json-random-1", "json-string", "py-json"])
def test_golden_documents(golden: Bucket, golden_typed: Path, name: str) -> None:
    with gzip.open(golden_typed / "expected-typed" / f"public%2Ftyped%2F{name}.jsonl.gz") as lines:
        nodes = [json.loads(line)["value"] for line in lines]
    topic = golden.topic(f"public/typed/{name}")
    kind = topic.json_type()
    are_rows = [not pa.types.is_struct(kind) or one["t"] in {"object", "null"} for one in nodes]
    found = values_of(topic, on_undecodable="skip")
    assert found == [reported(kind, document(one)) for one, is_row in zip(nodes, are_rows, strict=True) if is_row]
    assert len(found) > 50
    assert all(are_rows) or name == "json-odd"


def document(node: Node) -> Any:
    """Return a value of the golden set as `json.loads` does."""
    match node["t"]:
        case "null":
            return None
        case "object":
            return {name: document(one) for name, one in node["v"].items()}
        case "array":
            return [document(one) for one in node["v"]]
        case "string":
            return node["v"]
        case "boolean":
            return node["v"] == "true"
        case "double":
            return float(node["v"])
    return int(node["v"])

"""Files of messages, read back by the libraries that people read them with."""

import io
import json
import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptLedgerError, InvalidOptionError
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA, schema_of
from ledgerfs.tables import table_files
from ledgerfs.tables.table_files import TABLE_KINDS, write_table
from tests.support.each import for_each
from tests.support.json_lines import slow_fields, slow_lines, slow_value

PLAIN = "persistent://public/golden/plain"


def written(batches: list[pa.RecordBatch], schema: pa.Schema, kind: str) -> bytes:
    sink = io.BytesIO()
    assert write_table(iter(batches), schema, sink, kind) == sum(batch.num_rows for batch in batches)
    assert not sink.closed
    return sink.getvalue()


def messages(rows: int, value_bytes: int = 100, seed: int = 1) -> pa.RecordBatch:
    """Return made-up messages of every column, nulls among them."""
    rng = np.random.default_rng(seed)
    some = rng.random(rows) < 0.7
    columns = {}
    for field in MESSAGE_SCHEMA:
        numbers = rng.integers(0, 2000, rows)
        if pa.types.is_map(field.type):
            column = pa.array([[(f"n{i}", "é"), ("", "x" * (i % 50))][: i % 3] for i in numbers.tolist()], field.type)
        elif field.name == "value":
            column = pa.array([rng.bytes(int(i) % (2 * value_bytes)) for i in numbers], pa.binary())
        elif pa.types.is_binary(field.type) or pa.types.is_string(field.type):
            column = pa.array([f"{field.name} {i}" for i in numbers.tolist()], field.type)
        else:
            column = pa.array(np.sort(numbers)).cast(field.type)
        columns[field.name] = pa.compute.if_else(pa.array(some), column, None) if field.nullable else column
    return pa.RecordBatch.from_pydict(columns, MESSAGE_SCHEMA)


def in_pieces(batch: pa.RecordBatch, seed: int) -> list[pa.RecordBatch]:
    """Cut a batch at any places, into empty batches, too."""
    places = np.sort(np.random.default_rng(seed).integers(0, batch.num_rows + 1, 12)).tolist()
    return [
        batch.slice(start, stop - start) for start, stop in zip([0, *places], [*places, batch.num_rows], strict=True)
    ]


# Read back.


def from_csv(data: bytes) -> list[dict[str, str | None]]:
    """Read a CSV file as text: what is quoted is there even if it is empty, what is not there is null."""
    names = pa.csv.open_csv(io.BytesIO(data)).schema.names
    table = pa.csv.read_csv(
        io.BytesIO(data),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    rows: list[dict[str, str | None]] = table.to_pylist()
    return rows


def as_csv(batch: pa.RecordBatch) -> list[dict[str, str | None]]:
    """Return what the rows of a CSV file should be."""
    rows = []
    for i in range(batch.num_rows):
        row: dict[str, str | None] = {}
        for name in batch.schema.names:
            value = slow_value(batch[name], i)
            fields = {key: json.loads(text) for key, text in slow_fields(name, batch[name], i)}
            if name == "value":
                row |= {"value": fields.get("value"), "value_base64": fields.get("value_base64")}
            elif name == "properties":
                row[name] = slow_fields(name, batch[name], i)[0][1] if value else None
            elif pa.types.is_binary(batch[name].type):
                row[f"{name}_base64"] = fields.get(f"{name}_base64")
            else:
                row[name] = None if value is None else str(value)
        rows.append(row)
    return rows


def assert_reads_back(batches: list[pa.RecordBatch], schema: pa.Schema) -> None:
    """Check each kind of file against the batches."""
    table = pa.Table.from_batches(batches, schema)
    parquet = pq.read_table(io.BytesIO(written(batches, schema, "parquet")))
    assert parquet.schema == schema
    assert parquet == table
    arrow = pa.ipc.open_file(written(batches, schema, "arrow")).read_all()
    assert arrow.schema == schema
    assert arrow == table
    assert written(batches, schema, "jsonl") == b"".join(map(slow_lines, batches))
    assert from_csv(written(batches, schema, "csv")) == [row for batch in batches for row in as_csv(batch)]


@pytest.mark.long
def test_every_topic_reads_back_as_it_is_scanned(bucket: Bucket) -> None:
    for topic in bucket.topics():
        scan = bucket.topic(topic.name).scan(on_encrypted="null")
        # The lines of the slow writer take long for the long topics, which are made of the same messages over and over.
        batches = [batch.slice(0, 40) for batch in scan]
        assert batches, topic.name
        assert_reads_back(batches, scan.schema)


@pytest.mark.long
def test_all_columns_and_their_nulls_read_back() -> None:
    batch = messages(700)
    assert_reads_back([batch], batch.schema)
    assert_reads_back(in_pieces(batch, 3), batch.schema)


def test_no_messages_are_a_file_without_rows() -> None:
    schema = schema_of(None)
    assert pq.read_table(io.BytesIO(written([], schema, "parquet"))) == schema.empty_table()
    assert pa.ipc.open_file(written([], schema, "arrow")).read_all() == schema.empty_table()
    assert written([], schema, "jsonl") == b""
    (line,) = written([], schema, "csv").splitlines()
    assert line.startswith(b'"topic","ledger_id",')
    assert b'"value","value_base64","properties"' in line


@for_each("kind", [pa.string(), pa.int64(), pa.struct([("a", pa.int64())])])
def test_no_row_vanishes_from_a_csv_of_one_column(kind: pa.DataType) -> None:
    """A blank line is none to pandas and pyarrow."""
    values = {"value": pa.array([None, 1, None]).cast(kind) if kind == pa.int64() else pa.nulls(3, kind)}
    batch = pa.RecordBatch.from_pydict(values)
    with pytest.raises(InvalidOptionError, match="columns: a CSV with one column cannot contain a null of 'value'"):
        written([batch], batch.schema, "csv")
    two = pa.RecordBatch.from_pydict({"entry_id": [1, 2, 3], **values})
    assert len(from_csv(written([two], two.schema, "csv"))) == 3
    full = pa.RecordBatch.from_pydict({"value": ["a", ""]})
    assert written([full], full.schema, "csv") == b'"value"\n"a"\n""\n'


def test_no_row_vanishes_where_there_are_no_columns() -> None:
    batch = messages(3).select([])
    for kind in ("parquet", "csv"):
        with pytest.raises(InvalidOptionError, match=r"columns: .* cannot store rows without columns"):
            written([batch], batch.schema, kind)
    assert written([batch, batch], batch.schema, "jsonl") == b"{}\n" * 6
    assert pa.ipc.open_file(written([batch, batch], batch.schema, "arrow")).read_all().num_rows == 6


def test_an_empty_text_and_none_differ_in_csv() -> None:
    batch = pa.RecordBatch.from_pydict({"entry_id": [1, 2], "key": ["", None], "value": [b"", None]})
    assert written([batch], batch.schema, "csv").splitlines()[1:] == [b'1,"","",', b"2,,,"]


# How it is cut.


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_the_same_rows_are_the_same_bytes_however_they_come(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP_ROWS", 700)
    monkeypatch.setattr(table_files, "GROUP_BYTES", 100_000)
    batch = messages(5000)
    whole = written([batch], batch.schema, kind)
    for seed in range(5):
        assert written(in_pieces(batch, seed), batch.schema, kind) == whole


def groups_of(data: bytes) -> list[int]:
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_row_groups_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP_ROWS", 1000)
    batch = messages(2500)
    assert groups_of(written([batch.slice(0, 999), batch.slice(999)], batch.schema, "parquet")) == [1000, 1000, 500]
    monkeypatch.setattr(table_files, "GROUP_BYTES", 10_000)
    values = [b"x" * size for size in (100, 9000, 1000, 100_000, 10, 10, 9700, 9900, 5000)]
    large = pa.RecordBatch.from_pydict({"value": values})
    for pieces in ([large], [large.slice(i, 1) for i in range(len(values))]):
        assert groups_of(written(pieces, large.schema, "parquet")) == [2, 1, 1, 2, 1, 1, 1]


def test_row_groups_tell_what_is_in_them(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP_ROWS", 150)
    scan = bucket.topic(PLAIN).scan()
    file = pq.ParquetFile(io.BytesIO(written(list(scan), scan.schema, "parquet")))
    assert file.metadata.num_row_groups == 4
    for i in range(4):
        rows, group = file.read_row_group(i), file.metadata.row_group(i)
        for column in (group.column(j) for j in range(group.num_columns)):
            assert column.compression == "ZSTD"
            if column.path_in_schema in {"ledger_id", "entry_id", "publish_time"}:
                limits = pa.compute.min_max(rows[column.path_in_schema]).as_py()
                assert limits == {"min": column.statistics.min, "max": column.statistics.max}
            if column.path_in_schema == "value":
                assert column.statistics is None


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_memory_is_bounded_by_a_row_group(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP_BYTES", table_files.GROUP_BYTES // 16)
    batch = messages(1000, value_bytes=1024)
    before, peak = pa.total_allocated_bytes(), 0

    def many() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for _ in range(40):
            yield pa.concat_batches([batch])
            peak = max(peak, pa.total_allocated_bytes() - before)

    with open(os.devnull, "wb") as sink:  # noqa: PTH123
        assert write_table(many(), batch.schema, sink, kind) == 40 * 1000
    assert 40 * batch.nbytes > 40 << 20
    assert peak < (160 << 20) // 16


# What goes wrong.


@for_each("kind", TABLE_KINDS)
def test_errors_of_either_side_come_through(kind: str) -> None:
    batch = messages(5000)

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch
        raise CorruptLedgerError("broken", key="x")

    with pytest.raises(CorruptLedgerError, match="x: broken"):
        write_table(failing(), batch.schema, io.BytesIO(), kind)
    with open("/dev/full", "wb", buffering=0) as sink, pytest.raises(OSError, match="No space left"):  # noqa: PTH123
        write_table([batch], batch.schema, sink, kind)

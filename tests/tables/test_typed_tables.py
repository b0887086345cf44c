"""Files of typed values, read back by the libraries that people read them with."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket
from ledgerfs.errors import InvalidSchemaError, UnknownSchemaError
from ledgerfs.tables import table_files
from ledgerfs.tables.table_files import write_table
from tests.support.each import for_each
from tests.support.typed_golden import plain
from tests.support.typed_json import random_array, random_type, slow_json

VALUES = 35
"""Of so many values of each ledger a file is made: half of most ledgers, with values of all types. `tests/scan` tests what they are."""


def written(batches: list[pa.RecordBatch], schema: pa.Schema, kind: str) -> bytes:
    sink = io.BytesIO()
    write_table(batches, schema, sink, kind)
    return sink.getvalue()


def rows_of_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def stored(array: pa.Array) -> list[Any]:
    """Return values as Parquet holds them, to compare: structs without fields are true."""
    return [_stored(one, array.type) for one in plain(array)]


def _stored(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _stored(value[one.name], one.type) for one in kind} if kind.num_fields else True
    if pa.types.is_map(kind):
        return {key: _stored(one, kind.item_type) for key, one in value.items()}
    if pa.types.is_list(kind):
        return [_stored(one, kind.value_type) for one in value]
    return value


@pytest.mark.long
@pytest.mark.parametrize("flatten", [False, True])
def test_every_golden_topic_reads_back(typed: Bucket, *, flatten: bool) -> None:
    seen = 0
    for info in typed.topics():
        try:
            scan = typed.topic(info.name).scan(values="typed", flatten=flatten, on_undecodable="null")
        except (UnknownSchemaError, InvalidSchemaError):
            continue
        batches = [batch.slice(0, VALUES) for batch in scan]
        table = pa.Table.from_batches(batches, scan.schema).combine_chunks()
        parquet = pq.read_table(io.BytesIO(written(batches, scan.schema, "parquet")))
        arrow = pa.ipc.open_file(written(batches, scan.schema, "arrow")).read_all()
        lines = [json.loads(line) for line in written(batches, scan.schema, "jsonl").splitlines()]
        rows = rows_of_csv(written(batches, scan.schema, "csv"))
        assert len(lines) == len(rows) == table.num_rows
        for name in table.schema.names:
            column = table[name].combine_chunks()
            assert plain(arrow[name].combine_chunks()) == plain(column)
            assert plain(parquet[name].combine_chunks()) == stored(column), (info.name, name)
            if pa.types.is_nested(column.type) and name != "properties":
                texts = slow_json(column)
                assert [one.get(name) for one in lines] == [None if one is None else json.loads(one) for one in texts]
                assert [one[name] for one in rows] == [text or "" for text in texts]
                seen += 1
    assert seen > 20


@pytest.mark.long
@for_each("seed", range(25))
def test_columns_of_any_type_are_written_whatever_the_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP_BYTES", 4000)
    rng = np.random.default_rng(seed)
    values = random_array(rng, pa.struct([("a", random_type(rng)), ("b", random_type(rng)), ("c", pa.struct([]))]), 200)
    batch = pa.RecordBatch.from_arrays([pa.array(range(200)), values], ["entry_id", "value"])
    pieces = [batch.slice(0, 1), batch.slice(1, 70), batch.slice(71)]
    for kind in ("parquet", "arrow", "jsonl", "csv"):
        assert written(pieces, batch.schema, kind) == written([batch], batch.schema, kind)
    file = pq.ParquetFile(io.BytesIO(written(pieces, batch.schema, "parquet")))
    assert file.num_row_groups > 3
    assert plain(file.read()["value"].combine_chunks()) == stored(values)
    arrow = pa.ipc.open_file(written(pieces, batch.schema, "arrow")).read_all()["value"].combine_chunks()
    assert (arrow.type, plain(arrow)) == (values.type, plain(values))


def test_parquet_has_statistics_of_typed_fields() -> None:
    """And a field is encoded by its own type, even if it has the name of a column of messages."""
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(
                [{"amount": 15, "n": {"k": "a"}}],
                pa.struct([("amount", pa.int64()), ("n", pa.struct([("k", pa.string())]))]),
            ),
            "entry_id": pa.array(["text"]),
        }
    )
    group = pq.ParquetFile(io.BytesIO(written([batch], batch.schema, "parquet"))).metadata.row_group(0)
    leaves = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert leaves["value.amount"].statistics.min == 15
    assert leaves["value.n.k"].statistics.max == "a"
    assert leaves["entry_id"].statistics.max == "text"


def test_filters_of_all_readers_find_rows_of_nan(tmp_path: Path) -> None:
    """Statistics know none, and readers go by them: so there are none of numbers that may be NaN."""
    kind = pa.struct([("x", pa.float64()), ("many", pa.list_(pa.float32()))])
    rows = [{"x": 1.0, "many": [1.0]}, {"x": float("nan"), "many": [float("nan")]}, {"x": 1.0, "many": []}]
    batch = pa.RecordBatch.from_pydict(
        {"entry_id": range(3), "value": pa.array(rows, kind), "x": [1.0, float("nan"), 1.0]}
    )
    path = tmp_path / "rows.parquet"
    path.write_bytes(written([batch], batch.schema, "parquet"))
    field = pc.field("x")
    for wanted in (field != 1.0, pc.is_nan(field), ~(field == 1.0)):
        assert pads.dataset(path).to_table(filter=wanted)["entry_id"].to_pylist() == [1]
    assert pads.dataset(path).to_table(filter=pc.field("value", "x") != 1.0)["entry_id"].to_pylist() == [1]
    for reported in ([("x", "!=", 1.0)], [("x", "not in", [1.0])]):
        assert pd.read_parquet(path, filters=reported)["entry_id"].tolist() == [1]
    for text in ("x != 1", "isnan(x)", "x > 10", "value.x > 10"):
        assert duckdb.sql(f"select entry_id from '{path}' where {text}").fetchall() == [(1,)]
    assert pl.scan_parquet(path).filter(pl.col("x") != 1.0).collect()["entry_id"].to_list() == [1]

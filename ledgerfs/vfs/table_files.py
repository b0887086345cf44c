"""Messages as one file: Parquet, JSON lines, Arrow or CSV.

What is written depends on the rows alone, not on how they were cut into batches, so that the same messages always give the same bytes.
Memory is bounded by one row group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from ledgerfs.messages.json_lines import ROWS_AT_ONCE, json_lines
from ledgerfs.messages.json_values import base64_texts, properties, text_or_base64, times

GROUP_ROWS = 1 << 20
GROUP_BYTES = 64 << 20
"""A row group of Parquet, or a batch of an Arrow file, has at most so many rows and bytes of Arrow data (or one row that has more)."""

_BYTES_OF_A_ROW = 128
"""What a row takes besides its texts and bytes, about."""

_WITHOUT_STATISTICS = ("value", "properties")
_ASCENDING = ("entry_id", "publish_time", "sequence_id", "broker_index", "broker_time")
_REPEATED = (
    "topic",
    "ledger_id",
    "key",
    "properties.key_value.key",
    "properties.key_value.value",
    "producer_name",
    "schema_version",
    "partition",
    "txn_id",
    "txn_state",
    "replicated_from",
)


def write_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO, kind: str) -> int:
    """Write messages as a whole file, and return how many there were.

    Parameters
    ----------
    batches, schema
        Messages with columns of `MESSAGE_SCHEMA`. Without any, the file is that of an empty table.
    sink
        What is written to; it is not closed. When an error ends the writing, what was written is no whole file, even if it looks like one.
    kind
        One of `TABLE_KINDS`.

    """
    return _WRITERS[kind](batches, schema, sink)


def _write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO) -> int:
    names = set(schema.names)
    ascending = [name for name in _ASCENDING if name in names]
    rows = 0
    with pa.parquet.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=[name for name in _REPEATED if name.partition(".")[0] in names],
        column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED"),
        write_statistics=[name for name in schema.names if name not in _WITHOUT_STATISTICS],
    ) as writer:
        for group in _groups(batches):
            writer.write_batch(group, row_group_size=GROUP_ROWS)
            rows += group.num_rows
    return rows


def _write_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO) -> int:
    rows = 0
    with pa.ipc.new_file(sink, schema) as writer:
        for group in _groups(batches):
            writer.write_batch(group)
            rows += group.num_rows
    return rows


def _write_jsonl(batches: Iterable[pa.RecordBatch], _: pa.Schema, sink: BinaryIO) -> int:
    rows = 0
    for batch in batches:
        sink.writelines(map(json_lines, _slices(batch)))
        rows += batch.num_rows
    return rows


def _write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO) -> int:
    rows = 0
    with pa.csv.CSVWriter(sink, _flat(pa.RecordBatch.from_pylist([], schema)).schema) as writer:
        for batch in batches:
            for part in _slices(batch):
                writer.write_batch(_flat(part))
            rows += batch.num_rows
    return rows


_WRITERS: Mapping[str, Callable[[Iterable[pa.RecordBatch], pa.Schema, BinaryIO], int]] = MappingProxyType(
    {"parquet": _write_parquet, "jsonl": _write_jsonl, "arrow": _write_arrow, "csv": _write_csv}
)

TABLE_KINDS: Mapping[str, str] = MappingProxyType({kind: f".{kind}" for kind in _WRITERS})
"""The kinds of files, and the suffix of each."""


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, ROWS_AT_ONCE) for start in range(0, batch.num_rows, ROWS_AT_ONCE))


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in groups, cut by their own sizes wherever the batches begin and end."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        ends = _row_ends(batch)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + GROUP_BYTES - size, "right"))
            stop = max(start, min(fitting, start + GROUP_ROWS - rows))
            if stop == start and not parts:
                stop = start + 1
            if stop > start:
                parts.append(batch.slice(start, stop - start))
                rows += stop - start
                size += int(ends[stop - 1]) - before
            if stop < batch.num_rows:
                yield pa.concat_batches(parts)
                parts, rows, size = [], 0, 0
            start = stop
    if parts:
        yield pa.concat_batches(parts)


def _row_ends(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return for each row how many bytes it and those before it take in memory, about."""
    ends = np.arange(1, batch.num_rows + 1, dtype=np.int64) * _BYTES_OF_A_ROW
    for column in batch.columns:
        if pa.types.is_map(column.type):
            pairs = _offsets(column)
            for texts in column.values.flatten():
                ends += _from_first(_offsets(texts)[pairs])
        elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            ends += _from_first(_offsets(column))
    return ends


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    offsets = column.buffers()[1]
    if offsets is None or not offsets.size:
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)


def _from_first(offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    sizes: npt.NDArray[np.int64] = offsets[1:].astype(np.int64) - offsets[0]
    return sizes


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns as text and numbers: as `json_lines` has them, but that strings are as they are."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "value":
            escaped, encoded = text_or_base64(column)
            columns[name] = pa.compute.if_else(escaped.present, column, None).cast(pa.string())
            columns[f"{name}_base64"] = encoded.to_array()
        elif pa.types.is_binary(column.type):
            columns[f"{name}_base64"] = base64_texts(column).to_array()
        elif pa.types.is_timestamp(column.type):
            columns[name] = times(column).to_array()
        elif pa.types.is_map(column.type):
            columns[name] = properties(column).to_array()
        else:
            columns[name] = column
    return pa.RecordBatch.from_pydict(columns)

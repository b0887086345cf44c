"""Write messages as one file: Parquet, JSON lines, Arrow or CSV.

The bytes depend only on the rows, not on their batches: the same messages always result in the same file.
Memory is bounded by one row group.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from ledgerfs.errors import InvalidOptionError
from ledgerfs.messages.decode.table_schema import is_message_column
from ledgerfs.messages.text.json_lines import ROWS_AT_ONCE, is_bytes, json_lines, plain_texts
from ledgerfs.messages.text.json_typed import text_or_base64
from ledgerfs.tables.parquet_columns import leaves_of, stored_batch, stored_schema

GROUP_ROWS = 1 << 20
GROUP_BYTES = 64 << 20
"""Maximum rows, and maximum bytes of Arrow data, of a Parquet row group or an Arrow batch; a larger row has its own."""

_BYTES_OF_A_ROW = 128
"""Approximate bytes of a row without its texts, binary and typed values."""

_WITHOUT_STATISTICS = ("value", "properties")
_ASCENDING = ("entry_id", "publish_time", "sequence_id", "broker_index", "broker_time")
_REPEATED = (
    "topic",
    "ledger_id",
    "key",
    "properties",
    "producer_name",
    "schema_version",
    "partition",
    "txn_id",
    "txn_state",
    "replicated_from",
)


class TableWriter(Protocol):
    """A file of messages that is written batch by batch."""

    @property
    def rows(self) -> int:
        """Messages written so far."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Add messages, with the columns of the file."""
        ...

    def close(self) -> None:
        """Write the rest, which completes the file; the sink stays open."""
        ...

    def abandon(self) -> None:
        """Release the sink after an error. The file is incomplete, even if it appears complete."""
        ...


def write_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO, kind: str) -> int:
    """Write messages as a whole file, and return their number.

    Parameters
    ----------
    batches, schema
        Messages with columns of `MESSAGE_SCHEMA`, and any columns for typed values. Without messages, the file is an empty table.
    sink
        The file; stays open. After an error it has no footer: Parquet and Arrow files cannot be opened.
    kind
        One of `TABLE_KINDS`.

    Raises
    ------
    InvalidOptionError
        The format would lose rows: Parquet or CSV without columns, or null rows of a CSV with one column.

    """
    open_end = _Sink(sink)
    writer = _WRITERS[kind](schema, cast("BinaryIO", open_end))
    try:
        for batch in batches:
            writer.write(batch)
        writer.close()
    except BaseException:
        open_end.is_abandoned = True
        writer.abandon()
        raise
    return writer.rows


class _Sink(io.RawIOBase):
    """A file that drops all writes after it is abandoned, such as a writer's footer."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self.is_abandoned = False
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401  (bytes, or a buffer of pyarrow)
        return len(memoryview(data)) if self.is_abandoned else self._file.write(data)


class _GroupedFile:
    """A file of row groups, or of batches of that size."""

    def __init__(
        self,
        writer: Any,  # noqa: ANN401  (pyarrow is not typed)
        arguments: Mapping[str, Any] = MappingProxyType({}),
        stored: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> None:
        self.rows = 0
        self._stored = stored
        self._groups = _Groups()
        self._writer = writer
        self._arguments = arguments

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for group in self._groups.add(batch):
            self._writer.write_batch(self._stored(group), **self._arguments)

    def close(self) -> None:
        for group in self._groups.rest():
            self._writer.write_batch(self._stored(group), **self._arguments)
        self._writer.close()

    def abandon(self) -> None:
        self._writer.close()


def _parquet_file(schema: pa.Schema, sink: BinaryIO) -> TableWriter:
    _require_columns(schema, "Parquet")
    stored = stored_schema(schema)
    of_messages = [one for one in stored if is_message_column(one)]
    typed = [leaf for one in stored if not is_message_column(one) for leaf in leaves_of(one)]
    repeated = [leaf.path for one in of_messages if one.name in _REPEATED for leaf in leaves_of(one)]
    ascending = [one.name for one in of_messages if one.name in _ASCENDING]
    with_statistics = [one.name for one in of_messages if one.name not in _WITHOUT_STATISTICS]
    with_statistics += [leaf.path for leaf in typed if leaf.is_ordered]
    writer = pa.parquet.ParquetWriter(
        sink,
        stored,
        compression="zstd",
        use_dictionary=[*repeated, *(leaf.path for leaf in typed)],
        column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED"),
        write_statistics=with_statistics,
    )
    return _GroupedFile(writer, {"row_group_size": GROUP_ROWS}, lambda batch: stored_batch(batch, stored))


def _arrow_file(schema: pa.Schema, sink: BinaryIO) -> TableWriter:
    return _GroupedFile(pa.ipc.new_file(sink, schema))


class _JsonLinesFile:
    def __init__(self, _: pa.Schema, sink: BinaryIO) -> None:
        self.rows = 0
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._sink.writelines(map(json_lines, _slices(batch)))

    def close(self) -> None:
        """Do nothing: no rows are buffered."""

    def abandon(self) -> None:
        """Do nothing: no rows are buffered."""


class _CsvFile:
    def __init__(self, schema: pa.Schema, sink: BinaryIO) -> None:
        _require_columns(schema, "CSV")
        self.rows = 0
        self._writer = pa.csv.CSVWriter(sink, _flat(pa.RecordBatch.from_pylist([], schema)).schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for part in map(_flat, _slices(batch)):
            if part.num_columns == 1 and part.column(0).null_count:
                raise InvalidOptionError(
                    f"a CSV with one column cannot contain a null of {part.schema.names[0]!r}, because readers skip blank lines; "
                    "add a column, such as publish_time, or choose another format",
                    key="columns",
                )
            self._writer.write_batch(part)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        self._writer.close()


_WRITERS: Mapping[str, Callable[[pa.Schema, BinaryIO], TableWriter]] = MappingProxyType(
    {"parquet": _parquet_file, "jsonl": _JsonLinesFile, "arrow": _arrow_file, "csv": _CsvFile}
)

TABLE_KINDS: Mapping[str, str] = MappingProxyType({kind: f".{kind}" for kind in _WRITERS})
"""{kind of file: its suffix}."""


def _require_columns(schema: pa.Schema, kind: str) -> None:
    """Raise `InvalidOptionError` for a format that loses rows without columns, which a struct without fields may become."""
    if not schema.names:
        raise InvalidOptionError(
            f"{kind} cannot store rows without columns; add a column, such as publish_time", key="columns"
        )


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, ROWS_AT_ONCE) for start in range(0, batch.num_rows, ROWS_AT_ONCE))


class _Groups:
    """Groups of rows, split by the sizes of rows, not by incoming batches."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._rows = self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows, and yield full groups; the caller must consume all of them."""
        ends = _row_ends(batch)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + GROUP_BYTES - self._size, "right"))
            stop = max(start, min(fitting, start + GROUP_ROWS - self._rows))
            if stop == start and not self._parts:
                stop = start + 1
            if stop > start:
                self._parts.append(batch.slice(start, stop - start))
                self._rows += stop - start
                self._size += int(ends[stop - 1]) - before
            if stop < batch.num_rows:
                yield from self.rest()
            start = stop

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows, if there are any."""
        if self._parts:
            group = pa.concat_batches(self._parts)
            self._parts, self._rows, self._size = [], 0, 0
            yield group


def _row_ends(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return for each row the approximate bytes in memory up to and including it."""
    ends = np.arange(1, batch.num_rows + 1, dtype=np.int64) * _BYTES_OF_A_ROW
    rows = np.arange(batch.num_rows + 1)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not (is_message_column(field) and pa.types.is_primitive(column.type)):
            before = _bytes_before(column, rows)
            ends += before[1:] - before[0]
    return ends


def _bytes_before(column: pa.Array, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the approximate bytes of all items before each place, all with the same error."""
    kind = column.type
    if pa.types.is_struct(kind):
        fields = (column.field(place) for place in range(kind.num_fields))
        return sum((_bytes_before(one, places) for one in fields), np.zeros(places.size, np.int64))
    if pa.types.is_map(kind):
        inner = _offsets(column)[places].astype(np.int64)
        return _bytes_before(column.keys, inner) + _bytes_before(column.items, inner)
    if pa.types.is_list(kind):
        return _bytes_before(column.values, _offsets(column)[places].astype(np.int64))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _offsets(column)[places].astype(np.int64)
    size = 0 if pa.types.is_null(kind) else max(1, kind.bit_width // 8)
    return size * places


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    offsets = column.buffers()[1]
    if offsets is None or not offsets.size:
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns as text and numbers, as in `json_lines`, but with unchanged strings; nested values are JSON."""
    names: list[str] = []
    columns: list[pa.Array] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = plain_texts(name, column)
        if name == "value" and pa.types.is_binary(column.type):
            columns += text_or_base64(column)
            names += [name, f"{name}_base64"]
        else:
            columns.append(column if texts is None else texts)
            names.append(f"{name}_base64" if is_bytes(column.type) else name)
    return pa.RecordBatch.from_arrays(columns, names)

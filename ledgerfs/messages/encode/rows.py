"""Rows to entries, the inverse of `decode`: batches as in Pulsar's Java client (``docs/formats/entries.md``).

One kernel finds the start of each entry. Then the entries of some MiB of rows are made together, by other threads if wanted: only codecs
that are called from Python need the interpreter's lock. How rows are split into record batches changes nothing in the entries.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import InvalidOptionError, InvalidRowsError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.decompression import LARGEST, MAX_STORED_BYTES, Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_versions import numbers_named
from ledgerfs.messages.codecs.compress import codec_named, stored_payloads
from ledgerfs.messages.encode.encode_kernels import ROOM_OF_ENTRY, cut_entries, write_entries, write_payloads
from ledgerfs.messages.encode.input_columns import InputColumns, require_time
from ledgerfs.messages.encode.kernel_rows import KernelRows, kernel_rows, publish_times_of_rows, value_sizes
from ledgerfs.messages.kernels.arrays import empty

_PORTION_BYTES = 4 << 20
_PORTION_ROWS = 1 << 15
"""Size of a portion: large enough that calls cost little, small enough that several fit into memory."""


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Options for encoding rows to entries.

    Attributes
    ----------
    batch
        Most messages of an entry; with 1, each message is a separate entry, without a batch.
    compression
        ``none``, ``lz4``, ``zlib``, ``zstd`` or ``snappy``.
    producer_name
        For rows without one.
    max_entry_bytes
        The largest entry, in bytes; a batch ends before it would be larger.
    publish_time_ms
        For rows without a publish time, ms since 1970 UTC; None for the time when the encoder is created.

    """

    batch: int = 1000
    compression: str = "none"
    producer_name: str = "ledgerfs"
    max_entry_bytes: int = MAX_STORED_BYTES
    publish_time_ms: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= LARGEST:
            raise InvalidOptionError("expected 1 or more messages", key=f"batch={self.batch}")
        if not ROOM_OF_ENTRY <= self.max_entry_bytes <= LARGEST // 2:
            raise InvalidOptionError(
                f"expected {ROOM_OF_ENTRY} to {LARGEST // 2} bytes", key=f"max_entry_bytes={self.max_entry_bytes}"
            )
        if not self.producer_name:
            raise InvalidOptionError("is empty", key="producer_name")
        if self.publish_time_ms is not None:
            try:
                require_time(self.publish_time_ms)
            except ValueError as error:
                raise InvalidOptionError(str(error), key="publish_time_ms") from error


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows that are split into entries, whose bytes are not made yet.

    Attributes
    ----------
    rows
        Arrays for the kernels.
    starts
        The first row of each entry, and the row after the last one.
    room
        Most bytes of the entries, uncompressed.
    first_row, first_entry
        Number of the first row, and id of the first entry.
    codec, limit
        Codec of the payloads, and bytes of the largest entry.

    """

    rows: KernelRows
    starts: Int64
    room: int
    first_row: int
    first_entry: int
    codec: Compression
    limit: int


InOrder = Callable[[Callable[[Portion], EntryBatch], Iterable[Portion]], Iterator[EntryBatch]]
"""Calls a function with each portion, and yields the results in that order: `map`, or the ``map`` of an executor of threads."""


class MessageEncoder:
    """Makes the entries of one topic from rows, with ids from 0 on.

    Parameters
    ----------
    schema
        Schema of all rows; `INPUT_COLUMNS` has the possible columns.
    options
        Batch size, compression, and values for missing columns.
    in_order
        Makes the portions: `map`, or the ``map`` of a `ThreadPoolExecutor`, which makes several at a time.
    ahead
        How many portions may be in progress while the caller has the entries of an earlier one; 0 with `map`.

    Raises
    ------
    InvalidOptionError
        An invalid option.
    InvalidRowsError
        An invalid column.

    Attributes
    ----------
    ignored_columns
        Columns of the rows that are not used (`IGNORED_COLUMNS`).
    messages, entries
        How many rows were accepted so far, and how many entries they were split into.
    earliest_publish_ms
        Their earliest publish time, ms since 1970 UTC; None before the first one.
    schema_versions
        Numbers of the schemas that they name.

    """

    def __init__(self, schema: pa.Schema, options: EncodeOptions, in_order: InOrder = map, ahead: int = 0) -> None:
        self._columns = InputColumns(schema)
        self._options = options
        self._codec = codec_named(options.compression)
        self._in_order = in_order
        self._ahead = ahead
        self._now = int(time.time() * 1000) if options.publish_time_ms is None else options.publish_time_ms
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._under_way: deque[Iterator[EntryBatch]] = deque()
        self._cut_rows = 0
        self.ignored_columns = self._columns.ignored
        self.messages = self.entries = 0
        self.earliest_publish_ms: int | None = None
        self.schema_versions: set[int] = set()

    def encode(self, rows: pa.RecordBatch) -> Iterator[EntryBatch]:
        """Accept rows, and yield the finished entries, in order.

        The records are contiguous in the buffer, each with its 12-byte header, so
        ``buffer[offsets[0] - 12 : offsets[-1] + lengths[-1]]`` is a part of a file of records. Buffers belong to the caller.

        Raises `InvalidRowsError`, which names the row, counted from 0 over all calls.
        """
        for part in portions_of(rows):
            plain = self._columns.plain(part, self.messages)
            self.messages += plain.num_rows
            if "schema_version" in plain.schema.names:
                self.schema_versions |= numbers_named(plain["schema_version"].cast(pa.binary()))
            self._waiting.append(plain)
            self._waiting_bytes += plain.nbytes
            self._waiting_rows += plain.num_rows
            if self._waiting_bytes >= _PORTION_BYTES or self._waiting_rows >= _PORTION_ROWS:
                yield from self._start(is_end=False)

    def finish(self) -> Iterator[EntryBatch]:
        """Yield the remaining entries."""
        yield from self._start(is_end=True)
        while self._under_way:
            yield from self._under_way.popleft()

    def _start(self, *, is_end: bool) -> Iterator[EntryBatch]:
        """Begin to make the entries of the waiting rows, except the last one if more rows may belong to it."""
        portion = self._cut(is_end=is_end)
        if portion is not None:
            self._under_way.append(iter(self._in_order(_entries_of, [portion])))
        while len(self._under_way) > self._ahead:
            yield from self._under_way.popleft()

    def _cut(self, *, is_end: bool) -> Portion | None:
        rows = _joined(self._waiting)
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
        if rows is None:
            return None
        given = kernel_rows(rows, self._cut_rows, self._now, self._options.producer_name.encode())
        starts = np.empty(rows.num_rows + 1, np.int64)
        limit = self._options.max_entry_bytes
        count, room = cut_entries(given, self._options.batch, limit, starts, is_end)
        stop = int(starts[count])
        if stop < rows.num_rows:
            self._waiting = [rows.slice(stop)]
        if not count:
            return None
        self._check(given, stop)
        portion = Portion(given, starts[: count + 1].copy(), room, self._cut_rows, self.entries, self._codec, limit)
        self._cut_rows += stop
        self.entries += count
        return portion

    def _check(self, rows: KernelRows, stop: int) -> None:
        """Raise `InvalidRowsError` for rows too large for an entry, before memory is allocated; record the earliest publish time."""
        sizes = value_sizes(rows)[:stop]
        largest = self._options.max_entry_bytes if self._codec == Compression.NONE else LARGEST // 2
        for row in np.flatnonzero(sizes > largest)[:1].tolist():
            raise _too_large(self._cut_rows + row, int(sizes[row]), self._options.max_entry_bytes)
        earliest = int(publish_times_of_rows(rows)[:stop].min())
        self.earliest_publish_ms = (
            earliest if self.earliest_publish_ms is None else min(earliest, self.earliest_publish_ms)
        )


def portions_of(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of about a portion each."""
    size = max(1, min(_PORTION_ROWS, rows.num_rows * _PORTION_BYTES // max(rows.nbytes, 1)))
    return (rows.slice(start, size) for start in range(0, rows.num_rows, size))


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return parts, which may have different columns, as one; None without any row."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    fields = {field.name: field for part in parts for field in part.schema}
    if any(len(fields) != part.num_columns for part in parts):
        parts = [_with_columns(part, fields.values()) for part in parts]
    return pa.concat_batches(part.select(list(fields)) for part in parts)


def _with_columns(part: pa.RecordBatch, fields: Iterable[pa.Field]) -> pa.RecordBatch:
    columns = dict(zip(part.schema.names, part.columns, strict=True))
    return pa.RecordBatch.from_pydict(
        {field.name: columns.get(field.name, pa.nulls(part.num_rows, field.type)) for field in fields}
    )


def _too_large(row: int, size: int, limit: int) -> InvalidRowsError:
    return InvalidRowsError.of(
        row,
        f"the message needs an entry of {size} bytes, but the limit is {limit}; raise max_entry_bytes (--max-entry-size)",
    )


def _entries_of(portion: Portion) -> EntryBatch:
    """Make the entries of a portion."""
    rows, starts = portion.rows, portion.starts
    count = starts.size - 1
    codecs = np.full(count, portion.codec, np.int64)
    plain = stored_at = np.zeros(count + 1, np.int64)
    stored = np.empty(0, np.uint8)
    room = portion.room
    if portion.codec != Compression.NONE:
        plain, stored, stored_at = _compressed(portion, codecs)
        room += max(0, stored.size - int(plain[-1]))
    out = empty(room, np.uint8)
    offsets, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    write_entries(rows, starts, portion.first_entry, codecs, plain, (stored, stored_at), out, offsets, lengths)
    if lengths.max() > portion.limit:
        entry = int(lengths.argmax())
        raise _too_large(portion.first_row + int(starts[entry]), int(lengths[entry]), portion.limit)
    return EntryBatch(portion.first_entry, memoryview(out), offsets, lengths, is_framed=True)  # type: ignore[arg-type]


def _compressed(portion: Portion, codecs: Int64) -> tuple[Int64, npt.NDArray[np.uint8], Int64]:
    """Return the offsets of the plain payloads, the compressed payloads, and the offsets of those.

    A payload that compression would make too large for an entry stays plain, and its codec is set to 0.
    """
    plain_at = np.empty(codecs.size + 1, np.int64)
    plain = empty(portion.room, np.uint8)
    write_payloads(portion.rows, portion.starts, plain, plain_at)
    stored, stored_at = stored_payloads(portion.codec, plain, plain_at, portion.limit - ROOM_OF_ENTRY, codecs)
    return plain_at, stored, stored_at

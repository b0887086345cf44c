"""A topic, or some ledgers of it, as a table: a stream of Arrow record batches of bounded size.

A partitioned topic is a table of several parts, one after the other or merged by publish time. Each part is read separately: chunked
messages are joined, and outcomes of transactions are found, within a partition.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ledgerfs.catalog.missing_ledgers import MissingLedger, require_present
from ledgerfs.catalog.reader import OnRead
from ledgerfs.catalog.time_arguments import Milliseconds
from ledgerfs.display import html_table, names_shown, printable
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.decode.payloads import Decrypt
from ledgerfs.scan.json_documents import json_values
from ledgerfs.scan.merged_batches import merged_by_publish_time
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import PartReading, TopicPart, decrypt_with
from ledgerfs.scan.projection import Projection, needs_values
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.shown_values import ShownValues
from ledgerfs.scan.typed_values import typed_values
from ledgerfs.scan.value_reading import ValueReading

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow.compute as pc

    from ledgerfs.scan.message_by_id import Message


@dataclass(frozen=True, slots=True)
class Scan:
    """An immutable table; each iteration reads it again.

    It is an Arrow stream (``__arrow_c_stream__``): ``pa.table(scan)``, ``pl.DataFrame(scan)``. Memory is bounded by a few windows of 8 MiB
    and their decompressed contents, for a topic of any length; for each partition, if partitions are merged.

    Every method that reads accepts a `ScanReport`, and adds to it what this read has skipped.

    Attributes
    ----------
    topic
        Name of the topic; the column ``topic`` contains the names of partitions.
    parts
        The topic, or its partitions by their numbers, from one catalog.
    options
        The options of the scan.
    values
        The value format as columns; None for bytes, and for values that are not read.
    projection
        The columns of rows, and those to read for them.
    decrypt
        Decrypts payloads; None without private keys.
    on_read
        Called with the bytes of entries as they are read, to show progress.

    """

    topic: str
    parts: tuple[TopicPart, ...]
    options: ScanOptions
    values: ShownValues | None
    projection: Projection = field(repr=False)
    decrypt: Decrypt | None = field(default=None, repr=False)
    on_read: OnRead | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        size = f"{len(self.parts[0].ledgers):,} ledgers" if len(self.parts) == 1 else f"{len(self.parts):,} partitions"
        return f"<scan of {printable(self.topic)}: {size}, columns {', '.join(self.schema.names)}>"

    def __dir__(self) -> list[str]:
        return list(names_shown(self))

    def _repr_html_(self) -> str:
        """Return the schema as HTML; reads nothing."""
        return html_table(repr(self), ("column", "type"), ((one.name, one.type) for one in self.schema))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches()

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.projection.schema

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Unreadable ledgers. Unless ``on_corrupt`` is ``skip``, a read raises `MissingLedgerError` before its first row."""
        return tuple(one for part in self.parts for one in part.missing)

    def batches(self, report: ScanReport | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows, batch by batch; raises `MissingLedgerError`, and the errors of reading."""
        report = ScanReport() if report is None else report
        report.begin(self.topic, self.missing)
        self.require_all()
        return self._rows(report)

    def _rows(self, report: ScanReport) -> Iterator[pa.RecordBatch]:
        projection = self.projection
        decode = None if projection.values is None else ValueReading(projection.values, report.undecodable)
        yield from projection.rows(self._messages(report), decode, self.options.limit)
        report.is_whole = self.options.limit is None

    def _messages(self, report: ScanReport) -> Iterator[pa.RecordBatch]:
        """Read the columns of messages that are needed for the rows."""
        options, columns = self._narrowed(), self.projection.read
        if options is None:
            return iter(())
        if self.options.order == "publish_time" and len(self.parts) > 1 and self.schema.names:
            columns = columns if "publish_time" in columns else (*columns, "publish_time")
            options = replace(options, threads=1)
            return merged_by_publish_time([iter(self._reading(part, options, columns, report)) for part in self.parts])
        return chain.from_iterable(self._reading(part, options, columns, report) for part in self.parts)

    def _reading(
        self, part: TopicPart, options: ScanOptions, columns: Sequence[str], report: ScanReport
    ) -> PartReading:
        return PartReading(
            part, options, columns, report, decrypt=self.decrypt,
            ledger_ids=self.projection.ledger_ids, on_read=self.on_read,
        )  # fmt: skip

    def _narrowed(self) -> ScanOptions | None:
        """Return the options with the range of time that the condition implies; None if no message is in both."""
        bounds = self.projection.times
        starts = [one for one in (self.options.start_ms, _milliseconds(bounds.start, 0)) if one is not None]
        ends = [one for one in (self.options.end_ms, _milliseconds(bounds.end, 999)) if one is not None]
        start, end = max(starts, default=None), min(ends, default=None)
        if start is not None and end is not None and start >= end:
            return None
        threads = self.options.threads or (1 if self.options.limit is not None else len(os.sched_getaffinity(0)))
        return replace(self.options, start_time=start, end_time=end, threads=threads)

    def count(self, report: ScanReport | None = None) -> int:
        """Return the number of rows. Raises as `batches`.

        Builds no column, and decompresses and decrypts nothing, unless a condition needs it, or ``on_undecodable="skip"``. So encrypted
        messages are counted without their keys, too, unless ``on_encrypted`` is ``null`` or ``skip``.
        """
        return sum(batch.num_rows for batch in self.with_columns(()).batches(report))

    def with_columns(self, columns: Sequence[str], where: "pc.Expression | None" = None) -> "Scan":
        """Return the scan of the same messages with other columns; with ``where`` only of those for which it is true, too."""
        own = self.options.where
        both = own if where is None else where if own is None else own & where
        options = replace(self.options, columns=columns, where=both)
        return replace(self, options=options, projection=Projection.of(options, self.values))

    def to_arrow(self, report: ScanReport | None = None) -> pa.Table:
        """Read all of it into memory."""
        return pa.Table.from_batches(list(self.batches(report)), self.schema)

    def to_arrow_batch_reader(self, report: ScanReport | None = None) -> pa.RecordBatchReader:
        """Return the stream as a pyarrow reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches(report))

    def to_pandas(self, report: ScanReport | None = None, **options: Any) -> "pd.DataFrame":  # noqa: ANN401  (pyarrow's own)
        """Read all of it into a pandas DataFrame; ``options`` are those of `pyarrow.Table.to_pandas`."""
        frame: pd.DataFrame = self.to_arrow(report).to_pandas(**options)
        return frame

    def to_polars(self, report: ScanReport | None = None) -> "pl.DataFrame":
        """Read all of it into a Polars DataFrame."""
        import polars as pl  # an optional library

        frame = pl.from_arrow(self.to_arrow(report))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101  (of a table)
        return frame

    def to_duckdb(
        self, report: ScanReport | None = None, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return a DuckDB relation that streams the rows once, on a connection or the default one."""
        import duckdb  # an optional library

        return duckdb.from_arrow(
            self.to_arrow_batch_reader(report), connection=connection or duckdb.default_connection()
        )

    def rows(self, report: ScanReport | None = None) -> "Iterator[Message]":
        """Yield the rows as `Message` objects with all columns of the message table: for few rows, not for speed."""
        from ledgerfs.scan.message_by_id import COLUMNS, Message  # only for this

        values = None if self.values is None else replace(self.values, flatten=False)
        for batch in replace(self, values=values).with_columns(COLUMNS).batches(report):
            for place in range(batch.num_rows):
                yield Message.of(batch.slice(place, 1))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        capsule: object = self.to_arrow_batch_reader().__arrow_c_stream__(requested_schema)
        return capsule

    def require_all(self) -> None:
        """Raise as `require_present` if the topic lacks ledgers."""
        require_present(self.topic, self.missing, self.options.on_corrupt)


def make_scan(
    topic: str,
    parts: Sequence[TopicPart],
    options: ScanOptions,
    schemas: Callable[[], TopicSchemas] = TopicSchemas,
) -> Scan:
    """Return a scan; calls ``schemas`` for those of the topic if they are needed to read values.

    To infer the type of JSON documents, reads all that the scan reads. Raises `InvalidOptionError` for an invalid column or condition, and
    as `typed_values` and `json_values`.
    """
    shown = shown_values(topic, options, schemas)
    if shown is not None and shown.source.awaits_values:
        shown = learned_values(shown, topic, parts, options)
    return scan_of(topic, parts, options, shown)


def scan_of(topic: str, parts: Sequence[TopicPart], options: ScanOptions, shown: ShownValues | None) -> Scan:
    """Return a scan with a known value format; raises `InvalidOptionError`."""
    return Scan(topic, tuple(parts), options, shown, Projection.of(options, shown), decrypt_with(options))


def shown_values(
    topic: str, options: ScanOptions, schemas: Callable[[], TopicSchemas] = TopicSchemas
) -> ShownValues | None:
    """Return the value format of a scan, None for bytes; the type of JSON documents may have to be inferred (`learned_values`)."""
    match options.values:
        case "bytes":
            return None
        case "json":
            shown = json_values(options)
            return None if shown.source.awaits_values and not needs_values(options) else shown
    return typed_values(topic, schemas(), options)


def learned_values(shown: ShownValues, topic: str, parts: Iterable[TopicPart], options: ScanOptions) -> ShownValues:
    """Return the value format with the type of all documents that a scan with these options reads; raises as that scan."""
    bare = replace(options.with_bytes(), columns=("value",), where=None, limit=None, order="partition")
    most = options.limit if options.where is None else None
    return shown.learned(make_scan(topic, tuple(parts), bare), most)


def _milliseconds(bound: int | None, rest: int) -> Milliseconds | None:
    """Return a bound of publish times, µs, as ms."""
    return None if bound is None else Milliseconds((bound + rest) // 1000)

"""Write rows as the entries of a data object, for every writer of rows; another process may put its index."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from ledgerfs.catalog.layout import Progress
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger
from ledgerfs.layouts.pulsar_blob.writer import LedgerWriter, UnindexedLedger
from ledgerfs.messages.encode.rows import EncodeOptions, MessageEncoder
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 2
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class AddedRows:
    """The outcome of writing rows.

    Attributes
    ----------
    messages
        Number of messages.
    earliest_ms
        The earliest publish time, ms since 1970 UTC, which is the creation of their ledger; None without messages.
    ignored_columns
        Columns with only the positions of messages.
    schema_versions
        Numbers of the schemas in the messages.

    """

    messages: int
    earliest_ms: int | None
    ignored_columns: tuple[str, ...]
    schema_versions: frozenset[int]


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of messages, columns named as in `ledgerfs.messages.decode.table_schema`.

    Attributes
    ----------
    schema
        Columns of all rows.
    batches
        The rows, which can be read once.
    count
        Number of rows; None if only reading them can count them.

    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    count: int | None = None


def write_rows(store: RawStore, ledger: NewLedger, rows: MessageRows, options: EncodeOptions) -> UnindexedLedger:
    """Write rows as a data object, which `publish` makes a ledger; its creation time is the earliest publish time of its messages.

    Raises as `add_rows`, also without rows; the bucket is then unchanged.
    """
    with LedgerWriter(store, ledger) as writer:
        added = add_rows(writer, rows, options)
        return writer.complete(created_ms=added.earliest_ms)


def add_rows(
    writer: LedgerWriter, rows: MessageRows, options: EncodeOptions, progress: Progress | None = None
) -> AddedRows:
    """Add all rows to a ledger. Raises as `MessageEncoder` and the writer."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="ledgerfs-encode") as pool:
        encoder = MessageEncoder(rows.schema, options, pool.map, _AHEAD)
        for some in _read_ahead(iter(rows.batches)):
            for batch in encoder.encode(some):
                writer.add(batch)
            if progress is not None:
                progress("importing rows", encoder.messages, rows.count)
        for batch in encoder.finish():
            writer.add(batch)
    return AddedRows(
        encoder.messages,
        encoder.earliest_publish_ms,
        tuple(encoder.ignored_columns),
        frozenset(encoder.schema_versions),
    )


def _read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the next rows while the previous ones are encoded."""
    places = iter(lambda: batches, None)
    for rows in ordered_map(lambda source: next(source, None), places, 1, "ledgerfs-rows"):
        if rows is None:
            return
        yield rows

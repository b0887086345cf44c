"""Rows become the entries of one ledger, whoever brings them, and whoever makes it a ledger in the end."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from ledgerfs.dialects.pulsar_blob.new_ledger import NewLedger
from ledgerfs.dialects.pulsar_blob.writer import LedgerWriter, UnindexedLedger
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.messages.encode.rows import EncodeOptions, MessageEncoder
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 2
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """A data object that rows were written to.

    Attributes
    ----------
    messages
        How many there are.
    ignored_columns
        Columns that only tell where messages were.

    """

    ledger: UnindexedLedger
    messages: int
    ignored_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of messages, columns named as in `ledgerfs.messages.decode.table_schema`.

    Attributes
    ----------
    schema
        Columns of all rows.
    batches
        The rows, which are read once.
    count
        How many there are; None where only reading them tells.

    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    count: int | None = None


def write_rows(
    store: RawStore, ledger: NewLedger, rows: Rows, options: EncodeOptions, progress: Progress | None = None
) -> WrittenRows:
    """Write rows as a data object, which `publish` makes a ledger; its creation is the earliest publish time of its messages.

    Raises what `MessageEncoder` and `LedgerWriter` raise, also for no rows; the bucket is as it was then.
    """
    with (
        ThreadPoolExecutor(_THREADS, thread_name_prefix="ledgerfs-encode") as pool,
        LedgerWriter(store, ledger) as writer,
    ):
        encoder = MessageEncoder(rows.schema, options, pool.map, _AHEAD)
        for some in _read_ahead(iter(rows.batches)):
            for batch in encoder.encode(some):
                writer.add(batch)
            if progress is not None:
                progress("importing rows", encoder.messages, rows.count)
        for batch in encoder.finish():
            writer.add(batch)
        made = writer.complete(created_ms=encoder.earliest_publish_ms)
    return WrittenRows(made, encoder.messages, tuple(encoder.ignored_columns))


def _read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the next rows while those before are encoded."""
    places = iter(lambda: batches, None)
    for rows in ordered_map(lambda source: next(source, None), places, 1, "ledgerfs-rows"):
        if rows is None:
            return
        yield rows

"""Importing: rows become messages of a new ledger."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.messages.encode import EncodeOptions
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.layout import Progress
from ledgerfs.vfs.writing.ledger_rows import Rows, write_rows
from ledgerfs.vfs.writing.ledger_writer import WrittenLedger, publish
from ledgerfs.vfs.writing.write import IfExists, Wanted, free_ledger_id, is_there


class RowSource(Protocol):
    """Rows of messages, columns named as in `ledgerfs.messages.table_schema`; `ledgerfs.vfs.row_files.RowFile` is one."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of all rows."""
        ...

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where only reading them tells."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        ...


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import wrote.

    Attributes
    ----------
    ignored_columns
        Columns that only tell where messages were.

    """

    written: WrittenLedger
    messages: int
    ignored_columns: tuple[str, ...] = field(default=())


def import_rows(
    bucket: Bucket,
    source: RowSource,
    topic: str,
    *,
    ledger_id: int | None = None,
    options: EncodeOptions | None = None,
    block_size: int | None = None,
    if_exists: IfExists = IfExists.FAIL,
    progress: Progress | None = None,
) -> Imported:
    """Write rows as messages of a topic, in a ledger of their own.

    Its creation is told as the earliest publish time of its messages, so that no question about times leaves it out.

    Parameters
    ----------
    bucket, source
        Where to, and what.
    topic
        ``persistent://tenant/namespace/topic``, or a short form of it.
    ledger_id
        None for one above all that the bucket has.
    options, block_size
        How rows become entries; bytes of a block, None for 64 MiB.
    if_exists
        What to do when there is a ledger of this id; it is not skipped.
    progress
        Is told how many rows are written.

    Raises
    ------
    LedgerExistsError, InvalidNameError
        Before a row is read.
    RefusedLedgerError, InvalidRowsError, …
        No rows, or one that cannot be a message; the bucket is as it was.

    """
    managed_ledger = managed_ledger_of(topic)
    ledger_id = free_ledger_id(bucket) if ledger_id is None else ledger_id
    is_there(bucket, ledger_id, if_exists)
    wanted = Wanted(managed_ledger, ledger_id, block_size=block_size).new_ledger()
    rows = Rows(source.schema, source.batches(), source.rows)
    made = write_rows(bucket.raw_store, wanted, rows, options or EncodeOptions(), progress)
    written = publish(bucket.raw_store, made.ledger)
    bucket.note_written(ledger_id, managed_ledger)
    return Imported(written, made.messages, made.ignored_columns)

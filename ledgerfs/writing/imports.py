"""Importing: rows become messages of a new ledger."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger, publish
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.writing.admission import Admission
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.ledger_rows import Rows, write_rows
from ledgerfs.writing.own_ids import new_own_id
from ledgerfs.writing.write import Wanted


class RowSource(Protocol):
    """Rows of messages, columns named as in `ledgerfs.messages.decode.table_schema`; `ledgerfs.tables.row_files.RowFile` is one."""

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
        None for one of our own, which no cluster hands out (`ledgerfs.writing.own_ids`).
    options, block_size
        How rows become entries; bytes of a block, None for 64 MiB.
    if_exists
        What to do when there is a ledger of the id that was named; it is not skipped. ``NEW_COPY`` stands beside damaged ledgers of this
        topic and id only: rows that are encoded now are no copy of one that is whole, and one of the two would hide the other.
    progress
        Is told how far the bucket is listed, and how many rows are written.

    Raises
    ------
    LedgerExistsError, InvalidNameError
        Before a row is read; or, when somebody else has written a ledger of this id meanwhile, in the end. Ours is removed again then.
    RefusedLedgerError, InvalidRowsError, …
        No rows, or one that cannot be a message; the bucket is as it was.

    """
    managed_ledger = managed_ledger_of(topic)
    admission = Admission(bucket, progress)
    if ledger_id is None:
        ledger_id, if_exists = new_own_id([admission.taken.catalog], [managed_ledger]), IfExists.FAIL
    wanted = Wanted(managed_ledger, ledger_id, block_size=block_size)
    ledger, claim = wanted.new_ledger(), replace(wanted.claim(if_exists), is_original=True)
    admission.require_free(claim)
    rows = Rows(source.schema, source.batches(), source.rows)
    made = write_rows(bucket.raw_store, ledger, rows, options or EncodeOptions(), progress)
    written = publish(bucket.raw_store, made.ledger)
    admission.wrote(claim, written)
    admission.confirm()
    return Imported(written, made.messages, made.ignored_columns)

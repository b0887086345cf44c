"""Import rows as messages of a new ledger."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.catalog.layout import Progress
from ledgerfs.errors import InvalidOptionError, LedgerfsError, NamedSchemasWarning, RefusedLedgerError
from ledgerfs.export.folder import at_rest
from ledgerfs.formats.decompression import MAX_STORED_BYTES
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaInfo
from ledgerfs.formats.topic_names import managed_ledger_of, schema_owner, split_partition
from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.messages.encode.values.typed_rows import TypedRows
from ledgerfs.messages.encode.values.value_encoders import encoder_of
from ledgerfs.scan.scan import Scan
from ledgerfs.schemas.by_hand import schema_given
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.tables.row_files import FoundFiles, find_rows
from ledgerfs.writing.admission import Admission, is_current
from ledgerfs.writing.bucket_writer import BucketWriter
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.ledger_rows import MessageRows, add_rows
from ledgerfs.writing.own_ids import new_own_id
from ledgerfs.writing.schemas_of_rows import SchemaOfRows
from ledgerfs.writing.write import Wanted

if TYPE_CHECKING:
    from pathlib import Path


class RowSource(Protocol):
    """Rows of messages, columns named as in `ledgerfs.messages.decode.table_schema`; `ledgerfs.tables.row_files.RowFile` is one."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of all rows."""
        ...

    @property
    def rows(self) -> int | None:
        """Number of rows; None if only reading them can count them."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        ...


@runtime_checkable
class ArrowStream(Protocol):
    """A table that libraries exchange: of pyarrow, pandas, Polars, DuckDB, and `ledgerfs.Scan`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export it."""
        ...


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    Attributes
    ----------
    ignored_columns
        Columns with only the positions of messages, and with a schema the rows' own ``schema_version``.
    schema_version
        The number of the schema of the values; None without a schema.

    """

    written: WrittenLedger
    messages: int
    ignored_columns: tuple[str, ...] = field(default=())
    schema_version: int | None = None


def import_rows(
    bucket: BucketOrUrl,
    source: RowSource | ArrowStream | str | os.PathLike[str],
    topic: str,
    *,
    ledger_id: int | None = None,
    batch: int = 1000,
    compression: str = "none",
    producer_name: str = "ledgerfs",
    max_entry_bytes: int = MAX_STORED_BYTES,
    block_size: int | None = None,
    if_exists: IfExists | str = IfExists.FAIL,
    schema: SchemaInfo | Mapping[str, object] | str | os.PathLike[str] | None = None,
    schema_type: str | None = None,
    schema_version: int | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Write rows as messages of a topic, in a new ledger.

    The ledger's creation time is the earliest publish time of its messages, so that no scan of a range of time omits it.

    Parameters
    ----------
    bucket
        A bucket, or its URL.
    source
        A table that libraries exchange (``__arrow_c_stream__``: pyarrow, pandas, Polars, `Topic.scan`), or a file, a folder, a pattern or a
        URL, as in `ledgerfs.tables.row_files.open_rows`. Columns are named as those of a scan.
    topic
        ``persistent://tenant/namespace/topic``, or a short form of it.
    ledger_id
        None for an id that no cluster generates (`ledgerfs.writing.own_ids`), for which a bucket is not listed if the topic is known.
    batch, compression, producer_name, max_entry_bytes
        How rows become entries: messages of an entry at most (1: no batches); "none", "lz4", "zlib", "zstd" or "snappy"; the name for rows
        without one; bytes of the largest entry.
    block_size
        Bytes of a block, None for 64 MiB.
    if_exists
        If a ledger of ``ledger_id`` exists: "fail"; or "new-copy", which is only allowed beside damaged ledgers of this topic and id: new
        rows are not a copy of a whole ledger, and one of the two would hide the other.
    schema, schema_type, schema_version
        None if values are bytes. Otherwise values have columns, and are written with a schema, whose number is in the messages: an Avro
        schema (a file, or its JSON as a mapping) or a `SchemaInfo`; the value format ("avro", "json", or a primitive type such as
        "int64", which needs no schema); the number, None for that of the equal saved schema, and 0 for a topic without ledgers. A
        column ``value`` is the value, null for a tombstone; without one, columns that are not those of messages are its fields, as a
        scan with ``flatten=True`` returns them. A schema whose number is not saved is saved beside the bucket before the ledger appears.
    progress
        Called with the number of rows written.

    Raises
    ------
    LedgerExistsError, InvalidNameError
        The bucket has a ledger of this id, or the name is that of a partitioned topic: before a row is read, if the bucket was listed
        before, else at the end, when it is listed. The new ledger is then removed again.
    ExportFolderError
        A local folder that an export is writing to, or whose last export failed, or a pattern or links that lead to files in it. A single
        file is read when it is named. While the rows are read, no export can begin there.
    InvalidSchemaError, InvalidOptionError, SchemaConflictError
        The schema cannot write values; its number is required; the number has another schema, possibly saved meanwhile by another writer.
        The bucket has no new ledger then.
    RefusedLedgerError, InvalidRowsError, …
        No rows, or a row that cannot be a message; the bucket is unchanged.

    Warns (`NamedSchemasWarning`) if rows have a column ``schema_version``, and the topic has schemas of these numbers.

    """
    options = EncodeOptions(batch, compression, producer_name, max_entry_bytes)
    chosen = IfExists.of(if_exists)
    managed_ledger = managed_ledger_of(topic)
    by_schema = _schema_given(schema, schema_type, schema_version)
    with _rows_of(source, by_schema) as (found, left_out):
        bucket = bucket_at(bucket)
        known, is_generated = bucket.listed_catalog, ledger_id is None
        if ledger_id is None:
            ledger_id, chosen = new_own_id([] if known is None else [known], [managed_ledger]), IfExists.FAIL
        wanted = Wanted(managed_ledger, ledger_id, block_size=block_size)
        ledger, claim = wanted.new_ledger(), replace(wanted.claim(chosen), is_original=True)
        is_free = is_generated and _means_itself(bucket, managed_ledger)
        if not is_free:
            Admission(bucket, progress).require_free(claim)
        rows, ignored, of_rows = found, left_out, None
        if by_schema is not None:
            of_rows = SchemaOfRows.of(bucket, managed_ledger, by_schema, schema_version)
            typed = TypedRows.of(rows.schema, of_rows.schema, of_rows.version, ignored)
            rows = MessageRows(typed.schema, typed.all_messages(rows.batches), rows.count)
            ignored += typed.ignored_columns
        with BucketWriter(bucket, ledger, None if is_free else claim) as writer:
            added = add_rows(writer, rows, options, progress)
            _require_some(added.messages, source)
            if of_rows is not None:
                of_rows.save(bucket, added.earliest_ms)
            written = writer.commit(created_ms=added.earliest_ms)
    if of_rows is None and added.schema_versions:
        _warn_of_schemas(bucket, schema_owner(managed_ledger).topic, added.schema_versions)
    version = None if of_rows is None else of_rows.version
    return Imported(written, added.messages, (*ignored, *added.ignored_columns), version)


def _means_itself(bucket: Bucket, managed_ledger: str) -> bool:
    """Whether another ledger of this name hides no partitions, by the known catalog and two HEADs: only a first one could."""
    if split_partition(managed_ledger)[1] is not None:
        return True
    known = bucket.listed_catalog
    first = None if known is None else next(known.refs_of(managed_ledger), None)
    return first is not None and is_current(bucket.raw_store, first)


def _warn_of_schemas(bucket: Bucket, topic: str, named: frozenset[int]) -> None:
    """Warn of schemas that will be used to read rows although they did not write them, as far as known."""
    try:
        known = {one.version for one in bucket.schemas_of(topic).versions}
    except LedgerfsError as error:
        warnings.warn(
            f"cannot check the schema versions of the rows against the schemas of {topic}: {error}",
            NamedSchemasWarning,
            stacklevel=3,
        )
        return
    meant = sorted(named if ANY_VERSION in known else named & known)
    if meant:
        text = (
            f"the rows contain schema versions ({', '.join(map(str, meant))}) that {topic} has too: readers will decode their values with "
            "its schemas. If the rows come from another topic, import them without the column schema_version, or with --schema"
        )
        warnings.warn(text, NamedSchemasWarning, stacklevel=3)


def _schema_given(
    schema: SchemaInfo | Mapping[str, object] | str | os.PathLike[str] | None,
    schema_type: str | None,
    schema_version: int | None,
) -> SchemaInfo | None:
    if schema is not None or schema_type is not None:
        return schema_given(schema, schema_type)
    if schema_version is not None:
        raise InvalidOptionError("needs the schema itself: pass schema or schema_type too", key="schema_version")
    return None


def _require_some(messages: int, source: object) -> None:
    """Raise `RefusedLedgerError`, which names the files, if there were no rows."""
    if not messages and isinstance(source, str | os.PathLike):
        raise RefusedLedgerError("the files contain no rows", key=without_credentials(os.fspath(source)))


@contextmanager
def _rows_of(
    source: RowSource | ArrowStream | str | os.PathLike[str], schema: SchemaInfo | None
) -> Iterator[tuple[MessageRows, tuple[str, ...]]]:
    """Open rows; also return their columns that messages do not have. No export changes the files until they are read."""
    with ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            files = _files_at_rest(os.fspath(source), stack)
            source = files.open(None if schema is None else encoder_of(schema).type)
        if isinstance(source, Scan):
            # The interface of `ArrowStream` would turn its errors into texts.
            yield MessageRows(source.schema, source), ()
        elif isinstance(source, ArrowStream):
            reader = pa.RecordBatchReader.from_stream(source)
            yield MessageRows(reader.schema, reader, getattr(source, "num_rows", None)), ()
        else:
            ignored = tuple(getattr(source, "ignored_columns", ()))
            yield MessageRows(source.schema, source.batches(), source.rows), ignored


def _files_at_rest(path: str, stack: ExitStack) -> FoundFiles:
    """Find files of rows that no export can change until ``stack`` is closed."""
    kept: frozenset[Path] = frozenset()
    files = find_rows(path)
    while files.folders - kept:
        for folder in sorted(files.folders - kept):
            stack.enter_context(at_rest(folder))
        kept |= files.folders
        # An export may have finished between the listing and the lock.
        files = find_rows(path)
    return files

"""The catalog of a bucket as a DataFrame: a row for each ledger, or for each topic.

::

    from ledgerfs.spark.pipelines.catalog import catalog

    catalog(spark, "s3://tier").where("not is_sound").show()
    catalog(spark, "s3://tier", by="topic").orderBy("bytes", ascending=False).show(truncate=False)

or ``ledgerfs spark catalog s3://tier``. Reads only the listing and the indexes; for exact publish times, tasks also read two entries of
each ledger.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import Table, is_sound
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import (
    CorruptObjectError,
    InvalidOptionError,
    ObjectNotFoundError,
    StaleObjectError,
    UnsupportedFormatError,
)
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.spark.runtime.storage import Storage, storage_of
from ledgerfs.spark.runtime.tasks import distribute
from ledgerfs.spark.source.ledger_rows import LedgerRows, costs_of_opening, ledger_parts
from ledgerfs.storage.ordered_map import ordered_map

_TIME = pa.timestamp("us", tz="UTC")
_LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, since 1970 UTC."""

LEDGERS = pa.schema(
    [
        ("topic", pa.string()),
        ("ledger_id", pa.int64()),
        ("uuid", pa.string()),
        ("copy", pa.int32()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("object_bytes", pa.int64()),
        ("blocks", pa.int32()),
        ("created", _TIME),
        ("next_created", _TIME),
        ("uploaded", _TIME),
        ("is_sound", pa.bool_()),
    ]
)
"""The columns by ledger; `catalog` explains them."""

BY = ("ledger", "topic")
_TIME_NAMES = ("first_publish_time", "last_publish_time")
_TIMES = pa.schema([("row", pa.int64()), *((name, _TIME) for name in _TIME_NAMES)])
"""Row number in the catalog, and the times of its ledger."""

_DAMAGE = (CorruptObjectError, ObjectNotFoundError, StaleObjectError, UnsupportedFormatError)
_THREADS = 4


def catalog(
    spark: SparkSession,
    storage: Storage | str,
    *,
    by: str = "ledger",
    publish_times: bool = False,
    progress: Progress | None = None,
) -> DataFrame:
    """List a bucket now, and return its ledgers or topics.

    By ledger, in the order of topics and ids: ``topic``, ``ledger_id``, ``uuid`` (of the offload), ``copy`` (0 for the one that is read,
    higher numbers for further uploads), ``entries``, ``bytes`` (of entries), ``object_bytes`` (of the data object), ``blocks``, ``created``
    (in BookKeeper, null if unknown), ``next_created`` (that of the topic's next ledger, null for the last; messages were published between
    the two, as far as clocks agree), ``uploaded``, ``is_sound`` (false if sizes contradict each other: entries are missing).

    By topic: ``topic``, ``ledgers``, ``entries``, ``bytes`` (every ledger once, even if it has several copies; null if damaged indexes
    claim more than 2⁶³), ``created`` (the first ledger), ``uploaded`` (the last one).

    Times are UTC.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    by
        ``ledger`` or ``topic``.
    publish_times
        Add ``first_publish_time`` and ``last_publish_time`` of the first and last entry, null if unreadable. Tasks read them when rows are
        used.
    progress
        Called with the progress of the listing.

    Raises
    ------
    NotFoundError, AccessDeniedError, StoreError
        The catalog cannot be loaded.
    InvalidOptionError
        An unknown ``by``.

    """
    if by not in BY:
        raise InvalidOptionError(f"expected {' or '.join(BY)}", key=by)
    where = storage_of(spark, storage)
    found = where.bucket().refresh(progress)
    table = ledger_table(found)
    if not publish_times:
        ledgers = spark.createDataFrame(table)
        return ledgers if by == "ledger" else _by_topic(ledgers)
    row = pa.array(np.arange(len(table)))
    timed = spark.createDataFrame(table.append_column("row", row)).join(_times(spark, where, found), "row", "left")
    if by == "topic":
        return _by_topic(timed, *(functions.min("first_publish_time"), functions.max("last_publish_time")))
    return timed.orderBy("row").select(*LEDGERS.names, *_TIME_NAMES)


def ledger_table(found: Catalog) -> pa.Table:
    """Return a catalog as an Arrow table with one row for each ledger (`LEDGERS`)."""
    rows = found.ledgers
    topics = pa.array([topic_of(name) for name in found.names], pa.string())
    columns = {
        "topic": pa.DictionaryArray.from_arrays(pa.array(_column(rows, "name")), topics).cast(pa.string()),
        "ledger_id": pa.array(_column(rows, "ledger_id")),
        "uuid": _uuids(rows),
        "copy": pa.array(_column(rows, "copy")),
        "entries": pa.array(rows["last_entry"] - rows["first_entry"] + 1),
        "bytes": pa.array(_column(rows, "length")),
        "object_bytes": pa.array(_column(rows, "stored")),
        "blocks": pa.array(_column(rows, "cuts")),
        "created": _times_of(rows["created_ms"]),
        "next_created": _times_of(_next_created(rows)),
        "uploaded": _times_of(rows["changed_ms"]),
        "is_sound": pa.array(is_sound(rows)),
    }
    return pa.table(columns, schema=LEDGERS)


def _column(rows: Table, name: str) -> npt.NDArray[np.int64]:
    """Return a contiguous copy of a column, which pyarrow requires."""
    return np.ascontiguousarray(rows[name])


def _times_of(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return times from ms since 1970; null for 0 (unknown) and for times after the year 9999."""
    is_known = (milliseconds > 0) & (milliseconds <= _LAST_MS)
    return pa.array(np.where(is_known, milliseconds, 0) * 1000, mask=~is_known).cast(_TIME)


def _next_created(rows: Table) -> npt.NDArray[np.int64]:
    """Return the creation time of the topic's next ledger that has one; 0 if there is none."""
    created, names, ids = (_column(rows, column) for column in ("created_ms", "name", "ledger_id"))
    # Copies are adjacent and have the same creation time.
    known = np.flatnonzero(created > 0)
    behind = np.searchsorted(_ordinals(names, ids)[known], _ordinals(names, ids), side="right")
    following = np.append(known, -1)[behind]
    has_one = (behind < known.size) & (names[following] == names)
    return np.where(has_one, created[following], 0)


def _ordinals(names: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers for the ledgers of a sorted table; all copies of a ledger get the same number."""
    if not ids.size:
        return ids
    begins = (np.diff(ids) != 0) | (np.diff(names) != 0)
    return cast("npt.NDArray[np.int64]", np.concatenate([[0], np.cumsum(begins)]))


def _uuids(rows: Table) -> pa.Array:
    """Return the uuids as texts, without a Python object for each."""
    halves = np.stack([rows["uuid_high"], rows["uuid_low"]], axis=1).astype(">u8")
    data = halves.view(np.uint8).reshape(-1, 16)
    nibbles = np.stack([data >> 4, data & 15], axis=2).reshape(-1, 32)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    texts = np.insert(digits, (8, 12, 16, 20), ord("-"), axis=1)
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts)))


def _by_topic(ledgers: DataFrame, *times: Column) -> DataFrame:
    sums = [
        functions.count("*").alias("ledgers"),
        functions.try_sum("entries").alias("entries"),
        functions.try_sum("bytes").alias("bytes"),
        functions.min("created").alias("created"),
        functions.max("uploaded").alias("uploaded"),
        *(time.alias(name) for time, name in zip(times, _TIME_NAMES, strict=bool(times))),
    ]
    return ledgers.where("copy = 0").groupBy("topic").agg(*sums).orderBy("topic")


def _times(spark: SparkSession, storage: Storage, found: Catalog) -> DataFrame:
    read, parts = partial(read_publish_times, storage), ledger_parts(found, costs_of_opening(found.ledgers))
    return distribute(spark, parts, read, from_arrow_schema(_TIMES))


def read_publish_times(storage: Storage, part: LedgerRows) -> Iterator[pa.RecordBatch]:
    """Yield a row for each ledger; null where the entry is damaged, which `ledgerfs verify` reports.

    Raises `AccessDeniedError` and `StoreError`.
    """
    bucket = storage.bucket()

    def read_one(item: tuple[int, LedgerRef]) -> dict[str, Any]:
        row, ref = item
        reader = bucket.reader(ref)
        first, last = (_publish_time(reader, entry) for entry in (0, ref.last_entry))
        return {"row": row, "first_publish_time": first, "last_publish_time": last}

    yield pa.RecordBatch.from_pylist(list(ordered_map(read_one, part.refs(), _THREADS, "ledgerfs-times")), _TIMES)


def _publish_time(reader: LedgerReader, entry: int) -> int | None:
    """Return the publish time of an entry, also of a broker's marker, in µs since 1970 UTC; None if it is damaged."""
    # These import numba, which the driver does not need.
    from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
    from ledgerfs.messages.decode.entry_fields import publish_times

    decoder = TopicDecoder("", DecodeOptions(include_markers=True, on_corrupt="skip"))
    try:
        batch = next(iter(reader.batches(entry, entry)))
    except _DAMAGE:
        return None
    entries, sound = decoder.walk(batch, reader.ref.ledger_id)
    return int(publish_times(entries)[0]) * 1000 if sound[0] else None

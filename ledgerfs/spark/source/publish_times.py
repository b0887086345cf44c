"""The publish times of the first and the last entry of ledgers: two small reads for each ledger."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptObjectError, ObjectNotFoundError, StaleObjectError, UnsupportedFormatError
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.ledger_rows import LedgerRows
from ledgerfs.storage.ordered_map import ordered_map

TIMES = pa.schema(
    [
        ("row", pa.int64()),  # of the catalog
        ("first_publish_time", pa.timestamp("us", tz="UTC")),
        ("last_publish_time", pa.timestamp("us", tz="UTC")),
    ]
)

_DAMAGE = (CorruptObjectError, ObjectNotFoundError, StaleObjectError, UnsupportedFormatError)
_THREADS = 4


def read_publish_times(storage: Storage, part: LedgerRows) -> Iterator[pa.RecordBatch]:
    """Yield a row (`TIMES`) for each of some ledgers; null where the entry is damaged, which `ledgerfs verify` names.

    Raises `AccessDeniedError` and `StoreError`.
    """
    bucket = storage.bucket()

    def read_one(item: tuple[int, LedgerRef]) -> dict[str, Any]:
        row, ref = item
        reader = bucket.reader(ref)
        first, last = (_publish_time(reader, entry) for entry in (0, ref.last_entry))
        return {"row": row, "first_publish_time": first, "last_publish_time": last}

    yield pa.RecordBatch.from_pylist(list(ordered_map(read_one, part.refs(), _THREADS, "ledgerfs-times")), TIMES)


def _publish_time(reader: LedgerReader, entry: int) -> int | None:
    """Return when an entry was published, also a broker's marker, µs since 1970 UTC; None if it is damaged."""
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

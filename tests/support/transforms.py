"""What tests of transforms share: applying one to entries, and the rows that must not change."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ledgerfs import open_bucket
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.transforms.unbatch import Unbatch
from tests.support.entries import TOPIC, batch_of, decode

PLACES = ("entry_id", "batch_index")


def entries_of(transform: Unbatch, batch: EntryBatch, first_entry: int = 0) -> list[bytes]:
    """Return what becomes of entries, after a check of what every transform promises."""
    entries: list[bytes] = []
    for made in transform(batch, first_entry):
        assert made.first_entry == first_entry + len(entries)
        start = int(made.offsets[0]) - 12
        scan = scan_records(made.buffer, start, made.first_entry, len(made))
        assert scan.stop == ScanStop.COMPLETE
        np.testing.assert_array_equal(scan.batch.offsets, made.offsets)
        np.testing.assert_array_equal(scan.batch.lengths, made.lengths)
        assert scan.position == made.offsets[-1] + made.lengths[-1]
        entries += [bytes(entry) for _, entry in made]
    return entries


def transformed(transform: Unbatch, entries: Iterable[bytes]) -> list[bytes]:
    return entries_of(transform, batch_of(entries))


def rows_of(entries: Iterable[bytes], without: Sequence[str] = PLACES, **options: Any) -> list[dict[str, Any]]:
    """Return all that a reader sees."""
    return table_of(entries, without, **options).to_pylist()


def table_of(entries: Iterable[bytes], without: Sequence[str] = PLACES, **options: Any) -> pa.RecordBatch:
    """Return all that a reader sees, as columns: two of them are compared much sooner than their rows."""
    columns = [name for name in MESSAGE_SCHEMA.names if name not in without]
    settings = {"columns": columns, "include_markers": True, "on_encrypted": "null", "max_message_bytes": 1 << 30}
    table = decode(TopicDecoder(TOPIC, DecodeOptions(**{**settings, **options})), batch_of(entries))
    # datetime ends with the year 9999.
    arrays = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, columns)


def golden_ledgers(url: str, topic: str) -> list[list[bytes]]:
    """Return the entries of every ledger of a golden topic."""
    ledgers = open_bucket(url).topic(f"persistent://public/golden/{topic}").ledgers
    return [[bytes(entry) for _, entry in ledger.read(0, ledger.last_entry)] for ledger in ledgers]


def parts_of(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the metadata's size, the metadata, and the payload."""
    at = 0
    if entry[:2] == b"\x0e\x02":
        at = 6 + struct.unpack_from(">I", entry, 2)[0]
    if entry[at : at + 2] == b"\x0e\x01":
        at += 6
    end = at + 4 + struct.unpack_from(">I", entry, at)[0]
    return entry[:at], entry[at + 4 : end], entry[end:]

"""What a catalog keeps of many index objects, found by a kernel: a listing of 100,000 ledgers need not build as many Python values.

Only *plain* indexes are answered for: whole and consistent ones, with BookKeeper's fields alone, each once, as brokers write them. All
others (damaged, odd, marked by ledgerfs) are for `ledgerfs.formats.pulsar_blob.index`, which says what is wrong. Of a plain one both tell
the same.
"""

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY, OWN_KEYS_BEGIN
from ledgerfs.formats.memory_loads import load_int32, load_int64, load_uint32
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES
from ledgerfs.formats.pulsar_blob.index import BLOCK_BYTES, HEADER_BYTES, MAGIC
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES

SUMMARY = np.dtype(
    [
        ("data_length", "i8"),
        ("blocks", "i8"),
        ("length", "i8"),
        ("last_entry", "i8"),
        ("created_ms", "i8"),  # 0: unknown
        ("in_place", "i8"),  # 1: LedgerMetadata.is_in_place
        ("plausible", "i8"),  # 1: OffloadIndex.is_plausible
        ("name_start", "i8"),  # of the managed ledger's name among all bytes
        ("name_end", "i8"),  # name_start: it has none
    ]
)
"""Row of a plain index; `OffloadIndex` and `LedgerMetadata` describe the columns."""

_COLUMNS = len(SUMMARY.names or ())
_DATA_LENGTH, _BLOCKS, _LENGTH, _LAST, _CREATED, _IN_PLACE, _PLAUSIBLE, _NAME, _NAME_END = range(_COLUMNS)
_MOST_BYTES = 1 << 58
"""Of a plain data object, so that no sum of lengths is more than 63 bits have."""
_MOST_ENTRIES = 1 << 54
_REQUIRED = 0b11_1110
"""Of the fields that are seen, a bit each: ``LedgerMetadataRecord`` names them."""
_NUMBERS = 0b110_1011_1110
_NAME_KEY = np.frombuffer(MANAGED_LEDGER_KEY.encode(), np.uint8)
_OWN_KEYS = np.frombuffer(OWN_KEYS_BEGIN.encode(), np.uint8)


def summarise(data: Bytes, ends: Int64) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.void]]:
    """Read many index objects that follow each other in ``data``, each up to its place in ``ends``; shape (indexes,).

    Returns which of them are plain, and rows of `SUMMARY`; those of others are zeros. Raises nothing.
    """
    rows = np.zeros((ends.size, _COLUMNS), np.int64)
    plain = np.zeros(ends.size, np.bool_)
    _summarise(data, ends, plain, rows)
    rows[~plain] = 0
    return plain, rows.view(SUMMARY)[:, 0]


@kernel
def _summarise(data, ends, plain, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start = np.int64(0)
    for i in range(ends.size):
        plain[i] = _is_plain(data, start, ends[i], rows[i])
        start = ends[i]


@kernel
def _is_plain(data, start, end, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill a row, and return whether the index is plain."""
    if end - start < HEADER_BYTES or load_uint32(data, start) != MAGIC:  # type: ignore[call-arg]
        return False
    declared = np.int64(load_int32(data, start + 4))  # type: ignore[call-arg]
    data_length = np.int64(load_int64(data, start + 8))
    header_length = np.int64(load_int64(data, start + 16))
    count = np.int64(load_int32(data, start + 24))
    metadata_length = np.int64(load_uint32(data, start + 28))
    blocks_at = start + HEADER_BYTES + metadata_length
    if not MIN_HEADER_BYTES <= header_length <= data_length <= _MOST_BYTES or count < 1 or declared != end - start:
        return False
    if blocks_at + count * BLOCK_BYTES != end or count > _MOST_BYTES // header_length:
        return False
    row[_DATA_LENGTH], row[_BLOCKS] = data_length, count
    if not _is_plain_metadata(data, start + HEADER_BYTES, blocks_at, row):
        return False
    last_block = _last_block(data, blocks_at, count, row[_LAST])
    if not 0 <= last_block <= data_length:
        return False
    padding = data_length - header_length * count - row[_LENGTH] - RECORD_HEADER_BYTES * (row[_LAST] + 1)
    is_filled = padding == 0 if last_block == 0 else padding >= 0
    row[_PLAUSIBLE] = is_filled and last_block + header_length <= data_length
    return True


@inlined_kernel
def _last_block(data, at, count, last_entry):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the byte offset of the last block; -1 unless blocks start at entry 0 and byte 0, and ascend within the ledger."""
    entry = offset = np.int64(-1)
    for k in range(count):
        next_entry = np.int64(load_int64(data, at))  # type: ignore[call-arg]
        next_offset = np.int64(load_int64(data, at + 12))
        if next_entry <= entry or next_offset <= offset or (k == 0 and (next_entry or next_offset)):
            return -1
        entry, offset = next_entry, next_offset
        at += BLOCK_BYTES
    return offset if entry <= last_entry else -1


@kernel
def _is_plain_metadata(data, at, end, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Read BookKeeper's metadata; return whether each field is a known one, not there twice, and has a value that a ledger can have."""
    seen = 0
    while at < end:
        tag = data[at]
        field, wire = tag >> 3, tag & 7
        at += 1
        value, at = _varint(data, at, end)
        if at < 0 or tag >= 128:
            return False
        if wire == 0 and (_NUMBERS >> field) & 1 and not (seen >> field) & 1:
            if not _take_number(field, value, row):
                return False
            seen |= 1 << field
            continue
        if wire != 2 or not 0 <= value <= end - at:
            return False
        if field == 6:
            bookies = _bookies(data, at, at + value)
            if bookies < 0:
                return False
            row[_IN_PLACE] |= bookies > 0
        elif field != 11 or not _is_plain_custom(data, at, at + value, row):
            return False
        at += value
    is_ledger = 0 <= row[_LENGTH] <= _MOST_BYTES and 0 <= row[_LAST] <= _MOST_ENTRIES
    return is_ledger and seen & _REQUIRED == _REQUIRED


@inlined_kernel
def _take_number(field, value, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether a field can have this value; those that a row has are of 64 bits."""
    if field == 3:
        row[_LENGTH] = value
    elif field == 4:
        row[_LAST] = value
    elif field == 10:
        row[_CREATED] = max(value, 0)
    else:
        return 0 <= value < 1 << 31
    return True


@kernel
def _bookies(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of bookies of an ensemble; -1 if it has other fields."""
    bookies = 0
    while at < end:
        tag = data[at]
        at += 1
        value, at = _varint(data, at, end)
        if at < 0 or tag not in {10, 16}:
            return -1
        if tag == 10:
            if not 0 <= value <= end - at:
                return -1
            bookies += 1
            at += value
    return bookies


@kernel
def _is_plain_custom(data, at, end, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Read a field of custom metadata: key, then value. Return whether it is that, and none of ledgerfs's own."""
    if at >= end or data[at] != 10:
        return False
    size, key = _varint(data, at + 1, end)
    # The value's tag is behind the key.
    if key < 0 or not 0 <= size < end - key or data[key + size] != 18:
        return False
    length, value = _varint(data, key + size + 1, end)
    if value < 0 or length != end - value or _begins_with(data, key, size, _OWN_KEYS):
        return False
    if size == _NAME_KEY.size and _begins_with(data, key, size, _NAME_KEY):
        if row[_NAME]:
            return False
        row[_NAME], row[_NAME_END] = value, end
    return True


@inlined_kernel
def _begins_with(data, at, size, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if size < wanted.size:
        return False
    for k in range(wanted.size):  # noqa: SIM110  (kernels have no generators)
        if data[at + k] != wanted[k]:
            return False
    return True


@kernel
def _varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a number of up to 64 bits, as signed, and where it ends; -1 if it does not, or has needless bytes."""
    value = np.uint64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return np.int64(0), -1
        byte = np.uint64(data[at])
        at += 1
        if (shift == 63 and byte > 1) or (shift and not byte):
            return np.int64(0), -1
        value |= (byte & np.uint64(127)) << np.uint64(shift)
        if byte < 128:
            return np.int64(value), at
    return np.int64(0), -1

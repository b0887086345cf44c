"""Texts as integers, decimals, dates and times: the value that is written, or the reason why there is none."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.messages.encode.values.decimal_texts import read_decimals
from ledgerfs.messages.encode.values.time_texts import (
    CLOCK,
    DATE,
    OUT_OF_RANGE,
    TIME,
    TOO_FINE,
    WITH_ZONE,
    read_times,
)
from ledgerfs.messages.kernels.arrays import valid_of, variable_width
from ledgerfs.messages.kernels.gather import bitmap, masked

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TOLD = {
    TOO_FINE: "it has more digits",
    OUT_OF_RANGE: "it is outside the range",
    WITH_ZONE: "it has a zone",
}


def is_read_from_text(wanted: pa.DataType) -> bool:
    """Whether `from_text` makes values of the type."""
    return bool(pt.is_integer(wanted) or pt.is_decimal(wanted) or _has_days(wanted) or pt.is_time(wanted))


def _has_days(kind: pa.DataType) -> bool:
    return bool(pt.is_date32(kind) or pt.is_timestamp(kind))


def from_text(texts: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Int64]:
    """Return values of texts (``string``), for integers as decimals; and for each text 0 or why it has no value, which `told` explains."""
    valid = valid_of(texts)
    if pt.is_integer(wanted):
        return _decimals(texts, valid, pa.decimal128(38, 0))
    if pt.is_decimal(wanted):
        return _decimals(texts, valid, wanted)
    return _times(texts, valid, wanted)


def told(reason: int) -> str:
    """Return a reason in words; empty for a text of something else."""
    return _TOLD.get(reason, "")


def _decimals(texts: pa.Array, valid: Mask, wanted: Any) -> tuple[pa.Array, Int64]:  # noqa: ANN401
    bits = 128 if wanted.precision <= 38 else 256
    words, bad = np.empty((valid.size, bits // 32), np.uint32), np.empty(valid.size, np.bool_)
    read_decimals(*variable_width(texts), valid, wanted.precision, wanted.scale, words, bad)
    make = pa.decimal128 if bits == 128 else pa.decimal256
    buffers = [bitmap(valid & ~bad), pa.py_buffer(words)]
    found = pa.Array.from_buffers(make(wanted.precision, wanted.scale), valid.size, buffers)
    return found.cast(wanted), bad.astype(np.int64)


def _times(texts: pa.Array, valid: Mask, wanted: Any) -> tuple[pa.Array, Int64]:  # noqa: ANN401
    shape = DATE if pt.is_date(wanted) else CLOCK if pt.is_time(wanted) else TIME
    digits = 0 if shape == DATE else _DIGITS[wanted.unit]
    ticks, reasons = np.empty(valid.size, np.int64), np.empty(valid.size, np.int64)
    is_utc = shape == TIME and wanted.tz is not None
    read_times(*variable_width(texts), valid, shape, digits, is_utc, ticks, reasons)
    return masked(ticks.astype(f"i{wanted.bit_width // 8}"), valid & (reasons == 0), wanted), reasons

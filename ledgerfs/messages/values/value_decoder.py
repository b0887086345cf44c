"""The seam of values: whatever decodes those of one schema."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs.messages.values.value_program import NULL


class ValueDecoder(Protocol):
    """Decodes payloads of one schema to an array of one type. Safe in threads."""

    @property
    def type(self) -> pa.DataType:
        """What the values become."""
        ...

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads ``data[starts[i] : ends[i]]``, and a reason for each that is null.

        The caller has checked the ranges. What is not ``valid`` is null with the reason `NULL`; what cannot be decoded is null with another
        one, and never changes a value beside it; 0 is the reason of all others. Raises `CorruptObjectError` only for more bytes or items
        than an array can count.
        """
        ...

    def explain(self, reason: int) -> str:
        """Return a reason in words that follow the name of a message: "it ends inside a field"."""
        ...


def payloads_of(values: pa.Array) -> tuple[Bytes, Int64, Int64, Mask | None]:
    """Return what `ValueDecoder.decode` takes of a binary array; its bytes are not copied."""
    _, offsets, data = values.buffers()
    places = empty(len(values) + 1, np.int64)
    places[:] = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1] if len(values) else 0
    valid = np.asarray(values.is_valid()) if values.null_count else None
    return np.frombuffer(data or b"", np.uint8), places[:-1], places[1:], valid


def reasons_before(count: int, valid: Mask | None) -> Int64:
    """Return a reason for each of ``count`` payloads before any is decoded: `NULL` for what is not ``valid``."""
    reasons: Int64 = empty(count, np.int64)
    reasons[:] = 0 if valid is None else np.where(valid, 0, NULL)
    return reasons

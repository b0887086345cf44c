"""The interface of decoders for the values of one schema."""

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
        """The Arrow type of the values."""
        ...

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads ``data[starts[i] : ends[i]]``, and a reason for each that is null.

        The caller has checked the ranges. A payload that is not ``valid`` is null with the reason `NULL`; one that cannot be decoded is
        null with another reason, and never changes others; all others have the reason 0. Raises `CorruptObjectError` only for more bytes or
        items than an array can count.
        """
        ...

    def explain(self, reason: int) -> str:
        """Return a reason in words that follow the name of a message: "it ends inside a field"."""
        ...


def payloads_of(values: pa.Array) -> tuple[Bytes, Int64, Int64, Mask | None]:
    """Return the arguments of `ValueDecoder.decode` for a binary array, without a copy of its bytes."""
    _, offsets, data = values.buffers()
    places = empty(len(values) + 1, np.int64)
    places[:] = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1] if len(values) else 0
    valid = np.asarray(values.is_valid()) if values.null_count else None
    return np.frombuffer(data or b"", np.uint8), places[:-1], places[1:], valid


def reasons_before(count: int, valid: Mask | None) -> Int64:
    """Return the initial reasons of ``count`` payloads: `NULL` where not ``valid``, otherwise 0."""
    reasons: Int64 = empty(count, np.int64)
    reasons[:] = 0 if valid is None else np.where(valid, 0, NULL)
    return reasons

"""The seam of values: whatever decodes those of one schema."""

from typing import Protocol

import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask


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

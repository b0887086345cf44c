"""KEY_VALUE payloads: pairs with a schema for each part (``docs/formats/schemas.md``).

INLINE: a payload has both parts, each an int32, big-endian, of its size (-1 for null), and its bytes. SEPARATED: the payload is the value,
and the key of the message is the key.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int32
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.values.row_spans import unwritable
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of, reasons_before
from ledgerfs.messages.values.value_program import Reason, explain

_OF_KEY, _OF_VALUE = 1 << 40, 1 << 41
"""Added to the reasons of the parts' decoders."""
_MISSING, _BAD = -1, -2
KEY_COLUMNS = ("key", "key_bytes")
"""Columns of messages that `message_keys` needs."""


@dataclass(frozen=True, slots=True)
class InlineDecoder:
    """Decodes pairs to a struct of ``key`` and ``value``; a pair with a part that cannot be decoded is null."""

    key: ValueDecoder
    value: ValueDecoder

    @property
    def type(self) -> pa.DataType:
        """A struct of both."""
        return _pair_type(self.key, self.value)

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads, and a reason for each that is null (see `ValueDecoder`)."""
        reasons = reasons_before(starts.size, valid)
        parts = np.zeros((4, starts.size + 1), np.int64)[:, : starts.size]
        key_starts, key_ends, value_starts, value_ends = (np.ascontiguousarray(one) for one in parts)
        places = key_starts, key_ends, value_starts, value_ends
        _split(unwritable(data), starts, ends, places, reasons)
        keys = self.key.decode(data, key_starts, key_ends, key_ends >= key_starts)
        values = self.value.decode(data, value_starts, value_ends, value_ends >= value_starts)
        return _pairs(self.type, keys, values, reasons)

    def explain(self, reason: int) -> str:
        """Return a reason in words."""
        return _explained(reason, self.key, self.value)


@dataclass(frozen=True, slots=True)
class SeparatedDecoder:
    """Decodes pairs whose keys are those of the messages, from `with_keys`.

    A pair exists even if its key or value is null: a message without a value is a pair whose value is null.
    """

    key: ValueDecoder
    value: ValueDecoder
    keys: pa.Array | None = field(default=None, repr=False)

    def with_keys(self, keys: pa.Array) -> "SeparatedDecoder":
        """Return the decoder of messages with these keys: a binary array, one for each payload that will be decoded."""
        return SeparatedDecoder(self.key, self.value, keys)

    @property
    def type(self) -> pa.DataType:
        """A struct of both."""
        return _pair_type(self.key, self.value)

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads, and a reason for each that is null (see `ValueDecoder`); without keys these are null."""
        keys = pa.nulls(starts.size, pa.binary()) if self.keys is None else self.keys
        values = self.value.decode(data, starts, ends, valid)
        return _pairs(self.type, self.key.decode(*payloads_of(keys)), values, np.zeros(starts.size, np.int64))

    def explain(self, reason: int) -> str:
        """Return a reason in words."""
        return _explained(reason, self.key, self.value)


def message_keys(messages: pa.RecordBatch) -> pa.Array:
    """Return the keys of messages as bytes, from the columns `KEY_COLUMNS`: as before base64, or as text in UTF-8."""
    return pc.coalesce(messages["key_bytes"], messages["key"].cast(pa.binary()))


def _pair_type(key: ValueDecoder, value: ValueDecoder) -> pa.DataType:
    return pa.struct([("key", key.type), ("value", value.type)])


def _explained(reason: int, key: ValueDecoder, value: ValueDecoder) -> str:
    if reason >= _OF_VALUE:
        return f"in its value: {value.explain(reason - _OF_VALUE)}"
    if reason >= _OF_KEY:
        return f"in its key: {key.explain(reason - _OF_KEY)}"
    return explain(reason)


def _pairs(
    kind: pa.DataType, keys: tuple[pa.Array, Int64], values: tuple[pa.Array, Int64], reasons: Int64
) -> tuple[pa.Array, Int64]:
    """Return the pairs of parts; a pair is null if a part is null for another reason than `NULL`, and has that reason."""
    for part, offset in ((keys[1], _OF_KEY), (values[1], _OF_VALUE)):
        wrong = (reasons == 0) & (part > 0)
        reasons[wrong] = part[wrong] + offset
    is_null = reasons != 0
    mask = pa.array(is_null) if is_null.any() else None
    return pa.StructArray.from_arrays([keys[0], values[0]], fields=list(kind), mask=mask), reasons


@kernel
def _split(data, starts, ends, places, reasons):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Find the parts of each payload; a null part, or one of an invalid pair, ends before it begins."""
    data = borrowed(data)  # type: ignore[call-arg]
    key_starts, key_ends, value_starts, value_ends = places
    for i in range(starts.size):
        key_starts[i] = value_starts[i] = starts[i]
        key_ends[i] = value_ends[i] = starts[i] - 1
        if reasons[i] != 0:
            continue
        key_size = _size(data, starts[i], ends[i])
        value_at = starts[i] + 4 + max(key_size, 0)
        value_size = _size(data, value_at, ends[i]) if key_size != _BAD else _BAD
        if value_size == _BAD:
            reasons[i] = Reason.BAD_PAIR
        elif value_at + 4 + max(value_size, 0) != ends[i]:
            reasons[i] = Reason.TRAILING
        else:
            key_starts[i], key_ends[i] = starts[i] + 4, starts[i] + 4 + key_size
            value_starts[i], value_ends[i] = value_at + 4, value_at + 4 + value_size


@inlined_kernel
def _size(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the size of a part: `_MISSING` for null, `_BAD` for an invalid one."""
    if end - at < 4:
        return np.int64(_BAD)
    size = np.int64(load_int32(data, at))  # type: ignore[call-arg]
    return size if _MISSING <= size <= end - at - 4 else np.int64(_BAD)

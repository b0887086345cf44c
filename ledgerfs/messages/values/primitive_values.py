"""Values of Pulsar's primitive schemas to Arrow arrays (``docs/formats/schemas.md``): big-endian numbers and times, and text."""

import codecs
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64
from ledgerfs.formats.schemas.schema_info import require_charset
from ledgerfs.messages.kernels.arrays import borrowed, empty
from ledgerfs.messages.kernels.gather import gather_bytes, gather_text, masked
from ledgerfs.messages.values.value_decoder import reasons_before
from ledgerfs.messages.values.value_program import Reason, explain

_DAY_MS = 86_400_000
_DAY_NS = _DAY_MS * 1_000_000
_SECOND_NS = 1_000_000_000
_BYTE_ORDER_MARKS = {
    "utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE),
    "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE),
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Size of a value, and its Arrow type."""

    size: int
    type: pa.DataType


_KINDS = {
    "BOOLEAN": _Kind(1, pa.bool_()),
    "INT8": _Kind(1, pa.int8()),
    "INT16": _Kind(2, pa.int16()),
    "INT32": _Kind(4, pa.int32()),
    "INT64": _Kind(8, pa.int64()),
    "FLOAT": _Kind(4, pa.float32()),
    "DOUBLE": _Kind(8, pa.float64()),
    "DATE": _Kind(8, pa.timestamp("ms", "UTC")),
    "TIME": _Kind(8, pa.time32("ms")),
    "TIMESTAMP": _Kind(8, pa.timestamp("ms", "UTC")),
    "INSTANT": _Kind(12, pa.timestamp("ns", "UTC")),
    "LOCAL_DATE": _Kind(8, pa.date32()),
    "LOCAL_TIME": _Kind(8, pa.time64("ns")),
    "LOCAL_DATE_TIME": _Kind(16, pa.timestamp("ns")),
}
PRIMITIVE_TYPES = {**{name: one.type for name, one in _KINDS.items()}, "STRING": pa.string(), "BYTES": pa.binary()}
"""Arrow type of each of Pulsar's types."""


@dataclass(frozen=True, slots=True)
class PrimitiveDecoder:
    """Decodes values of a primitive type, by its name in Pulsar; ``charset`` is that of text, from a property of the schema.

    Raises `InvalidSchemaError` for a character set that Python does not know.
    """

    name: str
    charset: str = "utf-8"

    def __post_init__(self) -> None:
        require_charset(self.charset)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return PRIMITIVE_TYPES[self.name]

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads, and a reason for each that is null (see `ValueDecoder`)."""
        reasons = reasons_before(starts.size, valid)
        if self.name in _KINDS:
            return _numbers(self.name, data, starts, ends, reasons), reasons
        sizes = ends - starts
        if self.name == "BYTES":
            return gather_bytes(data, starts, sizes, valid), reasons
        if codecs.lookup(self.charset).name == "utf-8":
            return gather_text(data, starts, sizes, valid), reasons
        return _text_of(self.charset, gather_bytes(data, starts, sizes, valid), reasons), reasons

    def explain(self, reason: int) -> str:
        """Return a reason in words."""
        return explain(reason)


def _numbers(name: str, data: Bytes, starts: Int64, ends: Int64, reasons: Int64) -> pa.Array:
    """Return numbers or times; a payload without one gets a reason."""
    kind = _KINDS[name]
    words, more = empty(starts.size, np.int64), np.zeros(starts.size if kind.size > 8 else 0, np.int64)
    _load(data, starts, ends, kind.size, words, more, reasons)
    with np.errstate(over="ignore"):
        words = _in_range(name, words, more, reasons)
    is_there = reasons == 0
    return _array(kind.type, words, None if is_there.all() else is_there)


def _in_range(name: str, words: Int64, more: Int64, reasons: Int64) -> Int64:
    """Return the words in Arrow's units; values outside the type's range get a reason."""
    match name:
        case "BOOLEAN":
            _refuse((words != 0) & (words != 1), Reason.BAD_BOOLEAN, reasons)
        case "TIME":
            # `java.sql.Time` is on the first day of some zone, so in UTC it may be on the day before or after.
            _refuse((words < -_DAY_MS) | (words >= 2 * _DAY_MS), Reason.OUT_OF_RANGE, reasons)
            return words % _DAY_MS
        case "LOCAL_DATE":
            _refuse(words != words.astype(np.int32), Reason.OUT_OF_RANGE, reasons)
        case "LOCAL_TIME":
            _refuse((words < 0) | (words >= _DAY_NS), Reason.OUT_OF_RANGE, reasons)
        case "INSTANT":
            return _nanoseconds(words, _SECOND_NS, more, reasons)
        case "LOCAL_DATE_TIME":
            return _nanoseconds(words, _DAY_NS, more, reasons)
    return words


def _nanoseconds(words: Int64, unit: int, more: Int64, reasons: Int64) -> Int64:
    # The addition may bring a product below the range back into it. A sum that overflows has the other sign.
    found = words * unit + more
    is_far = (words < -(2**63) // unit) | (words > 2**63 // unit) | ((found ^ words) < 0)
    _refuse(is_far | (more < 0) | (more >= unit), Reason.OUT_OF_RANGE, reasons)
    return found


def _refuse(wrong: Mask, reason: Reason, reasons: Int64) -> None:
    reasons[wrong & (reasons == 0)] = reason


def _array(kind: pa.DataType, words: Int64, valid: Mask | None) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(words != 0, mask=None if valid is None else ~valid)
    return masked(words.astype(f"i{kind.bit_width // 8}", copy=False), valid, kind)


def _text_of(charset: str, values: pa.Array, reasons: Int64) -> pa.Array:
    """Return text in another character set, which is rare: one Python object per value."""
    texts: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode(_charset_of(charset, value)))
        except UnicodeDecodeError:
            reasons[row] = Reason.BAD_TEXT
            texts.append(None)
    return pa.array(texts, pa.string())


def _charset_of(charset: str, value: bytes) -> str:
    """Return a character set with Java's byte order where the value does not contain it."""
    name = codecs.lookup(charset).name
    marks = _BYTE_ORDER_MARKS.get(name, ())
    return f"{name}-be" if marks and not value.startswith(marks) else charset


@kernel
def _load(data, starts, ends, size, words, more, reasons):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Read one number of each payload, or two from 12 or 16 bytes; 0 without any."""
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(starts.size):
        words[i] = 0
        if reasons[i] != 0:
            continue
        at = starts[i]
        if ends[i] - at != size:
            reasons[i] = Reason.WRONG_SIZE
        elif size == 1:
            words[i] = np.int8(data[at])
        elif size == 2:
            words[i] = np.int16((np.int64(data[at]) << 8) | np.int64(data[at + 1]))
        elif size == 4:
            words[i] = load_int32(data, at)
        else:
            words[i] = load_int64(data, at)
            if size == 12:
                more[i] = load_int32(data, at + 8)
            elif size == 16:
                more[i] = load_int64(data, at + 8)

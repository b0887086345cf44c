"""Columns as values of Pulsar's primitive types: big-endian numbers and times, and text (``docs/formats/schemas.md``)."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.messages.encode.values.avro_payloads import Values, fixed_width, ticks
from ledgerfs.messages.encode.values.leaf_casts import cast_leaf
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES

_WIDTHS = {"BOOLEAN": "i1", "INT8": "i1", "INT16": ">i2", "INT32": ">i4", "FLOAT": ">f4", "DOUBLE": ">f8"}
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


def primitive_array(name: str, array: pa.Array, place: Place) -> pa.Array:
    """Return a column in Arrow's type for one of Pulsar's; raises `InvalidRowsError` for unsupported columns or values."""
    return cast_leaf(array, PRIMITIVE_TYPES[name], place)


def primitive_payloads(name: str, array: pa.Array, present: Mask) -> Values:
    """Return the payloads of values from `primitive_array`, except for texts, which are their own payloads."""
    data = _big_endian(name, array)
    width = data.dtype.itemsize if data.ndim == 1 else data.dtype.itemsize * data.shape[1]
    return fixed_width(np.frombuffer(data.tobytes() + b"\0", np.uint8), width, present)


def _big_endian(name: str, array: pa.Array) -> "npt.NDArray[np.generic]":
    if name in _WIDTHS:
        filled = array.fill_null(False) if name == "BOOLEAN" else array.fill_null(0)
        return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(_WIDTHS[name])
    numbers = ticks(array)
    match name:
        case "INSTANT":
            pairs = np.empty(numbers.size, np.dtype([("second", ">i8"), ("nano", ">i4")]))
            pairs["second"], pairs["nano"] = np.divmod(numbers, _SECOND_NS)
            return pairs
        case "LOCAL_DATE_TIME":
            return _two(*np.divmod(numbers, _DAY_NS))
        case _:
            return numbers.astype(">i8")


def _two(one: Int64, other: Int64) -> "npt.NDArray[np.generic]":
    return np.stack([one, other], axis=1).astype(">i8")

"""Arrays of kernels: memory from Arrow's pool, spans of bounded size, and additions to numba: borrowed arrays, memcpy, a count of bits.

The pool reuses memory of the last window for the next one. Fresh pages cost more than writing to them: a page fault each, which on
virtual machines slows a copy of 7 GB/s to 1 GB/s.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_Item = TypeVar("_Item", bound=np.generic)


@intrinsic
def borrowed(typingctx, array):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the same array without its reference count; the kernel's caller keeps it alive.

    Each array that one compiled function passes to another costs two atomic steps: most of the time of a loop over fields of a few bytes
    (measured: 60 ns an entry become 18).
    """

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        make = context.make_array(signature.args[0])
        lent = make(context, builder)
        cgutils.copy_struct(lent, make(context, builder, arguments[0]))  # type: ignore[no-untyped-call]
        for owner in ("meminfo", "parent"):
            setattr(lent, owner, cgutils.get_null_value(getattr(lent, owner).type))  # type: ignore[no-untyped-call]
        return lent._getvalue()  # noqa: SLF001  (numba's own name for it)

    return array(array), codegen


@intrinsic
def copy_bytes(typingctx, target, target_at, source, source_at, length):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001, PLR0917
    """Copy bytes between uint8 arrays with the C library's memcpy; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        to, source_data = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        byte = ir.IntType(8).as_pointer()
        to_place = builder.gep(builder.bitcast(to, byte), [arguments[1]])
        source_place = builder.gep(builder.bitcast(source_data, byte), [arguments[3]])
        cgutils.raw_memcpy(builder, to_place, source_place, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), codegen


@intrinsic
def trailing_zeros(typingctx, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return how many of the lowest bits of a word that is not 0 are 0."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), codegen


def _converted(to: str, kind: ir.Type) -> Any:  # noqa: ANN401  (numba's and llvmlite's)
    """Return the code that converts a real number by the llvmlite operation ``to``, and returns its bits as an int64."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        given = arguments[0]
        if to == "fpext":
            given = builder.bitcast(builder.trunc(given, ir.IntType(32)), ir.FloatType())
        bits = ir.IntType(32 if isinstance(kind, ir.FloatType) else 64)
        word = builder.bitcast(getattr(builder, to)(given, kind), bits)
        return word if bits.width == 64 else builder.sext(word, ir.IntType(64))

    return codegen


@intrinsic
def float_of_long(typingctx, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the bits of the float32 that is nearest to an int64, as an int64."""
    return types.int64(types.int64), _converted("sitofp", ir.FloatType())


@intrinsic
def double_of_long(typingctx, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the bits of the float64 that is nearest to an int64."""
    return types.int64(types.int64), _converted("sitofp", ir.DoubleType())


@intrinsic
def double_of_float(typingctx, bits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the bits of the float64 that equals the float32 whose bits are the lowest of an int64."""
    return types.int64(types.int64), _converted("fpext", ir.DoubleType())


def empty(size: int, dtype: Any) -> "npt.NDArray[Any]":  # noqa: ANN401  (any type of numpy)
    """Return an array of ``size`` items, of any content."""
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * kind.itemsize), kind)


def empty_table(columns: int, rows: int) -> npt.NDArray[np.int64]:
    """Return an array of shape (columns, at least rows), of any content. Use it whole: kernels are compiled for one type of array only."""
    # A row more or less than a multiple of the page would let all columns compete for the same lines of the CPU's cache.
    stride = -(-rows // 512) * 512 + 8
    return empty(columns * stride, np.int64).reshape(columns, stride)


def spans(sizes: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of spans of items with these sizes: at most ``most`` bytes each, or one larger item."""
    ends = np.cumsum(sizes)
    start = 0
    while start < sizes.size:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, "right")))
        yield start, stop
        start = stop


def valid_of(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are not null."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _view(column: pa.Array, buffer: int, kind: type[_Item], more: int) -> npt.NDArray[_Item]:
    """Return the items of a buffer that belong to the column, which may be a slice, as a read-only array."""
    found = column.buffers()[buffer]
    if found is None or not found.size:
        return read_only(np.zeros(len(column) + more, kind))
    return read_only(np.frombuffer(found, kind, len(column) + more, column.offset * np.dtype(kind).itemsize))


def variable_width(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the bytes of strings or binary values, and the start of each and the end of the last one."""
    found = column.buffers()[2]
    data = np.frombuffer(found, np.uint8) if found is not None and found.size else np.zeros(0, np.uint8)
    return read_only(data), _view(column, 1, np.int32, 1)


def read_only(array: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
    """Return the array in the one type that kernels are compiled for."""
    array.flags.writeable = False
    return array

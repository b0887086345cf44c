"""Values that are compressed one by one, inflated into one buffer by a kernel.

The kernel calls the zlib functions that Python's module `zlib` is linked to. A call from Python for each value would take longer than
most values do, and would release and take the interpreter's lock each time. Where the functions are not exported, Python inflates each.
"""

import ctypes
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.kernel import address_of, c_library, kernel
from ledgerfs.formats.mapfile.header import Codec
from ledgerfs.formats.mapfile.records import read_only
from ledgerfs.formats.memory_loads import load_int32


class InflateStop(IntEnum):
    """Reason why `inflate_values` stopped."""

    COMPLETE = 0
    """All requested values are inflated."""
    FULL = 1
    """There is no room for the next value."""
    BROKEN = 2
    """The next value is not exactly one valid stream."""
    WRONG_LENGTH = 3
    """The next value claims another length than its stream has."""


@dataclass(frozen=True, slots=True)
class InflatedValues:
    """The result of `inflate_values`.

    Attributes
    ----------
    buffer
        The bytes of the values, each after its own length (four bytes).
    starts, sizes
        Where in ``buffer`` the bytes of each value are (without its length), shape (values,).
    stop
        Reason why there are no more.

    """

    buffer: memoryview
    starts: Int64
    sizes: Int64
    stop: InflateStop


def inflate_values(buffer: memoryview, starts: Int64, sizes: Int64, codec: Codec, room: int) -> InflatedValues:
    """Inflate the values whose streams are at ``starts`` in ``buffer``, ``sizes`` bytes each: as many as fit into ``room`` bytes.

    Allocates ``room`` bytes, and touches only those that values fill.
    """
    if _zlib() is None:
        return _inflate_in_python(buffer, starts, sizes, codec, room)
    target = np.empty(room, np.uint8)
    placed, lengths = np.empty_like(starts), np.empty_like(sizes)
    with _inflater(codec) as (functions, stream):
        done, used, stop = _inflate(functions, stream, read_only(buffer), starts, sizes, target, placed, lengths)
    return InflatedValues(target.data[:used], placed[:done], lengths[:done], InflateStop(stop))


def _inflate_in_python(buffer: memoryview, starts: Int64, sizes: Int64, codec: Codec, room: int) -> InflatedValues:
    """Inflate values as `inflate_values` does, without zlib's C functions."""
    made, stop = bytearray(), InflateStop.COMPLETE
    placed, lengths = [], []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        inflater = zlib.decompressobj(codec.window_bits)
        try:
            value = inflater.decompress(buffer[start : start + size], room - len(made) + 1)
        except zlib.error:
            stop = InflateStop.BROKEN
            break
        if len(value) > room - len(made):
            stop = InflateStop.FULL
        elif not inflater.eof or inflater.unused_data:
            stop = InflateStop.BROKEN
        elif int.from_bytes(value[:4], "big", signed=True) != len(value) - 4:
            stop = InflateStop.WRONG_LENGTH
        if stop is not InflateStop.COMPLETE:
            break
        placed.append(len(made) + 4)
        lengths.append(len(value) - 4)
        made += value
    return InflatedValues(memoryview(made), np.array(placed, np.int64), np.array(lengths, np.int64), stop)


@cache
def _zlib() -> ctypes.CDLL | None:
    library = c_library("zlib", "inflateInit2_", "inflateReset", "inflate", "inflateEnd")
    if library is not None:
        library.inflateInit2_.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        library.inflateEnd.argtypes = [ctypes.c_void_p]
    return library


# The structure ``z_stream`` as words of eight bytes: input, its size, bytes read of it, output, its room, and zlib's own fields.
_STREAM_WORDS = 14
_NEXT_IN, _AVAIL_IN, _NEXT_OUT, _AVAIL_OUT = 0, 1, 3, 4


@contextmanager
def _inflater(codec: Codec) -> Iterator[tuple[Int64, Int64]]:
    """Yield the addresses of the C functions that `_inflate` calls, and a stream for one thread."""
    library = _zlib()
    assert library is not None  # noqa: S101  (the caller has checked)
    stream = np.zeros(_STREAM_WORDS, np.int64)
    version = zlib.ZLIB_RUNTIME_VERSION.encode()
    if library.inflateInit2_(stream.ctypes.data, codec.window_bits, version, stream.nbytes) != 0:
        raise MemoryError("no memory for a zlib stream")
    try:
        yield np.array([address_of(library, "inflateReset"), address_of(library, "inflate")], np.int64), stream
    finally:
        library.inflateEnd(stream.ctypes.data)


@kernel
def _inflate(functions, stream, source, starts, sizes, target, placed, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    to = np.int64(0)
    for i in range(starts.size):
        room = min(target.size - to, 2**32 - 1)
        _reset(functions[0], stream.ctypes.data)  # type: ignore[call-arg]
        stream[_NEXT_IN], stream[_AVAIL_IN] = source.ctypes.data + starts[i], sizes[i]
        stream[_NEXT_OUT], stream[_AVAIL_OUT] = target.ctypes.data + to, room
        state = _finish(functions[1], stream.ctypes.data)
        made = room - (stream[_AVAIL_OUT] & 0xFFFF_FFFF)
        if state != 1:  # Z_STREAM_END
            return i, to, 1 if made == room else 2
        if stream[_AVAIL_IN] & 0xFFFF_FFFF:
            return i, to, 2
        if made < 4 or np.int64(load_int32(target, to)) != made - 4:
            return i, to, 3
        placed[i], lengths[i] = to + 4, made - 4
        to += made
    return starts.size, to, 0


@intrinsic
def _reset(typingctx, function, stream):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """``int inflateReset(z_streamp)``."""

    def codegen(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return _call(builder, *arguments)

    return types.int32(types.int64, types.int64), codegen


@intrinsic
def _finish(typingctx, function, stream):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """``int inflate(z_streamp, Z_FINISH)``."""

    def codegen(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return _call(builder, *arguments, ir.IntType(32)(4))

    return types.int32(types.int64, types.int64), codegen


def _call(builder: Any, function: Any, stream: Any, *numbers: Any) -> Any:  # noqa: ANN401  (llvmlite's)
    """Call a C function that takes a stream and integers, and returns an integer."""
    i32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(i32, [pointer, *(i32 for _ in numbers)]).as_pointer()
    return builder.call(builder.inttoptr(function, kind), [builder.inttoptr(stream, pointer), *numbers])

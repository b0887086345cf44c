"""CRC32C (Castagnoli) and CRC-32 (zlib's) inside numba kernels, so that checking an entry costs no call.

On x86-64 the CPU has an instruction for CRC32C (SSE4.2, 8 bytes every cycle, but with a latency of 3 cycles: so three chunks are
computed at a time, and combined by a table); elsewhere, and for CRC-32, eight tables handle eight bytes a step. Tests compare all with
published vectors and other libraries.

`crc32c_after` and `crc32_after` continue the checksum of earlier bytes, as ``zlib.crc32(data, crc)`` does, since digests of BookKeeper
leave out the bytes between an entry's header and its payload.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel

_CASTAGNOLI = 0x82F63B78
_ZLIB = 0xEDB88320


def _has_crc_instruction() -> bool:
    return platform.machine() in {"x86_64", "AMD64"} and bool(binding.get_host_cpu_features().get("sse4.2"))


def _tables(polynomial: int) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Return the eight tables of the slicing-by-8 method, shape (8, 256)."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


_TABLES = _tables(_CASTAGNOLI)
_ZLIB_TABLES = _tables(_ZLIB)
_STRETCH = 128
"""Bytes of each of the three chunks."""


def _shift_tables() -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Return the state after `_STRETCH` zero bytes, one table for each byte of the state before, shape (4, 256)."""
    states = np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]
    for _ in range(_STRETCH):
        states = (states >> np.uint32(8)) ^ _TABLES[0][states & 0xFF]
    return states


_SHIFTED = _shift_tables()


@intrinsic
def _load_u64(typingctx, array, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Load eight bytes of a uint8 array, little-endian, from any index; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(array, types.intp), codegen


@intrinsic
def _crc_u64(typingctx, crc, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """One SSE4.2 step over eight bytes."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        i64 = ir.IntType(64)
        step = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", fnty=ir.FunctionType(i64, [i64, i64]))
        return builder.call(step, arguments)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def _crc_u8(typingctx, crc, byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """One SSE4.2 step over one byte."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        i32 = ir.IntType(32)
        kind = ir.FunctionType(i32, [i32, ir.IntType(8)])
        return builder.call(builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", fnty=kind), arguments)

    return types.uint32(types.uint32, types.uint8), codegen


@inner_kernel
def _shifted(state):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the state after `_STRETCH` zero bytes."""
    low = _SHIFTED[0, state & np.uint64(0xFF)] ^ _SHIFTED[1, (state >> np.uint64(8)) & np.uint64(0xFF)]
    high = _SHIFTED[2, (state >> np.uint64(16)) & np.uint64(0xFF)] ^ _SHIFTED[3, state >> np.uint64(24)]
    return np.uint64(low ^ high)


@inner_kernel
def crc32c_after_by_instruction(crc, data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC32C of ``data[start:end]`` (uint8 array) after bytes whose CRC32C is ``crc``, with the CPU's instruction."""
    wide = np.uint64(np.uint32(crc) ^ np.uint32(0xFFFFFFFF))
    at = start
    while at + 3 * _STRETCH <= end:
        second = third = np.uint64(0)
        for k in range(at, at + _STRETCH, 8):
            wide = _crc_u64(wide, _load_u64(data, k))  # type: ignore[call-arg]
            second = _crc_u64(second, _load_u64(data, k + _STRETCH))
            third = _crc_u64(third, _load_u64(data, k + 2 * _STRETCH))
        wide = _shifted(_shifted(wide) ^ second) ^ third
        at += 3 * _STRETCH
    while at + 8 <= end:
        wide = _crc_u64(wide, _load_u64(data, at))  # type: ignore[call-arg]
        at += 8
    narrow = np.uint32(wide)
    while at < end:
        narrow = _crc_u8(narrow, data[at])  # type: ignore[call-arg]
        at += 1
    return narrow ^ np.uint32(0xFFFFFFFF)


@inlined_kernel
def _after_by_tables(tables, crc, data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    state = np.uint32(crc) ^ np.uint32(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        word = np.uint64(_load_u64(data, at))  # type: ignore[call-arg]
        low = state ^ np.uint32(word & np.uint64(0xFFFFFFFF))
        state = (
            tables[7, low & np.uint32(0xFF)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, (word >> np.uint64(32)) & np.uint64(0xFF)]
            ^ tables[2, (word >> np.uint64(40)) & np.uint64(0xFF)]
            ^ tables[1, (word >> np.uint64(48)) & np.uint64(0xFF)]
            ^ tables[0, word >> np.uint64(56)]
        )
        at += 8
    while at < end:
        state = tables[0, (state ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ (state >> np.uint32(8))
        at += 1
    return state ^ np.uint32(0xFFFFFFFF)


@inner_kernel
def crc32c_after_by_tables(crc, data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC32C of ``data[start:end]`` (uint8 array) after bytes whose CRC32C is ``crc``, on any CPU."""
    return _after_by_tables(_TABLES, crc, data, start, end)


@inner_kernel
def crc32_after(crc, data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC-32 (``zlib.crc32``) of ``data[start:end]`` (uint8 array) after bytes whose CRC-32 is ``crc``."""
    return _after_by_tables(_ZLIB_TABLES, crc, data, start, end)


crc32c_after = crc32c_after_by_instruction if _has_crc_instruction() else crc32c_after_by_tables


@kernel
def crc32c(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC32C of ``data[start:end]`` (uint8 array), for Python; kernels call `crc32c_after`."""
    return crc32c_after(np.uint32(0), data, start, end)

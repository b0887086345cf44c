"""CRC32C (Castagnoli) inside a numba kernel, so that checking an entry costs no call.

On x86-64 the CPU has an instruction for it (SSE4.2, 8 bytes every cycle, but with a latency of 3 cycles: so three stretches are computed
at a time, and combined by a table); elsewhere eight tables do eight bytes a step. Both are checked against published vectors and
another library.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from ledgerfs.formats.kernel import kernel

_POLYNOMIAL = 0x82F63B78


def _has_crc_instruction() -> bool:
    return platform.machine() in {"x86_64", "AMD64"} and bool(binding.get_host_cpu_features().get("sse4.2"))


def _tables() -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Return the eight tables of the slicing-by-8 method, shape (8, 256)."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


_TABLES = _tables()
_STRETCH = 128
"""Bytes of each of the three stretches."""


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


@kernel
def _crc_byte(crc, byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return _TABLES[0, (crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))


@kernel
def _shifted(state):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the state after `_STRETCH` zero bytes."""
    low = _SHIFTED[0, state & np.uint64(0xFF)] ^ _SHIFTED[1, (state >> np.uint64(8)) & np.uint64(0xFF)]
    high = _SHIFTED[2, (state >> np.uint64(16)) & np.uint64(0xFF)] ^ _SHIFTED[3, state >> np.uint64(24)]
    return np.uint64(low ^ high)


@kernel
def crc32c_by_instruction(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC32C of ``data[start:end]`` (uint8 array), with the CPU's instruction."""
    wide = np.uint64(0xFFFFFFFF)
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
    crc = np.uint32(wide)
    while at < end:
        crc = _crc_u8(crc, data[at])  # type: ignore[call-arg]
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@kernel
def crc32c_by_tables(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """CRC32C of ``data[start:end]`` (uint8 array), on any CPU."""
    crc = np.uint32(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        low = crc ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        crc = (
            _TABLES[7, low & np.uint32(0xFF)]
            ^ _TABLES[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ _TABLES[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, data[at + 4]]
            ^ _TABLES[2, data[at + 5]]
            ^ _TABLES[1, data[at + 6]]
            ^ _TABLES[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = _crc_byte(crc, np.uint32(data[at]))
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


crc32c = crc32c_by_instruction if _has_crc_instruction() else crc32c_by_tables

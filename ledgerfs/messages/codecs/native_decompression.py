"""LZ4 and ZSTD from inside a kernel: the codecs' own C functions, without a call from Python for each payload.

The functions are in the extension modules of the packages ``lz4`` and ``zstandard``, which export them. If a build hides
them, and for the other codecs, `ledgerfs.formats.decompression` decompresses with a call for each payload.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.kernel import address_of, c_library, inner_kernel


def native_codecs() -> frozenset[int]:
    """Return the codecs that `decompress_into` supports."""
    found = {Compression.LZ4: _lz4() is not None, Compression.ZSTD: _zstd() is not None}
    return frozenset(codec for codec, is_there in found.items() if is_there)


@contextmanager
def native_functions(*, with_zstd: bool) -> Iterator[Int64]:
    """Yield the addresses of the C functions that `decompress_into` calls, and of a ZSTD context for one thread."""
    lz4, zstd = _lz4(), _zstd()
    context = 0
    if with_zstd and zstd is not None:
        context = zstd.ZSTD_createDCtx()
        if not context:
            raise MemoryError("no memory for a ZSTD context")
    try:
        addresses = [address_of(lz4, "LZ4_decompress_safe"), address_of(zstd, "ZSTD_decompressDCtx"), context]
        yield np.array(addresses, np.int64)
    finally:
        if context and zstd is not None:
            zstd.ZSTD_freeDCtx(context)


@inner_kernel
def decompress_into(functions, codec, source, at, end, target, to, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Decompress ``source[at:end]`` to ``target[to : to + size]``; return whether it is exactly that long. Writes nothing else."""
    if codec == 1:
        return call_lz4(functions[0], source, at, end - at, target, to, size) == size  # type: ignore[call-arg]
    return call_zstd(functions[1], functions[2], source, at, end - at, target, to, size) == size  # type: ignore[call-arg]


@cache
def _lz4() -> ctypes.CDLL | None:
    return c_library("lz4.block._block", "LZ4_decompress_safe")


@cache
def _zstd() -> ctypes.CDLL | None:
    library = c_library("zstandard._cffi", "ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx")
    if library is not None:
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
    return library


def _place(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:  # noqa: ANN401  (numba's and llvmlite's)
    """Return the pointer to a byte of a uint8 array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [at])


@intrinsic
def call_lz4(typingctx, function, source, at, length, target, to, capacity):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001, PLR0917
    """``int LZ4_decompress_safe(const char* src, char* dst, int compressedSize, int dstCapacity)``."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        i32, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(i32, [byte, byte, i32, i32]).as_pointer()
        places = [_place(context, builder, signature.args[k], arguments[k], arguments[k + 1]) for k in (1, 4)]
        sizes = [builder.trunc(arguments[k], i32) for k in (3, 6)]
        made = builder.call(builder.inttoptr(arguments[0], kind), [*places, *sizes])
        return builder.sext(made, ir.IntType(64))

    integer = types.int64
    return integer(integer, source, integer, integer, target, integer, integer), codegen


@intrinsic
def call_zstd(typingctx, function, state, source, at, length, target, to, capacity):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001, PLR0917
    """``size_t ZSTD_decompressDCtx(ZSTD_DCtx*, void* dst, size_t dstCapacity, const void* src, size_t srcSize)``."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        i64, byte = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(i64, [byte, byte, i64, byte, i64]).as_pointer()
        from_place, to_place = (
            _place(context, builder, signature.args[k], arguments[k], arguments[k + 1]) for k in (2, 5)
        )
        given = [builder.inttoptr(arguments[1], byte), to_place, arguments[7], from_place, arguments[4]]
        return builder.call(builder.inttoptr(arguments[0], kind), given)

    integer = types.int64
    return integer(integer, integer, source, integer, integer, target, integer, integer), codegen

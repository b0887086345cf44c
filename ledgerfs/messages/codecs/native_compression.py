"""LZ4 and ZSTD from inside a kernel, the inverse of `native_decompression`: as `compress` does it, without calls from Python.

ZSTD makes the same bytes as there. LZ4 may make others: its package calls another function, which compresses short payloads less.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.kernel import address_of, c_library, kernel
from ledgerfs.messages.codecs.compress import ZSTD_LEVEL
from ledgerfs.messages.codecs.native_decompression import call_lz4, call_zstd
from ledgerfs.messages.kernels.arrays import copy_bytes

_LEVEL_PARAMETER = 100
"""``ZSTD_c_compressionLevel``."""


def native_compressors() -> frozenset[Compression]:
    """Return the codecs that `put_compressed` knows, `Compression.NONE` included."""
    found = {Compression.NONE: True, Compression.LZ4: _lz4() is not None, Compression.ZSTD: _zstd() is not None}
    return frozenset(codec for codec, is_there in found.items() if is_there)


@contextmanager
def compressor_functions(codec: Compression) -> Iterator[Int64]:
    """Yield the addresses of the C functions that `put_compressed` calls, and of a ZSTD context for one thread."""
    lz4, zstd = _lz4(), _zstd()
    context = 0
    if codec == Compression.ZSTD and zstd is not None:
        context = zstd.ZSTD_createCCtx()
        if not context:
            raise MemoryError("no memory for a ZSTD context")
    try:
        if context and zstd is not None:
            zstd.ZSTD_CCtx_setParameter(context, _LEVEL_PARAMETER, ZSTD_LEVEL)
        yield np.array([address_of(lz4, "LZ4_compress_default"), address_of(zstd, "ZSTD_compress2"), context], np.int64)
    finally:
        if context and zstd is not None:
            zstd.ZSTD_freeCCtx(context)


@kernel
def most_compressed(size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the most bytes that ``size`` bytes take compressed, even if they do not compress."""
    return size + size // 255 + 80


@kernel
def put_compressed(functions, codec, source, at, size, target, to):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Compress ``source[at : at + size]`` to ``target[to:]``, which has room for `most_compressed`; return the index after it, or -1."""
    if codec == 0:
        copy_bytes(target, to, source, at, size)  # type: ignore[call-arg]
        return to + size
    room = min(most_compressed(size), 2**31 - 1)
    if codec == 1:
        made = call_lz4(functions[0], source, at, size, target, to, room)  # type: ignore[call-arg, var-annotated]
    else:
        made = call_zstd(functions[1], functions[2], source, at, size, target, to, room)  # type: ignore[call-arg]
    return to + made if 0 < made <= room else -1


@cache
def _lz4() -> ctypes.CDLL | None:
    return c_library("lz4.block._block", "LZ4_compress_default")


@cache
def _zstd() -> ctypes.CDLL | None:
    names = ("ZSTD_createCCtx", "ZSTD_freeCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2")
    library = c_library("zstandard._cffi", *names)
    if library is not None:
        library.ZSTD_createCCtx.restype = ctypes.c_void_p
        library.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
        library.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    return library

"""Many payloads compressed one after the other, by a kernel if it can call the codec's library."""

import numpy as np

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.codecs.compress import compress
from ledgerfs.messages.codecs.native_compression import (
    compressor_functions,
    most_compressed,
    native_compressors,
    put_compressed,
)
from ledgerfs.messages.kernels.arrays import borrowed, empty


def stored_payloads(
    codec: Compression, plain: Bytes, plain_at: Int64, limit: int, codecs: Int64
) -> tuple[Bytes, Int64]:
    """Compress the payloads in ``plain``, which the offsets ``plain_at`` separate; return the compressed bytes, and their offsets.

    A payload that would grow, to more than ``limit`` bytes, stays plain: it has no bytes in the result, and 0 in ``codecs``.
    """
    if codec in native_compressors():
        sizes = np.diff(plain_at)
        out = empty(int((sizes + sizes // 255 + 80).sum()), np.uint8)
        stored_at = np.zeros(plain_at.size, np.int64)
        with compressor_functions(codec) as functions:
            failed = _compress(functions, int(codec), plain, plain_at, limit, codecs, out, stored_at)
        if failed >= 0:
            raise MemoryError(f"{codec.name} cannot compress {sizes[failed]} bytes")
        return out[: stored_at[-1]], stored_at
    view = memoryview(plain)  # type: ignore[arg-type]
    made: list[bytes] = []
    for i, (start, stop) in enumerate(zip(plain_at[:-1].tolist(), plain_at[1:].tolist(), strict=True)):
        payload = compress(codec, view[start:stop])
        if len(payload) > max(stop - start, limit):
            codecs[i], payload = Compression.NONE, b""
        made.append(payload)
    stored_at = np.zeros(plain_at.size, np.int64)
    np.cumsum([len(payload) for payload in made], out=stored_at[1:])
    return np.frombuffer(b"".join(made), np.uint8), stored_at


@kernel
def _compress(functions, codec, plain, plain_at, limit, codecs, out, stored_at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Compress each payload; return the index of the first that the library refuses, or -1."""
    plain, out = borrowed(plain), borrowed(out)  # type: ignore[call-arg]
    to = 0
    for i in range(plain_at.size - 1):
        size = plain_at[i + 1] - plain_at[i]
        if most_compressed(size) > out.size - to:
            return i
        end = put_compressed(functions, codec, plain, plain_at[i], size, out, to)
        if end < 0:
            return i
        if end - to > max(size, limit):
            codecs[i] = 0
        else:
            to = end
        stored_at[i + 1] = to
    return -1

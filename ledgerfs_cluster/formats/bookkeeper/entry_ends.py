"""Find the length of a stored entry with a damaged size: the length whose digest fits.

Digests of CRC32C and CRC32 need no metadata, and one pass computes the checksums of all prefixes of some bytes. Entries with an HMAC need a
password, and those without a digest have nothing to check: their lengths stay unknown.
"""

import numpy as np

from ledgerfs.formats.crc import crc32_after, crc32c_after
from ledgerfs.formats.kernel import inlined_kernel, inner_kernel
from ledgerfs.formats.memory_loads import load_int64, load_uint32
from ledgerfs_cluster.formats.bookkeeper.stored_entries import is_digest

__all__ = ["fitting_end", "has_header", "is_fitting"]


@inner_kernel
def has_header(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return whether the 32 bytes at ``at`` may be an entry's header, with a digest after it in the data."""
    if at + 36 > data.size:
        return False
    if load_int64(data, at) < 0 or load_int64(data, at + 8) < 0:  # type: ignore[call-arg]
        return False
    return load_int64(data, at + 16) >= -1 and load_int64(data, at + 24) >= 0


@inner_kernel
def is_fitting(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return whether the stored entry between ``at`` and ``end`` has a matching digest of CRC32C or CRC32."""
    if end > data.size or end - at < 36 or not has_header(data, at):
        return False
    return is_digest(data, at, at + 36, end, 3) or (end - at >= 40 and is_digest(data, at, at + 40, end, 1))


@inner_kernel
def _may_follow(data, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether an entry may end here: the next bytes look like another record or padding, or the data ends."""
    if end + 36 > data.size:
        return True
    if data[end] == 0xF0 or load_uint32(data, end) == 0 or load_uint32(data, end) == 0xFFFFFF00:  # type: ignore[call-arg]
        return True
    return load_int64(data, end + 4) >= -1 and load_int64(data, end + 12) >= -0x8000  # type: ignore[call-arg]


@inlined_kernel
def _after(is_crc32c, crc, data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return crc32c_after(crc, data, start, end) if is_crc32c else crc32_after(crc, data, start, end)


@inner_kernel
def _first_end(data, at, payload_at, limit, is_crc32c):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the end of the entry by a digest of one kind, whose last four bytes are before its payload; -1 if none fits."""
    wanted = np.uint32(load_uint32(data, payload_at - 4))  # type: ignore[call-arg]
    crc = _after(is_crc32c, np.uint32(0), data, at, at + 32)
    for end in range(payload_at, limit + 1):
        if crc == wanted and _may_follow(data, end):
            return np.int64(end)
        if end < limit:
            crc = _after(is_crc32c, crc, data, end, end + 1)
    return np.int64(-1)


@inner_kernel
def fitting_end(data, at, limit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the end of the stored entry at ``at``, ``limit`` at most, by a digest that fits; -1 without one.

    The chance that a wrong length fits is one in 2^32 for each byte that is checked.
    """
    if limit > data.size or not has_header(data, at):
        return np.int64(-1)
    end = _first_end(data, at, at + 36, limit, True)
    # CRC32 has eight bytes, of which four are zero.
    if end < 0 and at + 40 <= limit and load_uint32(data, at + 32) == 0:  # type: ignore[call-arg]
        end = _first_end(data, at, at + 40, limit, False)
    return end

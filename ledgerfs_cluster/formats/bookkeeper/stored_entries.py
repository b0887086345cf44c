"""Entries as bookies store and send them: a header of 32 bytes, a digest, the payload (``docs/formats/bookkeeper.md``).

``int64`` ledger, entry, LAC (last add confirmed), and bytes of all entries up to this one; big-endian. The digest covers header and
payload. One kernel checks a whole buffer and only classifies entries: the caller may read a bad one from another replica.
"""

import hmac
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.crc import crc32_after, crc32c, crc32c_after
from ledgerfs.formats.kernel import inner_kernel, kernel
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.formats.memory_loads import load_int64, load_uint32
from ledgerfs_cluster.formats.bookkeeper.digests import Digest

__all__ = ["ENTRY_HEADER_BYTES", "Checked", "Digest", "Fault", "build_stored_entry", "check_entries", "is_digest"]

ENTRY_HEADER_BYTES = 32
"""Bytes before the digest."""
_HEADER = struct.Struct(">qqqq")
_ANY_ENTRY = -1


class Fault(IntEnum):
    """Fault of a stored entry."""

    NONE = 0
    OTHER_ENTRY = 1
    """It belongs to another ledger, or has another id than expected."""
    DIGEST = 2
    """Its bytes do not match its digest."""
    TOO_SHORT = 3
    """It has no room for header and digest, or extends beyond the buffer."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Stored entries of one buffer, one row each; all arrays have shape (entries,).

    Attributes
    ----------
    starts, sizes
        Start of the payload in the buffer, and its bytes; 0 bytes if the entry is too short to have one.
    last_confirmed
        The LAC that the writer stored in this entry; -1 for none.
    lengths_so_far
        Bytes of all payloads of the ledger up to this one.
    ids
        Entry ids in the stored entries.
    wrong
        A `Fault` each: 0 for a sound entry. Trust the other columns only for sound rows.

    """

    starts: Int64
    sizes: Int64
    last_confirmed: Int64
    lengths_so_far: Int64
    ids: Int64
    wrong: npt.NDArray[np.int8]

    @property
    def are_sound(self) -> bool:
        """Whether all of them are sound."""
        return not self.wrong.any()


def check_entries(  # noqa: PLR0917  (where the entries are, and whose)
    buffer: memoryview, starts: Int64, sizes: Int64, ledger_id: int, expected_ids: Int64, digest: Digest
) -> Checked:
    """Check the stored entries at ``buffer[starts[i] : starts[i] + sizes[i]]``, and find their payloads.

    An expected id of -1 stands for any entry of the ledger: the newest, whose id is not known before. Reads no byte outside the buffer;
    raises no errors for bad entries, which the result marks.
    """
    if not starts.size == sizes.size == expected_ids.size:
        raise ValueError(f"{starts.size} places, {sizes.size} sizes and {expected_ids.size} ids")
    data = np.frombuffer(buffer.toreadonly(), np.uint8)
    numbers = np.empty((5, starts.size), np.int64)
    wrong = np.empty(starts.size, np.int8)
    _check(data, starts, sizes, expected_ids, ledger_id, int(digest.kind), digest.bytes, numbers, wrong)
    if digest.kind == DigestType.HMAC:
        _check_hmac(data, starts, numbers, digest, wrong)
    return Checked(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], wrong)


def build_stored_entry(  # noqa: PLR0917  (in the order of the bytes)
    ledger_id: int, entry_id: int, last_confirmed: int, length_so_far: int, payload: bytes, digest: Digest
) -> bytes:
    """Return the entry as a bookie stores it; ``length_so_far`` includes its own payload."""
    header = _HEADER.pack(ledger_id, entry_id, last_confirmed, length_so_far)
    return header + _digest_of(header, payload, digest) + payload


def _digest_of(header: bytes, payload: bytes, digest: Digest) -> bytes:
    if digest.kind == DigestType.CRC32C:
        both = np.frombuffer(header + payload, np.uint8)
        return int(crc32c(both, 0, both.size)).to_bytes(4, "big")
    if digest.kind == DigestType.CRC32:
        return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")
    if digest.kind == DigestType.HMAC:
        return hmac.digest(digest.key, header + payload, "sha1")
    return b""


def _check_hmac(
    data: npt.NDArray[np.uint8], starts: Int64, numbers: Int64, digest: Digest, wrong: npt.NDArray[np.int8]
) -> None:
    """Mark entries whose HMAC differs, by one call of the C library an entry, which takes most of the time anyway."""
    view = data.data
    empty = hmac.new(digest.key, digestmod="sha1")
    for row in np.flatnonzero(wrong == Fault.NONE).tolist():
        at, payload_at, size = int(starts[row]), int(numbers[0, row]), int(numbers[1, row])
        found = empty.copy()
        found.update(view[at : at + ENTRY_HEADER_BYTES])
        found.update(view[payload_at : payload_at + size])
        if found.digest() != view[at + ENTRY_HEADER_BYTES : payload_at]:
            wrong[row] = Fault.DIGEST


@kernel
def _check(  # type: ignore[no-untyped-def]  # noqa: ANN202, PLR0917
    data,  # noqa: ANN001
    starts,  # noqa: ANN001
    sizes,  # noqa: ANN001
    expected_ids,  # noqa: ANN001
    ledger_id,  # noqa: ANN001
    kind,  # noqa: ANN001
    digest_bytes,  # noqa: ANN001
    numbers,  # noqa: ANN001
    wrong,  # noqa: ANN001
):
    before = 32 + digest_bytes
    for i in range(starts.size):
        at, size = starts[i], sizes[i]
        if at < 0 or size < before or at > data.size - size:
            numbers[0, i] = numbers[1, i] = numbers[2, i] = numbers[3, i] = numbers[4, i] = 0
            wrong[i] = 3
            continue
        entry = np.int64(load_int64(data, at + 8))  # type: ignore[call-arg]
        numbers[0, i] = at + before
        numbers[1, i] = size - before
        numbers[2, i] = load_int64(data, at + 16)
        numbers[3, i] = load_int64(data, at + 24)
        numbers[4, i] = entry
        is_expected = entry >= 0 and (entry == expected_ids[i] or expected_ids[i] == _ANY_ENTRY)
        if load_int64(data, at) != ledger_id or not is_expected:
            wrong[i] = 1
        else:
            wrong[i] = 0 if is_digest(data, at, at + before, at + size, kind) else 2


@inner_kernel
def is_digest(data, at, payload_at, end, kind):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return whether an entry's digest matches its bytes; True for kinds that are not checksums."""
    if kind == 3:
        crc = crc32c_after(np.uint32(0), data, at, at + 32)
        return crc32c_after(crc, data, payload_at, end) == load_uint32(data, at + 32)  # type: ignore[call-arg]
    if kind == 1:
        crc = crc32_after(np.uint32(0), data, at, at + 32)
        return np.int64(crc32_after(crc, data, payload_at, end)) == load_int64(data, at + 32)  # type: ignore[call-arg]
    return True


def differing_copies(buffer: memoryview, entries: Int64, checked: Checked) -> npt.NDArray[np.intp]:
    """Return the rows of sound copies that differ from the sound copy of the same entry before them.

    ``entries`` has the id of each copy; copies of one entry follow each other. Compares payloads, and the bytes of the ledger up to them;
    LACs may differ, since copies are written at different times.
    """
    rows = np.flatnonzero(checked.wrong == 0)
    left, right = rows[:-1], rows[1:]
    is_same_entry = entries[left] == entries[right]
    left, right = left[is_same_entry], right[is_same_entry]
    differs = (checked.sizes[left] != checked.sizes[right]) | (
        checked.lengths_so_far[left] != checked.lengths_so_far[right]
    )
    data = np.frombuffer(buffer.toreadonly(), np.uint8)
    _compare(data, checked.starts[left], checked.starts[right], checked.sizes[left], differs)
    found: npt.NDArray[np.intp] = right[differs]
    return found


@kernel
def _compare(data, starts, others, sizes, differs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Set ``differs`` where two ranges of the same size are not equal."""
    for i in range(starts.size):
        if differs[i]:
            continue
        a = starts[i]
        b = others[i]
        for j in range(sizes[i]):
            if data[a + j] != data[b + j]:
                differs[i] = True
                break

"""The frame of an entry, and the check of its CRC32C (``docs/formats/entries.md``).

An entry is ``[0E02 | int32 size | broker entry metadata] [0E01 | uint32 crc] message``; both parts in brackets are optional. The checksum
covers everything after it.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.crc import crc32c_after
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_uint32
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.kernels.arrays import borrowed


class EntryState(IntEnum):
    """Result of the check of one entry."""

    VALID = 0
    NO_CHECKSUM = 1
    """Old clients write no checksum."""
    MISMATCH = 2
    BROKEN_FRAME = 3
    """The frame claims more bytes than the entry has."""


@dataclass(frozen=True, slots=True)
class ChecksumResult:
    """The states of a batch's entries, and the checksums of each: arrays of shape (entries,).

    ``stored`` and ``computed`` are set if the state is ``VALID`` or ``MISMATCH``.
    """

    states: npt.NDArray[np.uint8]
    stored: npt.NDArray[np.uint32]
    computed: npt.NDArray[np.uint32]


def check_entries(batch: EntryBatch) -> ChecksumResult:
    """Compare the checksum of every entry of ``batch`` that carries one."""
    size = len(batch)
    result = ChecksumResult(np.empty(size, np.uint8), np.zeros(size, np.uint32), np.zeros(size, np.uint32))
    data = np.frombuffer(batch.buffer, np.uint8)
    _check(data, batch.offsets, batch.lengths, result.states, result.stored, result.computed)
    return result


@kernel
def _check(data, offsets, lengths, states, stored, computed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(offsets.size):
        at, end = offsets[i], offsets[i] + lengths[i]
        if at + 2 <= end and data[at] == 0x0E and data[at + 1] == 0x02:
            at = at + 6 + load_uint32(data, at + 2) if at + 6 <= end else end + 1
        has_magic = at + 2 <= end and data[at] == 0x0E and data[at + 1] == 0x01
        if at > end or (has_magic and at + 6 > end):
            states[i] = 3
        elif not has_magic:
            states[i] = 1
        else:
            stored[i] = load_uint32(data, at + 2)
            computed[i] = crc32c_after(np.uint32(0), data, at + 6, end)
            states[i] = 0 if stored[i] == computed[i] else 2

"""Which copies of the same entry differ: bytes of payloads compared in place, by one kernel."""

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.kernel import kernel
from ledgerfs_cluster.formats.bookkeeper.stored_entries import Checked


def differing_copies(buffer: memoryview, entries: Int64, checked: Checked) -> npt.NDArray[np.intp]:
    """Return the rows of sound copies that differ from the sound copy of the same entry before them.

    ``entries`` has the id of each copy, copies of one entry follow each other. Compared are payloads, and the bytes of the ledger up to
    them; what a writer knew to be confirmed may differ, since copies are written at different times.
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

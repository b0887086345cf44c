"""Keys of maps: where one occurs again, the last counts."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.kernel import kernel


def are_last_of_keys(keys: pa.Array, offsets: npt.NDArray[np.int32]) -> Mask:
    """Return which keys of the maps ``keys[offsets[i] : offsets[i + 1]]`` are not followed by an equal one."""
    last = np.ones(len(keys), np.bool_)
    encoded = keys.dictionary_encode()
    # One item more: kernels do not write to memory of no bytes.
    seen = np.zeros(len(encoded.dictionary) + 1, np.int64)
    _mark_earlier(np.array(encoded.indices, np.int64), offsets, seen, last)
    return last


def kept_items(
    keep: Mask, offsets: npt.NDArray[np.int32], arrays: list[pa.Array]
) -> tuple[npt.NDArray[np.int32], list[pa.Array]]:
    """Return the offsets of lists, and the arrays of their items, with those items alone that are kept."""
    if keep.all():
        return offsets, arrays
    before = np.zeros(keep.size + 1, np.int32)
    np.cumsum(keep, out=before[1:])
    mask = pa.array(keep)
    return before[offsets], [one.filter(mask) for one in arrays]


@kernel
def _mark_earlier(numbers, offsets, seen, last):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Clear ``last`` for each number that comes again in its list."""
    for i in range(offsets.size - 1):
        for k in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            number = numbers[k]
            if seen[number] == i + 1:
                last[k] = False
            seen[number] = i + 1

"""Keys of maps: where one occurs again, the last counts."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.kernel import inlined_kernel, kernel

_FEW = 16
"""Keys of a map that are compared each with each."""


def are_last_of_keys(keys: pa.Array, offsets: npt.NDArray[np.int32]) -> Mask:
    """Return which keys of the maps ``keys[offsets[i] : offsets[i + 1]]`` are not followed by an equal one."""
    last = np.ones(len(keys), np.bool_)
    if pa.types.is_string(keys.type) and _are_few_and_different(keys, offsets):
        return last
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


def _are_few_and_different(keys: pa.Array, offsets: npt.NDArray[np.int32]) -> bool:
    """Whether no map has a key twice, if that is quickly seen: nearly always, and for much less than it takes to number all keys."""
    if keys.offset or not len(keys):
        return not len(keys)
    _, places, data = keys.buffers()
    views = np.frombuffer(places, np.int32), np.frombuffer(data or b"", np.uint8)
    for one in views:
        one.flags.writeable = False  # to kernels, memory that may be written is another type
    return bool(_are_different(offsets, *views))


@kernel
def _are_different(offsets, places, data):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(offsets.size - 1):
        if offsets[i + 1] - offsets[i] > _FEW:
            return False
        for one in range(offsets[i], offsets[i + 1]):
            for other in range(offsets[i], one):
                if _are_equal(data, places[one], places[one + 1], places[other], places[other + 1]):
                    return False
    return True


@inlined_kernel
def _are_equal(data, at, end, other_at, other_end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if end - at != other_end - other_at:
        return False
    for k in range(end - at):  # noqa: SIM110  (numba compiles loops)
        if data[at + k] != data[other_at + k]:
            return False
    return True


@kernel
def _mark_earlier(numbers, offsets, seen, last):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Clear ``last`` for each number that comes again in its list."""
    for i in range(offsets.size - 1):
        for k in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            number = numbers[k]
            if seen[number] == i + 1:
                last[k] = False
            seen[number] = i + 1

"""Enums as text: numbers of any size to their names."""

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Int64, Mask


def enum_names(
    words: Int64, numbers: tuple[int, ...], names: tuple[str, ...], valid: Mask | None, *, is_closed: bool
) -> pa.Array:
    """Return the names of numbers, which ``numbers`` has in ascending order.

    Other numbers are null where the enum ``is_closed``, their digits else.
    """
    known = np.array(numbers or (0,), np.int64)
    if known[-1] - known[0] == known.size - 1:
        at = np.where((words >= known[0]) & (words <= known[-1]), words - known[0], 0)
    else:
        at = np.minimum(np.searchsorted(known, words), known.size - 1)
    is_known = known[at] == words if numbers else np.zeros(words.size, np.bool_)
    texts = list(names)
    if not is_known.all():
        if is_closed:
            valid = is_known if valid is None else valid & is_known
        else:
            is_other = ~is_known if valid is None else valid & ~is_known
            others, places = np.unique(words[is_other], return_inverse=True)
            at[is_other] = len(texts) + places
            texts += map(str, others.tolist())
    return pa.array(texts, pa.string()).take(pa.array(at, mask=None if valid is None else ~valid))

"""Which versions of its topic's schema the messages in a buffer name, at the cost of a walk over their metadata alone."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int64
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.kernels.wire import field_map, uint32_be, walk_fields

MOST_NAMED = 1024
"""Of different versions that one call returns, so that garbage takes no time; topics have a few."""
_SCHEMA_FIELD = field_map(places={16: 0})


def named_versions(batch: EntryBatch) -> set[int]:
    """Return the numbers; entries that are no messages name none."""
    found = np.empty(MOST_NAMED, np.int64)
    data = np.frombuffer(batch.buffer, np.uint8)
    count = _find(data, batch.offsets, batch.lengths, np.zeros((2, 1), np.int64), _SCHEMA_FIELD, found)
    return set(found[:count].tolist())


@inlined_kernel
def _metadata_of(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where an entry's metadata begins, and its size; -1 for none."""
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02:
        size = uint32_be(data, at + 2)
        if size > end - at - 6:
            return at, np.int64(-1)
        at += 6 + size
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x01:
        at += 6
    if at + 4 > end:
        return at, np.int64(-1)
    size = uint32_be(data, at)
    return at + 4, size if size <= end - at - 4 else np.int64(-1)


@kernel
def _find(data, offsets, lengths, table, fields, found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill ``found`` with the different numbers, and return how many there are."""
    data, table, fields = borrowed(data), borrowed(table), borrowed(fields)  # type: ignore[call-arg]
    count, last = 0, np.int64(-1)
    for i in range(offsets.size):
        at, size = _metadata_of(data, offsets[i], offsets[i] + lengths[i])
        table[1, 0] = 0
        if size < 0 or not walk_fields(data, at, at + size, table, 0, fields) or table[1, 0] != 8:
            continue
        version = load_int64(data, table[0, 0])
        if version == last:
            continue
        last = version
        is_new = version >= 0 and count < found.size
        for k in range(count):
            is_new &= found[k] != version
        if is_new:
            found[count] = version
            count += 1
    return count

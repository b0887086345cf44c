"""Schema versions that the messages in a buffer name, and the number of Kafka's entries, by a walk over metadata only."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int64, load_uint32
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.metadata_walk import Meta, Status, walk_metadata
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.kernels.wire import ABSENT, field_map, walk_fields

MOST_NAMED = 1024
"""Most different versions that one call returns, so that garbage takes no time; topics have a few."""
_FIELDS = field_map(numbers={11: 2}, places={16: 0}, counts={4: 3})


def named_versions(batch: EntryBatch) -> set[int]:
    """Return the numbers; entries that are not messages name none."""
    return versions_and_kafka(batch)[0]


def versions_and_kafka(batch: EntryBatch) -> tuple[set[int], int]:
    """Return the numbers, and how many entries are in Kafka's format."""
    found = np.empty(MOST_NAMED, np.int64)
    data = np.frombuffer(batch.buffer, np.uint8)
    count, may_be_kafka = _find(data, batch.offsets, batch.lengths, np.zeros((4, 1), np.int64), _FIELDS, found)
    kafka = int((walk_metadata(batch)[Meta.STATUS] == Status.KAFKA_ENTRY).sum()) if may_be_kafka else 0
    return set(found[:count].tolist()), kafka


@inlined_kernel
def _metadata_of(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position of an entry's metadata, and its size; -1 without one."""
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02:
        size = load_uint32(data, at + 2)  # type: ignore[call-arg, var-annotated]
        if size > end - at - 6:
            return at, np.int64(-1)
        at += 6 + size
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x01:
        at += 6
    if at + 4 > end:
        return at, np.int64(-1)
    size = load_uint32(data, at)  # type: ignore[call-arg]
    return at + 4, size if size <= end - at - 4 else np.int64(-1)


@kernel
def _find(data, offsets, lengths, table, fields, found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill ``found`` with the different numbers; return how many there are, and whether a batch has properties, as Kafka's have."""
    data, table, fields = borrowed(data), borrowed(table), borrowed(fields)  # type: ignore[call-arg]
    count, last = 0, np.int64(-1)
    may_be_kafka = False
    for i in range(offsets.size):
        at, size = _metadata_of(data, offsets[i], offsets[i] + lengths[i])
        table[1, 0] = table[3, 0] = 0
        table[2, 0] = ABSENT
        if size < 0 or not walk_fields(data, at, at + size, table, np.int64(0), fields, np.int64(0)):
            continue
        may_be_kafka |= table[3, 0] > 0 and table[2, 0] != ABSENT
        if table[1, 0] != 8:
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
    return count, may_be_kafka

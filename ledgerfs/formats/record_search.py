"""Where records begin in bytes from the middle of a block, of which nothing else is known.

Record headers carry no mark, but they chain: behind each record stands one whose id is greater by one. Bytes of a payload may look like a
header; to look like a chain that reaches the end of all the bytes at hand, a payload would have to hold ledger records itself and to be
larger than these. So a chain is believed if it has many links, reaches the end, and is the only one.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.block import RECORD_HEADER_BYTES
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64

FEWEST_RECORDS = 8
"""Links of a chain that is believed."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records that chain.

    Attributes
    ----------
    first_entry
        Id of the first one; the others follow by one.
    starts
        Index in the bytes where each record begins; the last record may end behind the bytes.

    """

    first_entry: int
    starts: npt.NDArray[np.int64]


def find_records(buffer: bytes, first_entry: int, last_entry: int, room: int) -> FoundRecords | None:
    """Find the records of entries within ``first_entry`` to ``last_entry`` in bytes of a block that has ``room`` bytes from their start on.

    Returns None where there is no chain to believe, or more than one. Looks at each byte a few times at most, whatever the bytes are.
    """
    data = np.frombuffer(buffer, np.uint8)
    starts = np.empty(data.size // RECORD_HEADER_BYTES + 1, np.int64)
    count, first = _search(data, first_entry, last_entry, room, starts)
    return FoundRecords(int(first), starts[:count].copy()) if count >= FEWEST_RECORDS else None


@kernel
def _search(data, first_entry, last_entry, room, starts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many records the only chain has, whose starts it leaves in ``starts``, and the first one's id; 0 for none."""
    count = known = 0
    first = np.int64(0)
    steps = 0
    for at in range(data.size - 11):
        if known < count and starts[known] == at:
            known += 1
            continue
        entry = load_int64(data, at + 4)  # type: ignore[call-arg,var-annotated]
        if entry < first_entry or entry > last_entry:
            continue
        links, place, following = 0, np.int64(at), entry
        while place + 12 <= data.size and following <= last_entry:
            length = np.int64(load_int32(data, place))
            if length < 0 or length > room - place - 12 or load_int64(data, place + 4) != following:
                links = 0
                break
            place += 12 + length
            following += 1
            links += 1
        steps += 1 + following - entry
        if steps > data.size:
            return 0, first
        if links < 8:
            continue
        if count:
            return 0, first
        count, first, place = links, entry, np.int64(at)
        for i in range(links):
            starts[i] = place
            place += 12 + load_int32(data, place)
        known = 1
    return count, first

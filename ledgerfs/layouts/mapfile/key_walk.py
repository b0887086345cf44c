"""Walk the records of a ledger's data, and resume at the next marker after damage.

Only this module decides whether bytes are the expected entries. Markers are a block or some 100 KB apart; a marker counts only if keys
confirm it: the one after it has to be greater than those that were read before the damage.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.mapfile.blocks import SYNC_ESCAPE, find_sync
from ledgerfs.formats.mapfile.first_record import METADATA_KEY
from ledgerfs.formats.mapfile.header import SYNC_BYTES, SequenceHeader
from ledgerfs.formats.mapfile.walk import Records, read_records
from ledgerfs.formats.mapfile.window import Window
from ledgerfs.formats.records import EntryBatch
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

STRETCH = 8 << 20
"""Bytes of a window; more only for a larger record or block."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a walk begins, or has arrived.

    Attributes
    ----------
    position
        Offset in the data; 0 for the first record, after the header.
    key
        Of the record there; if that is not proved, one that the walk has to reach.
    least
        If the key is not proved: no smaller key can be there.

    """

    position: int
    key: int
    is_proved: bool
    least: int = METADATA_KEY


START = KeyPlace(0, METADATA_KEY, is_proved=True)


@dataclass(frozen=True, slots=True)
class KeyStretch:
    """Consecutive entries of a ledger's data; none if the metadata stands alone.

    Attributes
    ----------
    metadata
        The value of key -1, if it was among them.
    places
        Offset in the data of each record (with the marker before it, optional for the first one), or of the block that contains it; shape
        (keys,): those of the metadata, if it is there, then those of the entries.
    behind
        Position of the next record.

    """

    batch: EntryBatch
    metadata: bytes | None
    places: npt.NDArray[np.int64]
    behind: KeyPlace


def walk_keys(
    window: ObjectWindow, place: KeyPlace, header: SequenceHeader, last: int, data: ObjectStat
) -> Iterator[KeyStretch]:
    """Yield the entries from a place up to ``last``, and those after it in the same block; consume the window up to there.

    Parameters
    ----------
    window
        Window on the data that begins at ``place`` or before it.
    place
        Where to begin.
    header
        Of the data.
    last
        The last requested entry.
    data
        The object.

    Raises
    ------
    CorruptLedgerError
        After all entries before it were yielded: a record is damaged or truncated, keys are not consecutive, or the window or file ends
        before the entry ``last``; if the place is not proved, also a walk that does not reach its key.
    UnsupportedFormatError
        A block or value that is too large.

    """
    key, size = data.key, data.size
    window.skip_to(place.position or header.size)
    expected = place.key if place.is_proved else None
    needed = 1
    while expected is None or expected <= last:
        if not window.fill(needed):
            reason = f"the data ends before entry {place.key if expected is None else expected}; the last one is {last}"
            raise CorruptLedgerError(reason, key=key, offset=window.position + len(window.buffer))
        at = window.position
        view = Window(window.buffer[: max(needed, STRETCH)], at, size, key=key)
        step = read_records(view, 0, header)
        window.consume(step.position)
        needed = max(1, step.needed)
        if step.records is None:
            continue
        found = int(step.records.keys[0])
        if expected is None:
            if not place.least <= found <= place.key:
                reason = f"found key {found}, expected {place.least} to {place.key}"
                raise CorruptLedgerError(reason, key=key, offset=at)
            expected = found
        good = _following(step.records, expected)
        places = step.records.places + at
        is_all = good == len(step.records)
        if good:
            position = window.position if is_all else int(places[good])
            yield _stretch(step.records, good, places, KeyPlace(position, expected + good, is_proved=True))
            expected += good
        if not is_all:
            wrong = int(step.records.keys[good])
            raise CorruptLedgerError(f"found key {wrong}, expected {expected}", key=key, offset=int(places[good]))


def _following(records: Records, expected: int) -> int:
    """Return how many keys, from the first on, are consecutive."""
    is_right = records.keys == np.arange(expected, expected + len(records))
    return len(records) if is_right.all() else int(np.argmin(is_right))


def _stretch(records: Records, count: int, places: npt.NDArray[np.int64], behind: KeyPlace) -> KeyStretch:
    first, skipped, metadata = int(records.keys[0]), 0, None
    if first == METADATA_KEY:
        start, size = int(records.starts[0]), int(records.sizes[0])
        first, skipped, metadata = 0, 1, bytes(records.buffer[start : start + size])
    part = slice(skipped, count)
    batch = EntryBatch(first, records.buffer, records.starts[part], records.sizes[part])
    return KeyStretch(batch, metadata, places[:count], behind)


_LOOKED_AT = 1 << 20
"""Bytes that are searched together, at least."""

_MARKER = len(SYNC_ESCAPE) + SYNC_BYTES

_MOST_MARKERS = 1000
"""Wrong markers in a row after which the rest of the file is given up: values may contain many bytes that resemble markers."""


@dataclass(slots=True)
class Resync:
    """The search for the next readable record after damage.

    Attributes
    ----------
    next_marker
        Returns the offset in the data of the first marker from an offset on, or None.
    error
        The damage.
    position
        Offset at which the search for a marker goes on.
    least, last
        The first key that was not read, and the last one of the data.

    """

    next_marker: Callable[[int], int | None]
    error: CorruptLedgerError
    position: int
    least: int
    last: int
    _tried: int = 0

    def next_place(self) -> KeyPlace | None:
        """Return where to try next; None if the rest is lost."""
        at = self.next_marker(self.position) if self._tried < _MOST_MARKERS else None
        if at is None:
            return None
        self._tried += 1
        self.position = at + 1
        return KeyPlace(at, self.last, is_proved=False, least=self.least)


def find_marker(store: ObjectStore, data: ObjectStat, sync: bytes, start: int) -> int | None:
    """Return the offset of the first marker in the data from an offset on."""
    plan = (ReadRequest(data.key, *part, data.version, False) for part in cut_parts(start, data.size))
    with open_parts(store, plan) as parts:
        window = ObjectWindow(parts, data.key, start)
        while True:
            is_filled = window.fill(_LOOKED_AT)
            found = find_sync(window.buffer, sync, 0)
            if found is not None:
                return window.position + found
            if not is_filled:
                return None
            window.consume(len(window.buffer) - _MARKER + 1)

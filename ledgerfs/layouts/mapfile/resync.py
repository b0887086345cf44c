"""What to do after damage: go on at the next of the markers that a file has for that, a block or some 100 KB apart, and tell what is lost.

A marker is believed only as far as keys bear it out: the one after it has to be behind those that were read before the damage.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.mapfile.blocks import SYNC_ESCAPE, find_sync
from ledgerfs.formats.mapfile.header import SYNC_BYTES
from ledgerfs.layouts.mapfile.key_walk import KeyPlace
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_LOOKED_AT = 1 << 20
"""Bytes that are looked at together, at least."""

_MARKER = len(SYNC_ESCAPE) + SYNC_BYTES

_MOST_MARKERS = 1000
"""So many in a row that lead nowhere, and the rest of the file is given up: values may be full of what looks like markers."""


@dataclass(slots=True)
class Resync:
    """The way out of one damage.

    Attributes
    ----------
    next_marker
        Returns the offset in the data of the first marker from an offset on, or None.
    error
        What was wrong.
    position
        From where a marker is looked for next.
    least, last
        The first key that was not read, and the last one that there is.

    """

    next_marker: Callable[[int], int | None]
    error: CorruptLedgerError
    position: int
    least: int
    last: int
    _tried: int = 0

    def next_place(self) -> KeyPlace | None:
        """Return where to try next; None where the rest is lost."""
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

"""Find the end of a ledger that is not closed, from its entries on disks (``docs/formats/bookkeeper.md``).

Every entry carries the last add confirmed (LAC): the id of the last entry that its writer knew to be on enough bookies. Entries after the
newest LAC may have been acknowledged, or not: a recovery by BookKeeper keeps all that exist without a gap.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.disks.entries import EntryReading
from ledgerfs_cluster.disks.index import DiskIndex
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode

_LOOKED_AT = 64
"""Newest entries of each bookie that are read at once to find a sound one."""


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """The end of a ledger.

    Attributes
    ----------
    last_entry
        Id of the last valid entry; -1 for none.
    newest
        The greatest id of a sound entry on any disk; those after ``last_entry`` exist, but are not valid.
    is_certain
        False if disks are away or may have more entries than were found (`DiskIndex.doubtful`), maybe valid ones after ``last_entry``; also
        if all copies of the next entry, or with ``confirmed`` of the newest one, are damaged, and if ids have holes while no digest
        protects the ids.

    """

    last_entry: int
    newest: int
    is_certain: bool


def end_of_open(index: DiskIndex, node: LedgerNode, open_end: str) -> LedgerEnd:
    """Return the end of a ledger that is not closed; ``open_end`` is `BookieDisks.open_end`; raises as `EntryReading`."""
    reading = EntryReading(index, node.ledger_id, node.digest)
    confirmed, newest = _newest(reading)
    # A new ensemble begins after the entries that were confirmed when it was created.
    confirmed = max(confirmed, node.ensembles[-1].first_entry - 1)
    newest = max(newest, confirmed)
    if node.digest.kind is DigestType.DUMMY and index.missing(node.ledger_id, newest):
        # Without a digest an entry's id may be wrong, and a wrong one may seem to be the newest.
        return LedgerEnd(confirmed, newest, is_certain=False)
    if open_end == "confirmed":
        # The LAC only grows: an entry after the newest sound one may carry a greater one.
        greatest = max(index.newest_of_bookies(node.ledger_id).values(), default=-1)
        bookies = node.ensembles[-1].bookies
        rows = zip(bookies, index.rows_of(bookies), strict=True)
        is_covered = node.is_covered_without([name for name, row in rows if row is None or row in index.doubtful])
        return LedgerEnd(confirmed, newest, is_covered and greatest <= newest)
    last, is_certain = _recovered(reading, node, confirmed, newest)
    return LedgerEnd(last, newest, is_certain)


def newest_sound(reading: EntryReading) -> int:
    """Return the greatest id of a sound entry; -1 without one; raises as `EntryReading`."""
    return _newest(reading)[1]


def length_up_to(reading: EntryReading, entry: int) -> int | None:
    """Return the bytes of all payloads up to an entry, from a sound copy of it; None without one; raises as `EntryReading`."""
    found = reading.read(reading.index.copies(reading.ledger_id, entry, entry))
    rows = np.flatnonzero(found.checked.wrong == 0)
    return int(found.checked.lengths_so_far[rows[0]]) if rows.size else None


def _newest(reading: EntryReading) -> tuple[int, int]:
    """Return the newest LAC in a sound entry, and the greatest id of a sound entry; each -1 without one."""
    index, ledger_id = reading.index, reading.ledger_id
    confirmed = newest = -1
    for bookie, greatest in index.newest_of_bookies(ledger_id).items():
        behind = greatest
        # Damaged entries at the end of a disk must not hide sound ones before them: go back until one is found.
        while behind >= 0:
            copies = index.copies(ledger_id, max(0, behind - _LOOKED_AT + 1), behind)
            own = np.flatnonzero(index.bookies[copies.files] == bookie)
            found = reading.read(copies.at(own))
            sound = np.flatnonzero(found.checked.wrong == 0)
            if sound.size:
                confirmed = max(confirmed, int(found.checked.last_confirmed[sound].max()))
                newest = max(newest, int(found.copies.entries[sound].max()))
                break
            behind = _before(index, ledger_id, behind - _LOOKED_AT)
    return confirmed, newest


def _before(index: DiskIndex, ledger_id: int, entry: int) -> int:
    """Return the greatest existing id of a ledger's entries up to ``entry``; -1 without one. Wrong ids may be far apart."""
    copies = index.copies(ledger_id, 0, entry) if entry >= 0 else None
    return int(copies.entries[-1]) if copies is not None and len(copies) else -1


def _recovered(reading: EntryReading, node: LedgerNode, last: int, newest: int) -> tuple[int, bool]:
    """Return the last entry after the LAC that exists without a gap, and whether that is certain.

    BookKeeper's recovery continues with an entry that any bookie has.
    """
    for read in reading.all_copies(last + 1, newest):
        sound = set(read.copies.entries[read.checked.wrong == 0].tolist())
        for entry in range(last + 1, int(read.copies.entries[-1]) + 1):
            if entry not in sound:
                return last, _is_end(reading.index, node, entry)
            last = entry
    return last, _is_end(reading.index, node, last + 1)


def _is_end(index: DiskIndex, node: LedgerNode, entry: int) -> bool:
    """Return whether a ledger certainly ends before an entry without a sound copy here.

    It does if so many bookies lack the entry that it was not acknowledged.
    """
    if index.next_entry(node.ledger_id, entry) == entry:
        # BookKeeper's recovery fails at a damaged entry: it may have been acknowledged.
        return False
    rows = index.rows_of(node.bookies_of(entry))
    lacking = sum(row is not None and row not in index.doubtful for row in rows)
    return lacking > node.write_quorum - node.ack_quorum

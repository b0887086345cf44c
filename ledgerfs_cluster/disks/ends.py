"""Where a ledger ends that no metadata calls closed, as its entries on disks tell (``docs/formats/bookkeeper.md``).

Every entry carries the id of the last one that its writer knew to be on enough bookies (last add confirmed). What lies behind the newest
such id may have been acknowledged, or not: a recovery by BookKeeper keeps whatever is there without a gap.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.disks.entries import EntryReading
from ledgerfs_cluster.disks.index import DiskIndex
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode

_LOOKED_AT = 64
"""Newest entries of each bookie of which one at least is sound, or nothing of its end is known."""


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """Where a ledger ends.

    Attributes
    ----------
    last_entry
        Id of the last entry that counts; -1 for none.
    newest
        The greatest id of a sound entry on any disk: those behind ``last_entry`` are there, and do not count.
    is_certain
        False if disks are away, or may have more entries than are found (`DiskIndex.doubtful`), of which it cannot be told whether they
        are behind ``last_entry``, and count; also if the next entry, or with ``confirmed`` the newest one, is there, and all copies of it
        are damaged, and if ids have holes where no digest tells whose an entry is.

    """

    last_entry: int
    newest: int
    is_certain: bool


def end_of_open(index: DiskIndex, node: LedgerNode, open_end: str) -> LedgerEnd:
    """Return where a ledger that is not closed ends; ``open_end`` is `BookieDisks.open_end`; raises as `EntryReading`."""
    reading = EntryReading(index, node.ledger_id, node.digest)
    confirmed, newest = _newest(reading)
    # An ensemble begins behind what was confirmed when it was made.
    confirmed = max(confirmed, node.ensembles[-1].first_entry - 1)
    newest = max(newest, confirmed)
    if node.digest.kind is DigestType.DUMMY and index.missing(node.ledger_id, newest):
        # Nothing tells whether the id of an entry is its own, and one that is not may seem to be the newest.
        return LedgerEnd(confirmed, newest, is_certain=False)
    if open_end == "confirmed":
        # What is confirmed only grows: an entry behind the newest sound one would tell of more.
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
    """Return the bytes of all payloads up to an entry, as a sound copy of it says; None without one; raises as `EntryReading`."""
    found = reading.read(reading.index.copies(reading.ledger_id, entry, entry))
    rows = np.flatnonzero(found.checked.wrong == 0)
    return int(found.checked.lengths_so_far[rows[0]]) if rows.size else None


def _newest(reading: EntryReading) -> tuple[int, int]:
    """Return the newest confirmed id that a sound entry carries, and the greatest id of a sound entry; each -1 without one."""
    index, ledger_id = reading.index, reading.ledger_id
    confirmed = newest = -1
    for bookie, greatest in index.newest_of_bookies(ledger_id).items():
        behind = greatest
        # What is damaged at the end of a disk hides what is before it only as long as nothing sound is found.
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
    """Return the greatest id of a ledger's entries up to one that is in any file; -1 without one. Ids may be far apart if they lie."""
    copies = index.copies(ledger_id, 0, entry) if entry >= 0 else None
    return int(copies.entries[-1]) if copies is not None and len(copies) else -1


def _recovered(reading: EntryReading, node: LedgerNode, last: int, newest: int) -> tuple[int, bool]:
    """Return the last of the entries behind the confirmed ones that are there without a gap, and whether that is certain.

    BookKeeper's recovery goes on with an entry that any bookie has.
    """
    for read in reading.all_copies(last + 1, newest):
        sound = set(read.copies.entries[read.checked.wrong == 0].tolist())
        for entry in range(last + 1, int(read.copies.entries[-1]) + 1):
            if entry not in sound:
                return last, _is_end(reading.index, node, entry)
            last = entry
    return last, _is_end(reading.index, node, last + 1)


def _is_end(index: DiskIndex, node: LedgerNode, entry: int) -> bool:
    """Whether a ledger is certain to end before an entry of which no sound copy is here.

    Then so many bookies lack it that it was not acknowledged.
    """
    if index.next_entry(node.ledger_id, entry) == entry:
        # BookKeeper's recovery fails at an entry that is there and damaged: it may have been acknowledged.
        return False
    rows = index.rows_of(node.bookies_of(entry))
    lacking = sum(row is not None and row not in index.doubtful for row in rows)
    return lacking > node.write_quorum - node.ack_quorum

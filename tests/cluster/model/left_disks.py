"""Disks of bookies as a lost cluster leaves them: one may be gone, others may have holes; and what is to be found on them."""

import random
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.model.losing_cluster import LosingCluster
from tests.cluster.support.bookie_disks import make_disk, write_log


@dataclass(frozen=True, slots=True)
class LeftDisks:
    """What is left.

    Attributes
    ----------
    folders
        Those of the disks.
    entries
        {ledger: ids of its entries that are on one of them at least}.
    is_whole
        Whether no disk, and nothing of them, is gone.

    """

    folders: tuple[Path, ...]
    entries: dict[int, frozenset[int]]
    is_whole: bool

    @property
    def url(self) -> str:
        """``bookies://…``."""
        return f"bookies://{','.join(map(str, self.folders))}"

    def has(self, ledger_id: int, count: int) -> bool:
        """Whether all of the first entries of a ledger are there."""
        return self.entries.get(ledger_id, frozenset()) >= set(range(count))

    def prefix(self, ledger_id: int) -> int:
        """Return how many of the first entries of a ledger are there without a gap."""
        there, count = self.entries.get(ledger_id, frozenset()), 0
        while count in there:
            count += 1
        return count


def leave_disks(losing: LosingCluster, chance: random.Random, folder: Path) -> LeftDisks:
    """Write what bookies have to disks, each bookie's in two logs, whose entries of one ledger need not be in their order."""
    kept = list(losing.cluster.bookies)
    holes = chance.choice([0, 0, 0.02, 0.1])
    if chance.random() < 0.3:
        kept.remove(chance.choice(kept))
    found: dict[int, set[int]] = {}
    gone = False
    for number, bookie in enumerate(kept):
        logs: tuple[list[bytes], list[bytes]] = ([], [])
        for ledger_id in bookie.ledgers:
            for entry_id, stored in bookie.entries(ledger_id).items():
                if holes and chance.random() < holes:
                    gone = True
                    continue
                chance.choice(logs).append(stored)
                found.setdefault(ledger_id, set()).add(entry_id)
        current = make_disk(folder / f"disk-{number}", bookie.address)
        for row, entries in enumerate(logs):
            write_log(current, row, entries)
    is_whole = not gone and len(kept) == len(losing.cluster.bookies)
    folders = tuple(folder / f"disk-{number}" for number in range(len(kept)))
    return LeftDisks(folders, {one: frozenset(some) for one, some in found.items()}, is_whole)

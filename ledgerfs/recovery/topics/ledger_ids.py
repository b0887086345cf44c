"""Ids of BookKeeper's ledgers: the next one beyond everything that is restored, by one node, however far that is.

BookKeeper counts sequential nodes below ``/ledgers/idgen`` for ids of 31 bits. Once there is a folder ``HOB-n`` below
``/ledgers/idgen-long``, it counts in the greatest of these instead, and ids are ``n · 2³² + count``. Both generators, BookKeeper's own
(``LongZkLedgerIdGenerator``) and Pulsar's (``PulsarLedgerIdGenerator``), look whenever they make an id. So one folder advances the ids of a
cluster that works by any number.
"""

import time
from dataclasses import dataclass

from ledgerfs.clusters.next_ids import newest_block
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs.ledgers.read_order import END_OF_OWN_IDS, FIRST_OWN_ID
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode

_BLOCK = 1 << BLOCK_BITS
_LAST_BLOCK = (1 << 31) - 1
_EPOCH_MS = 1_735_689_600_000
"""1 January 2025 UTC; 29 years from there two blocks every half an hour reach the ids that ledgerfs gives."""


@dataclass(frozen=True, slots=True)
class FreeIds:
    """Ids that no generator gives to anybody any more, and that no ledger had: from ``start`` on, 2³² of them."""

    start: int

    def id_at(self, number: int) -> int:
        """Return one of them; raises `UnsupportedWriteError` beyond the last."""
        if not 0 <= number < _BLOCK:
            raise UnsupportedWriteError("more ledgers than there are ids for", key=f"id {number}")
        return self.start + number


def advance_ids(lock: ClusterLock, greatest: int, ledgers_path: str = "/ledgers") -> FreeIds:
    """Have BookKeeper make ids beyond ``greatest``, and beyond the ids that are returned, which lie between.

    Raises `UnsupportedWriteError` where there are no such ids, and the errors of `ClusterLock.commit`.
    """
    known = max(newest_block(lock.newest(), ledgers_path), greatest >> BLOCK_BITS, _block_by_time())
    if known + 3 >= FIRST_OWN_ID >> BLOCK_BITS and known < END_OF_OWN_IDS >> BLOCK_BITS:
        # Imported rows are restored, too, and a list's next ledger is behind all of it: beyond what ledgerfs gives, which is no cluster's.
        known = END_OF_OWN_IDS >> BLOCK_BITS
    # Clusters have even blocks, and what recoveries make odd ones: neither gets an id of the other, whoever knows of whom.
    block = (known + 3) & ~1
    if block > _LAST_BLOCK:
        raise UnsupportedWriteError("BookKeeper has no ids beyond this one", key=f"ledger {greatest}")
    lock.commit([MakeNode(f"{ledgers_path}/idgen-long/HOB-{block:010d}", b"")])
    return FreeIds((block - 1) << BLOCK_BITS)


def _block_by_time() -> int:
    """Return a block behind those that were given earlier: a lost cluster may have one that nobody knows of, and late ledgers in it."""
    half_hours = (time.time_ns() // 1_000_000 - _EPOCH_MS) // (30 * 60_000)
    return max(0, min(2 * half_hours, (FIRST_OWN_ID >> BLOCK_BITS) - 8))

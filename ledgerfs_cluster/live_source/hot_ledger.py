"""One ledger in BookKeeper: read its entries from any replica, also while bookies fail or are replaced."""

import time
from typing import TYPE_CHECKING

from ledgerfs.catalog.reader import OnDamage
from ledgerfs.errors import CorruptLedgerError
from ledgerfs_cluster.bookies.pool import Leases
from ledgerfs_cluster.bookies.reading import Lack, LedgerReading
from ledgerfs_cluster.bookies.refusals import Refusal, is_passing, refusal_error
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.live_source.access import ClusterAccess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.formats.records import EntryBatch

_ROUNDS = 3
"""Attempts to read an entry from all replicas, each with metadata that is read again."""

_PAUSE_S = 0.5


class HotLedger:
    """Reads a ledger from bookies.

    Parameters
    ----------
    entry_bytes
        Average size of an entry, bytes.

    """

    __slots__ = ("_access", "_entry_bytes", "_node", "ledger_id")

    def __init__(self, access: ClusterAccess, ledger_id: int, entry_bytes: int) -> None:
        self._access = access
        self._entry_bytes = entry_bytes
        self._node: LedgerNode | None = None
        self.ledger_id = ledger_id

    def node(self) -> LedgerNode:
        """Return the ledger's metadata, read once; raises as `ClusterAccess.stored`."""
        if self._node is None:
            self._node = self._access.stored(self.ledger_id).node
        return self._node

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield entries in whole buffers.

        Raises `ObjectNotFoundError` when the ledger was deleted, `CorruptLedgerError` for entries without a sound copy (or calls
        ``on_damage``), `StoreUnreachableError`, `AccessDeniedError`, `StoppedError`.
        """
        rounds = 0
        while first <= last:
            lack: Lack | None = None
            for found in self._windows(first, last):
                if isinstance(found, Lack):
                    lack = found
                else:
                    yield found
                    first, rounds = found.last_entry + 1, 0
            if lack is None:
                return
            lost, refusals = lack.entries[0]
            rounds += 1
            # The metadata shows whether the ledger is deleted, or its entries were moved to other bookies.
            self._node = self._access.stored(self.ledger_id).node
            if rounds < _ROUNDS:
                time.sleep(_PAUSE_S * rounds if is_passing(refusals) else 0)
                continue
            error = refusal_error(self.ledger_id, f"entry {lost}", refusals)
            if on_damage is None or not isinstance(error, CorruptLedgerError):
                raise error
            first, rounds = _behind(lack.entries), 0
            on_damage(lost, first - 1, error)

    def _windows(self, first: int, last: int) -> "Iterator[EntryBatch | Lack]":
        node = self.node()
        with Leases(self._access.pool) as leases:
            access = self._access
            reading = LedgerReading(leases, node, self._entry_bytes, access.traffic, access.is_stopping)
            yield from reading.windows(first, last)


def _behind(lost: list[tuple[int, list[Refusal]]]) -> int:
    """Return the id after the first run of lost entries."""
    behind = lost[0][0]
    for entry, _ in lost:
        if entry != behind:
            break
        behind += 1
    return behind

"""A ledger of a cluster of ours: entries on the bookies that they belong to, and what its writer would have written into ZooKeeper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState
from ledgerfs_cluster.formats.bookkeeper.stored_entries import build_stored_entry
from tests.cluster.support.bookies import BookieServer

Bookies = Mapping[str, BookieServer]


@dataclass(slots=True)
class WrittenLedger:
    """What the writer of a ledger knows.

    Attributes
    ----------
    node
        What ZooKeeper is to have.
    payloads
        Of all entries, acknowledged or not.
    lengths
        Bytes of all payloads up to each entry.
    copies
        On how many bookies each entry was put.
    acknowledged
        The last entry that the writer was told is safe, and all before it.

    """

    node: LedgerNode
    payloads: list[bytes] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    acknowledged: int = -1

    @property
    def last_entry(self) -> int:
        return len(self.payloads) - 1

    def append(
        self, bookies: Bookies, payloads: Sequence[bytes], confirmed: int | None, only_on: int | None
    ) -> list[int]:
        """Write entries; as BookKeeper's writer does, take another bookie for one that is dead, where there is one."""
        ids = []
        for payload in payloads:
            entry_id = len(self.payloads)
            self._leave_dead_bookies(bookies)
            # Nobody confirms what he has not written, nor more than is acknowledged.
            carried = min(entry_id - 1, self.acknowledged if confirmed is None else confirmed)
            self.payloads.append(payload)
            self.lengths.append((self.lengths[-1] if self.lengths else 0) + len(payload))
            stored = self._stored(entry_id, carried)
            written = [name for name in self.node.bookies_of(entry_id) if bookies[name].is_running][:only_on]
            for name in written:
                bookies[name].add(self.node.ledger_id, entry_id, stored)
            self.copies.append(len(written))
            while self.acknowledged < entry_id and self.copies[self.acknowledged + 1] >= self.node.ack_quorum:
                self.acknowledged += 1
            ids.append(entry_id)
        return ids

    def change_ensemble(self, bookies: Bookies, from_entry: int, members: Sequence[str]) -> None:
        """Have other bookies from an entry on; what was written from there on is copied to them, and stays where it was, too."""
        kept = tuple(one for one in self.node.ensembles if one.first_entry < from_entry)
        before = {entry_id: self.node.bookies_of(entry_id) for entry_id in range(from_entry, len(self.payloads))}
        self.node = replace(self.node, ensembles=(*kept, Ensemble(from_entry, tuple(members))))
        for entry_id, old in before.items():
            stored = next(
                (
                    bookies[name].entries(self.node.ledger_id)[entry_id]
                    for name in old
                    if entry_id in bookies[name].entries(self.node.ledger_id)
                ),
                None,
            )
            assert stored is not None, f"no bookie has entry {entry_id} any more"
            for name in self.node.bookies_of(entry_id)[: self.copies[entry_id]]:
                bookies[name].add(self.node.ledger_id, entry_id, stored)

    def close(self, last_entry: int | None = None) -> None:
        """End with an entry; else with the last one that was acknowledged, whatever bookies have after it."""
        last = self.acknowledged if last_entry is None else last_entry
        length = self.lengths[last] if last >= 0 else 0
        self.node = replace(self.node, state=LedgerState.CLOSED, last_entry=last, length=length)

    def _leave_dead_bookies(self, bookies: Bookies) -> None:
        members = self.node.ensembles[-1].bookies
        dead = [name for name in members if not bookies[name].is_running]
        spare = [name for name, bookie in bookies.items() if bookie.is_running and name not in members]
        if dead and len(spare) >= len(dead):
            instead = dict(zip(dead, spare, strict=False))
            self.change_ensemble(bookies, self.acknowledged + 1, [instead.get(name, name) for name in members])

    def _stored(self, entry_id: int, confirmed: int) -> bytes:
        node = self.node
        return build_stored_entry(
            node.ledger_id, entry_id, confirmed, self.lengths[entry_id], self.payloads[entry_id], node.digest
        )

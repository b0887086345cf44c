"""Facts that only bookies have about a live cluster: ends of open ledgers, the newest entry of each ledger, topics' policies."""

from collections.abc import Iterator, Sequence
from typing import Any

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.asking import ends_of
from ledgerfs_cluster.bookies.pool import BookiePool, Leases, shared_pool
from ledgerfs_cluster.bookies.reading import Lack, LedgerReading
from ledgerfs_cluster.bookies.refusals import refusal_error
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.stored_schema import parse_stored_schema
from ledgerfs_cluster.live_source.policy_events import LastEvents, without_ids
from ledgerfs_cluster.snapshot.answers import EventLedgers
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading

_AT_ONCE = 8
_ENTRY_BYTES = 1024


class NewestEntries:
    """Reads from the bookies of one cluster, without fencing or recovery (`ledgerfs_cluster.snapshot.answers.BookieReads`)."""

    __slots__ = ("_reading", "_traffic")

    def __init__(self, reading: LiveReading) -> None:
        self._reading = reading
        self._traffic = Traffic()

    @property
    def _pool(self) -> BookiePool:
        return shared_pool(self._reading.timeout_s, self._reading.bookie_rate)

    def ends(self, nodes: Sequence[LedgerNode]) -> list[tuple[int, int] | LedgerfsError]:
        """Return entries and bytes of each open ledger, with acknowledged entries that no other entry confirms yet."""
        ends = ends_of(self._pool, nodes, self._traffic, acknowledged=True)
        return [end if isinstance(end, LedgerfsError) else (end.last_entry + 1, end.length) for end in ends]

    def last_entries(self, nodes: Sequence[LedgerNode]) -> Iterator[bytes | LedgerfsError | None]:
        """Yield the newest entry of each ledger, open or closed; None for an empty one."""
        still_open = [node for node in nodes if not node.is_closed]
        ends = dict(zip([node.ledger_id for node in still_open], self.ends(still_open), strict=True))
        return ordered_map(
            lambda node: self._last_entry(node, ends.get(node.ledger_id)), nodes, _AT_ONCE, "ledgerfs-entries"
        )

    def entries(self, asked: Sequence[tuple[LedgerNode, int]]) -> Iterator[bytes | LedgerfsError]:
        """Yield each entry, or the error if no replica returns it; reads some at a time."""
        return ordered_map(lambda one: self._entry_or_reason(*one), asked, _AT_ONCE, "ledgerfs-entries")

    def last_events(self, events: EventLedgers) -> Sequence[tuple[str, Any]] | LedgerfsError:
        """Return keys and decoded events: for each key the last one of this cluster, and the last global one, without deleted ones."""
        try:
            schemas = {
                version: parse_stored_schema(
                    self._entry(node, entry), key=f"ledger {node.ledger_id}", version=version
                ).schema
                for version, node, entry in events.schemas
            }
            last = LastEvents(events.topic, schemas)
            for node in events.compacted:
                last.take(node.ledger_id, map(without_ids, self._entries(node, 0, self._end_of(node))))
            for node in events.ledgers:
                last.take(node.ledger_id, self._entries(node, 0, self._end_of(node)))
            return last.values()
        except LedgerfsError as error:
            return error

    def _end_of(self, node: LedgerNode) -> int:
        """Return the last acknowledged entry of a ledger; no other entry confirms the newest event."""
        if node.is_closed:
            return node.last_entry
        end = self.ends([node])[0]
        if isinstance(end, LedgerfsError):
            raise end
        return end[0] - 1

    def _entry(self, node: LedgerNode, entry_id: int) -> bytes:
        return next(bytes(entry) for batch in self._entries(node, entry_id, entry_id) for _, entry in batch)

    def _entries(self, node: LedgerNode, first: int, last: int) -> Iterator[EntryBatch]:
        """Yield entries of a ledger; raises the errors of reading it."""
        with Leases(self._pool) as leases:
            for found in LedgerReading(leases, node, _ENTRY_BYTES, self._traffic).windows(first, last):
                if isinstance(found, Lack):
                    entry_id, refusal = found.entries[0]
                    raise refusal_error(node.ledger_id, f"entry {entry_id}", refusal)
                yield found

    def _last_entry(
        self, node: LedgerNode, end: tuple[int, int] | LedgerfsError | None
    ) -> bytes | LedgerfsError | None:
        if isinstance(end, LedgerfsError):
            return end
        last = node.last_entry if end is None else end[0] - 1
        return None if last < 0 else self._entry_or_reason(node, last)

    def _entry_or_reason(self, node: LedgerNode, entry_id: int) -> bytes | LedgerfsError:
        try:
            return self._entry(node, entry_id)
        except LedgerfsError as error:
            return error

"""The subscriptions of a restored topic: those of the dump, at the same place, or at the end of what is there before it.

A subscription is its node alone, since the new cluster has neither the cursor's ledger nor all ledgers of the topic. What the newest entry
of the cursor's ledger told is put into the node, as a broker does when it unloads a topic. Left out is what names ledgers of the lost
cluster's own (delayed messages, compaction), and which parts of batches were acknowledged: brokers do not take that from a node.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import (
    IN_THE_NODE,
    CursorInfo,
    Hole,
    build_cursor_info,
    parse_cursor_info,
    parse_position_info,
)
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCursor

_MOST_HOLES = 10_000
"""Acknowledged ranges that are restored; brokers keep no more unless they are told otherwise
(``managedLedgerMaxUnackedRangesToPersist``). The messages of more are delivered again."""
_DELAYED, _COMPACTED = "#pulsar.internal.delayed.bucket", "CompactedTopicLedger"


@dataclass(slots=True)
class Positions:
    """Moves the positions of one topic.

    Attributes
    ----------
    ledgers
        Of each restored ledger, ascending by old id: the old id, the new one, and its entries.
    end
        The id of a ledger behind all of these.
    renumbered
        {old id: entries} of ledgers that had so many when the positions were noted, and have others now, as where batches were split since.
        Which of their messages a position within them means is not known any more.

    """

    ledgers: Sequence[tuple[int, int, int]]
    end: int
    renumbered: Mapping[int, int] = field(default_factory=dict)

    def moved(self, at: Position) -> Position:
        """Return the position behind which what is left of the messages behind ``at`` begins, and perhaps some before it."""
        return self._moved(at, is_up=False)

    def moved_up(self, at: Position) -> Position:
        """Return the same for where a range of acknowledged messages begins: perhaps behind some of these, and never before it."""
        return self._moved(at, is_up=True)

    def _moved(self, at: Position, *, is_up: bool) -> Position:
        row = bisect_left(self.ledgers, at.ledger_id, key=_old_id)
        if row < len(self.ledgers) and self.ledgers[row][0] == at.ledger_id:
            old, new, entries = self.ledgers[row]
            former = self.renumbered.get(old, entries)
            last = max(-1, min(at.entry_id, former - 1))
            if former != entries and last != -1:
                last = entries - 1 if is_up or last == former - 1 else -1
            return Position(new, last)
        if row:
            _, new, entries = self.ledgers[row - 1]
            return Position(new, entries - 1)
        return self.first

    @property
    def first(self) -> Position:
        """The position before everything."""
        return Position(self.ledgers[0][1] if self.ledgers else self.end, -1)


def _old_id(ledger: tuple[int, int, int]) -> int:
    return ledger[0]


def subscriptions_of(
    source: str, dumped: Mapping[str, DumpedCursor], positions: Positions
) -> tuple[dict[str, bytes], list[str]]:
    """Return the nodes of a topic's subscriptions, by name, and what is to be reported of them, a sentence each.

    One whose newest state is not known begins where its node had it: what was acknowledged since then is delivered again, and nothing is
    left out.
    """
    nodes: dict[str, bytes] = {}
    remarks: list[str] = []
    for name, cursor in dumped.items():
        nodes[name], said = _dumped(cursor_path(source, name), cursor, positions)
        remarks += [f"subscription {name}: {one}" for one in said]
    return nodes, remarks


def _dumped(path: str, cursor: DumpedCursor, positions: Positions) -> tuple[bytes, list[str]]:
    said: list[str] = []
    try:
        made = settled_cursor(cursor.node, cursor.newest, positions, key=path)
    except CorruptMetadataError as error:
        why = cursor.trouble or error.reason
        try:
            made = settled_cursor(_position_alone(path, cursor.node), None, positions, key=path)
        except CorruptMetadataError as unknown:
            said = [f"it begins at the earliest message: where it was is not known ({unknown.reason}; {why})"]
            return build_cursor_info(CursorInfo(IN_THE_NODE, positions.first)), said
        said.append(f"it begins where its node had it, which may be earlier than where it was ({why})")
    return made, said


def _position_alone(path: str, node: bytes) -> bytes:
    """Return the node of a subscription without what only its ledger has; raises `CorruptMetadataError`."""
    found = parse_cursor_info(node, key=path)
    if found.mark_delete is None:
        raise CorruptMetadataError("its node has no position", key=path)
    active_ms, properties = found.last_active_ms, found.cursor_properties
    return build_cursor_info(
        CursorInfo(IN_THE_NODE, found.mark_delete, last_active_ms=active_ms, cursor_properties=properties)
    )


def settled_cursor(node: bytes, newest: bytes | None, positions: Positions, *, key: str) -> bytes:
    """Return a subscription as its node alone, by its node in the lost cluster and the newest entry of its ledger, None without one.

    Raises `CorruptMetadataError`, naming ``key``, for bytes that are no cursor, and a state in a ledger whose entry is not known.
    """
    told = state = parse_cursor_info(node, key=key)
    if not told.is_in_the_node:
        if newest is None:
            raise CorruptMetadataError("its state is in a ledger of which no entry is known", key=key)
        state = parse_position_info(newest, key=key)
    if state.mark_delete is None:
        raise CorruptMetadataError("a cursor without a position", key=key)
    mark_delete = positions.moved(state.mark_delete)
    holes = _moved_holes(state.acknowledged_ranges(), positions, mark_delete)
    settled = CursorInfo(
        IN_THE_NODE,
        mark_delete,
        tuple(islice(holes, _MOST_HOLES)),
        told.last_active_ms,
        tuple(one for one in state.properties if one[0] != _COMPACTED),
        tuple(one for one in told.cursor_properties if not one[0].startswith(_DELAYED)),
    )
    return build_cursor_info(settled)


def _moved_holes(ranges: Iterator[Hole], positions: Positions, mark_delete: Position) -> Iterator[Hole]:
    for lower, upper in ranges:
        start, end = max(positions.moved_up(lower), mark_delete), positions.moved(upper)
        if start < end:
            yield start, end

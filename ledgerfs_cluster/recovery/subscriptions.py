"""The subscriptions of a restored topic, from the dump: at the same position, or at the end of the restored ledgers before it.

A restored subscription is only a node, since the new cluster has neither the cursor's ledger nor all ledgers of the topic. The node gets
the state from the newest entry of the cursor's ledger, as when a broker unloads a topic. Omitted are references to the lost cluster's own
ledgers (delayed messages, compaction), and acknowledged parts of batches: brokers do not read these from a node.
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
"""Maximum number of restored acknowledged ranges; the brokers' default (``managedLedgerMaxUnackedRangesToPersist``). Messages in further
ranges are delivered again."""
_DELAYED, _COMPACTED = "#pulsar.internal.delayed.bucket", "CompactedTopicLedger"


@dataclass(slots=True)
class Positions:
    """Translates positions of one topic from the lost to the new cluster.

    Attributes
    ----------
    ledgers
        (old id, new id, entries) of each restored ledger, ascending by old id.
    end
        Id of a ledger after all of these.
    renumbered
        {old id: entries} of ledgers whose number of entries has changed since the positions were recorded, for example by splitting
        batches. Positions within them no longer identify messages.

    """

    ledgers: Sequence[tuple[int, int, int]]
    end: int
    renumbered: Mapping[int, int] = field(default_factory=dict)

    def moved(self, at: Position) -> Position:
        """Return the position after which the restored messages after ``at`` begin, perhaps with some earlier ones."""
        return self._moved(at, is_up=False)

    def moved_up(self, at: Position) -> Position:
        """Return the same for the beginning of an acknowledged range: perhaps after some of its messages, and never before it."""
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
        """The position before all messages."""
        return Position(self.ledgers[0][1] if self.ledgers else self.end, -1)


def _old_id(ledger: tuple[int, int, int]) -> int:
    return ledger[0]


def subscriptions_of(
    source: str, dumped: Mapping[str, DumpedCursor], positions: Positions
) -> tuple[dict[str, bytes], list[str]]:
    """Return {name: node} of a topic's subscriptions, and warnings, a sentence each.

    A subscription whose newest state is unknown begins at its node's position: messages acknowledged since then are delivered again, and
    none are skipped.
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
            said = [f"it starts at the earliest message, since its position is unknown ({unknown.reason}; {why})"]
            return build_cursor_info(CursorInfo(IN_THE_NODE, positions.first)), said
        said.append(
            f"it starts at the position in its ZooKeeper node, which may be earlier than its last position ({why})"
        )
    return made, said


def _position_alone(path: str, node: bytes) -> bytes:
    """Return a subscription's node without the state that only its ledger has; raises `CorruptMetadataError`."""
    found = parse_cursor_info(node, key=path)
    if found.mark_delete is None:
        raise CorruptMetadataError("its ZooKeeper node has no position", key=path)
    active_ms, properties = found.last_active_ms, found.cursor_properties
    return build_cursor_info(
        CursorInfo(IN_THE_NODE, found.mark_delete, last_active_ms=active_ms, cursor_properties=properties)
    )


def settled_cursor(node: bytes, newest: bytes | None, positions: Positions, *, key: str) -> bytes:
    """Return a subscription as a node alone, from its old node and the newest entry of its ledger (None without one).

    Raises `CorruptMetadataError` with ``key`` for bytes that are not a cursor, and for a state in a ledger whose entry is unknown.
    """
    reported = state = parse_cursor_info(node, key=key)
    if not reported.is_in_the_node:
        if newest is None:
            raise CorruptMetadataError("its position is in a cursor ledger that could not be read", key=key)
        state = parse_position_info(newest, key=key)
    if state.mark_delete is None:
        raise CorruptMetadataError("the cursor has no position", key=key)
    mark_delete = positions.moved(state.mark_delete)
    holes = _moved_holes(state.acknowledged_ranges(), positions, mark_delete)
    settled = CursorInfo(
        IN_THE_NODE,
        mark_delete,
        tuple(islice(holes, _MOST_HOLES)),
        reported.last_active_ms,
        tuple(one for one in state.properties if one[0] != _COMPACTED),
        tuple(one for one in reported.cursor_properties if not one[0].startswith(_DELAYED)),
    )
    return build_cursor_info(settled)


def _moved_holes(ranges: Iterator[Hole], positions: Positions, mark_delete: Position) -> Iterator[Hole]:
    for lower, upper in ranges:
        start, end = max(positions.moved_up(lower), mark_delete), positions.moved(upper)
        if start < end:
            yield start, end

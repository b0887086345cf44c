"""A cursor as its node alone, for a cluster that has neither the cursor's ledger nor all ledgers of the topic.

What the newest entry of the cursor's ledger told is put into the node, as a broker does when it unloads a topic. Positions are moved to
where the topic's entries are now; what names ledgers of the lost cluster's own (delayed messages, compaction) is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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

MOST_HOLES = 10_000
"""Ranges that a broker keeps of a subscription, unless it is told otherwise (``managedLedgerMaxUnackedRangesToPersist``)."""
MOST_BATCHES = 20_000
"""Entries of which some messages are acknowledged."""

_DELAYED = "#pulsar.internal.delayed.bucket"
_COMPACTED = "CompactedTopicLedger"


class Moves(Protocol):
    """From positions in the lost cluster to those in the new one."""

    def moved(self, at: Position) -> Position:
        """Return the position behind which the same messages lie, and, where that is not known, some before them."""

    def moved_up(self, at: Position) -> Position:
        """Return the same, and, where that is not known, one further behind."""


@dataclass(frozen=True, slots=True)
class SettledCursor:
    """A cursor for a node.

    Attributes
    ----------
    data
        The node's value.
    mark_delete
        Everything up to this position is acknowledged.
    holes, batches
        How many ranges behind it are acknowledged, and how many entries in part.
    left_out
        How many of both there was no room for: their messages are delivered again.

    """

    data: bytes
    mark_delete: Position
    holes: int
    batches: int
    left_out: int


def settled_cursor(node: bytes, newest: bytes | None, moves: Moves, *, key: str) -> SettledCursor:
    """Return a cursor as its node alone.

    Parameters
    ----------
    node
        The value of its node in the lost cluster.
    newest
        The newest entry of its ledger; None if it has none.
    moves
        Ranges that are empty by it are left out.
    key
        Names it in errors.

    Raises
    ------
    CorruptMetadataError
        These bytes are no cursor, or its state is in a ledger whose entry is not known.

    """
    told = state = parse_cursor_info(node, key=key)
    if not told.is_in_the_node:
        if newest is None:
            raise CorruptMetadataError("its state is in a ledger of which no entry is known", key=key)
        state = parse_position_info(newest, key=key)
    if state.mark_delete is None:
        raise CorruptMetadataError("a cursor without a position", key=key)
    mark_delete = moves.moved(state.mark_delete)
    holes, more_holes = _first(_moved_holes(state.acknowledged_ranges(), moves, mark_delete), MOST_HOLES)
    partly = [(moves.moved(at), words) for at, words in state.partly_deleted if _is_there(at, moves)]
    batches = [one for one in partly if one[0] > mark_delete]
    settled = CursorInfo(
        IN_THE_NODE,
        mark_delete,
        tuple(holes),
        told.last_active_ms,
        tuple(one for one in state.properties if one[0] != _COMPACTED),
        tuple(one for one in told.cursor_properties if not one[0].startswith(_DELAYED)),
        partly_deleted=tuple(batches[:MOST_BATCHES]),
    )
    kept = len(settled.partly_deleted)
    return SettledCursor(build_cursor_info(settled), mark_delete, len(holes), kept, more_holes + len(batches) - kept)


def _is_there(at: Position, moves: Moves) -> bool:
    """Whether an entry is in the new cluster, as one: its position follows that of the entry before it there, too."""
    before = moves.moved_up(Position(at.ledger_id, at.entry_id - 1))
    return moves.moved(at) == Position(before.ledger_id, before.entry_id + 1)


def _moved_holes(ranges: Iterator[Hole], moves: Moves, mark_delete: Position) -> Iterator[Hole]:
    for lower, upper in ranges:
        start, end = max(moves.moved_up(lower), mark_delete), moves.moved(upper)
        if start < end:
            yield start, end


def _first(found: Iterator[Hole], most: int) -> tuple[list[Hole], int]:
    kept: list[Hole] = []
    more = 0
    for one in found:
        if len(kept) < most:
            kept.append(one)
        else:
            more += 1
    return kept, more

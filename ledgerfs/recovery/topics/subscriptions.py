"""The subscriptions of a restored topic: those of the dump where they were, and those that an operator names, where he wants them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ledgerfs.errors import CorruptLedgerError, CorruptMetadataError, NotFoundError
from ledgerfs.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info, parse_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.managed_ledgers.names import cursor_path
from ledgerfs.formats.managed_ledgers.settled_cursor import SettledCursor, settled_cursor
from ledgerfs.ledgers.ledger_times import TimeRange
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.entry_fields import publish_times
from ledgerfs.recovery.lost.dumped_cluster import DumpedCursor
from ledgerfs.recovery.topics.positions import Positions
from ledgerfs.scan.time_pruning import TimePruning
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

_SLACK_MS = 60_000
"""By which clocks of producers may differ from brokers'."""


class Start(Enum):
    """Where a new subscription begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription that no dump tells of; ``start`` may be a time, ms since 1970 UTC: the first message of then or later."""

    name: str
    start: Start | int


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The nodes of a topic's subscriptions, by name, and what is to be said of them."""

    nodes: Mapping[str, bytes]
    remarks: tuple[str, ...]


def subscriptions_of(
    source: str,
    dumped: Mapping[str, DumpedCursor],
    new: Sequence[NewSubscription],
    positions: Positions,
    readers: Sequence[LedgerReader],
) -> Subscriptions:
    """Return the subscriptions of a topic.

    One whose newest state is not known begins where its node had it: what was acknowledged since then is delivered again, and nothing is
    left out. ``readers`` are asked where a time is, in ledgers with the ids that ``positions`` tells.
    """
    nodes: dict[str, bytes] = {}
    remarks: list[str] = []
    for name, cursor in dumped.items():
        nodes[name], said = _dumped(cursor_path(source, name), cursor, positions)
        remarks += [f"subscription {name}: {one}" for one in said]
    for one in new:
        if one.name not in nodes:
            at = _start(one.start, positions, readers)
            nodes[one.name] = build_cursor_info(CursorInfo(IN_THE_NODE, at))
    return Subscriptions(nodes, tuple(remarks))


def _dumped(path: str, cursor: DumpedCursor, positions: Positions) -> tuple[bytes, list[str]]:
    made: SettledCursor | None
    said: list[str] = []
    try:
        made = settled_cursor(cursor.node, cursor.newest, positions, key=path)
    except CorruptMetadataError as error:
        made, said = _older(path, cursor, positions, cursor.trouble or error.reason)
    if made is None:
        return build_cursor_info(CursorInfo(IN_THE_NODE, positions.first)), said
    if made.batches:
        said.append(f"{made.batches:,} batches were acknowledged in part, and are delivered again as a whole")
    if made.left_out:
        said.append(f"{made.left_out:,} acknowledged ranges have no room, and are delivered again")
    if others := positions.renumbered_behind(made.mark_delete):
        which = f"ledger {others[0]} has" if len(others) == 1 else f"{len(others):,} ledgers, such as {others[0]}, have"
        said.append(
            f"{which} other entries than by the dump (batches split?): what was acknowledged in part is delivered again"
        )
    return made.data, said


def _older(path: str, cursor: DumpedCursor, positions: Positions, why: str) -> tuple[SettledCursor | None, list[str]]:
    """Return a subscription where its node alone has it; None, for the beginning, where that does not tell."""
    try:
        told = parse_cursor_info(cursor.node, key=path)
        if told.mark_delete is None:
            raise CorruptMetadataError("its node tells no position", key=path)
        node = build_cursor_info(
            CursorInfo(
                IN_THE_NODE,
                told.mark_delete,
                last_active_ms=told.last_active_ms,
                cursor_properties=told.cursor_properties,
            )
        )
        made = settled_cursor(node, None, positions, key=path)
    except CorruptMetadataError as error:
        return None, [f"it begins at the earliest message: where it was is not known ({error.reason}; {why})"]
    return made, [f"it begins where its node had it, which may be earlier than where it was ({why})"]


def _start(start: Start | int, positions: Positions, readers: Sequence[LedgerReader]) -> Position:
    if start is Start.EARLIEST:
        return positions.first
    if start is Start.LATEST:
        return positions.last
    assert isinstance(start, int)  # noqa: S101  (neither of the two)
    times = TimeRange(start, None, _SLACK_MS)
    reach = TimePruning(readers, Reach.of(range(len(readers))), times, None, check_checksums=True).pruned().reach
    place = _first_since(start, readers, reach)
    if place is None:
        return positions.last
    return positions.moved(Position(readers[place.number].ref.ledger_id, place.entry - 1))


def _first_since(start_ms: int, readers: Sequence[LedgerReader], reach: Reach) -> Place | None:
    """Return the first entry that was published at a time or later, or whose time cannot be told since it is damaged; None without one."""
    decoder = TopicDecoder("", DecodeOptions(include_markers=True, check_checksums=True, on_corrupt="skip"))
    read_to = reach.start
    try:
        for place, batch in read_entries(readers, reach):
            entries, sound = decoder.walk(batch, readers[place.number].ref.ledger_id)
            rows = np.flatnonzero(~sound | (publish_times(entries) >= start_ms))
            if rows.size:
                return Place(place.number, batch.id_of(int(rows[0])))
            read_to = Place(place.number, batch.last_entry + 1)
    except (CorruptLedgerError, NotFoundError):
        # Of what comes behind nothing is known: it is delivered.
        return read_to
    return None

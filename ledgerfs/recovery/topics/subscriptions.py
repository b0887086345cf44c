"""The subscriptions of a restored topic: those of the dump, where they were."""

from collections.abc import Mapping

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info, parse_cursor_info
from ledgerfs.formats.managed_ledgers.names import cursor_path
from ledgerfs.formats.managed_ledgers.settled_cursor import SettledCursor, settled_cursor
from ledgerfs.recovery.lost.dumped_cluster import DumpedCursor
from ledgerfs.recovery.topics.positions import Positions


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

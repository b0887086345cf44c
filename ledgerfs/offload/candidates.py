"""Which ledgers of a topic can be offloaded, by its list and by BookKeeper as they are now."""

from collections.abc import Callable
from dataclasses import dataclass

from ledgerfs.dialects.closed_ledgers import StoredLedger
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.nodes import NodeReader


@dataclass(frozen=True, slots=True)
class NotOffloaded:
    """A ledger that was not offloaded, and why."""

    ledger_id: int
    reason: str
    error: LedgerfsError | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic's list, with at least one ledger, as it was read."""

    node: Node
    info: ManagedLedgerInfo

    @property
    def last(self) -> int:
        """The greatest id, which a broker that loads the topic makes anew."""
        return self.info.ledgers[-1].ledger_id

    def ledger(self, ledger_id: int) -> LedgerInfo | None:
        """Return the line of a ledger; None if there is none."""
        return next((one for one in self.info.ledgers if one.ledger_id == ledger_id), None)


def listed_now(nodes: NodeReader, managed_ledger: str) -> Listed:
    """Return a topic's list.

    Raises `ObjectNotFoundError` without one, `StaleObjectError` for an empty one, `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    node = nodes.get(managed_ledger_path(managed_ledger))
    info = parse_managed_ledger_info(node.data, key=node.path)
    if not info.ledgers:
        raise StaleObjectError("the topic has no ledgers (any more)", key=node.path)
    return Listed(node, info)


def listed_or_none(nodes: NodeReader, managed_ledger: str) -> Listed | None:
    """Return a topic's list; None if there is none, or an empty one."""
    try:
        return listed_now(nodes, managed_ledger)
    except (ObjectNotFoundError, StaleObjectError):
        return None


def candidate(listed: Listed, ledger_id: int, find: Callable[[int], StoredLedger]) -> StoredLedger | NotOffloaded | int:
    """Return a ledger as BookKeeper has it if it can be offloaded; its id if it is offloaded; else why it cannot be.

    ``find`` returns a ledger of BookKeeper, or raises `ObjectNotFoundError`, and other errors, which are raised.
    """
    info = listed.ledger(ledger_id)
    if info is None:
        return NotOffloaded(ledger_id, "the topic does not list it (any more)")
    if info.is_offloaded:
        return ledger_id
    if ledger_id == listed.last:
        reason = "the last ledger of a topic is made anew by the broker that loads it: it is never offloaded"
        return NotOffloaded(ledger_id, reason)
    try:
        found = find(ledger_id)
    except ObjectNotFoundError as error:
        return NotOffloaded(ledger_id, "BookKeeper does not have it (any more)", error)
    why = _why_not(info, found)
    return found if why is None else NotOffloaded(ledger_id, why)


def _why_not(info: LedgerInfo, found: StoredLedger) -> str | None:
    node = found.node
    if not node.is_closed:
        return "it is not closed in BookKeeper"
    if node.last_entry < 0:
        return "it has no entries"
    if (info.entries, info.size) != (node.last_entry + 1, node.length):
        there = f"{node.last_entry + 1:,} of {node.length:,}"
        return f"its topic lists {info.entries:,} entries of {info.size:,} bytes, BookKeeper has {there}"
    return None

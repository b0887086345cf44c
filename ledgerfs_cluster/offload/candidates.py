"""Select the ledgers of a topic that can be offloaded, by current metadata of the topic and of BookKeeper."""

from collections.abc import Callable
from dataclasses import dataclass

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of, managed_ledger_path
from ledgerfs_cluster.live_source.closed_ledgers import StoredLedger
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import NodeReader


def not_offloaded(topic: str, ledger_id: int, reason: str, error: LedgerfsError | None = None) -> Outcome:
    """Return the outcome for a ledger that was not offloaded, with the reason."""
    status = Status.SKIPPED if error is None else Status.FAILED
    return Outcome(status, "offload refused", topic, reason, (ledger_id,), error=error)


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic's ledger list with at least one ledger, as it was read."""

    node: Node
    info: ManagedLedgerInfo

    @property
    def topic(self) -> str:
        """The managed ledger."""
        return managed_ledger_of(self.node.path) or self.node.path

    @property
    def last(self) -> int:
        """The greatest id; a broker that loads the topic replaces this ledger by a new one."""
        return self.info.ledgers[-1].ledger_id

    def ledger(self, ledger_id: int) -> LedgerInfo | None:
        """Return a ledger's metadata in the list; None if it is not listed."""
        return next((one for one in self.info.ledgers if one.ledger_id == ledger_id), None)


def listed_now(nodes: NodeReader, managed_ledger: str) -> Listed:
    """Return a topic's ledger list.

    Raises `ObjectNotFoundError` if there is none, `StaleObjectError` if it is empty, `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    node = nodes.get(managed_ledger_path(managed_ledger))
    info = parse_managed_ledger_info(node.data, key=node.path)
    if not info.ledgers:
        raise StaleObjectError("the topic has no ledgers, or no longer has any", key=node.path)
    return Listed(node, info)


def listed_or_none(nodes: NodeReader, managed_ledger: str) -> Listed | None:
    """Return a topic's ledger list; None if it is missing or empty."""
    try:
        return listed_now(nodes, managed_ledger)
    except (ObjectNotFoundError, StaleObjectError):
        return None


def candidate(listed: Listed, ledger_id: int, find: Callable[[int], StoredLedger]) -> StoredLedger | Outcome:
    """Return a ledger's BookKeeper metadata if it can be offloaded; else an outcome: already offloaded, or the reason.

    ``find`` returns a ledger of BookKeeper, or raises `ObjectNotFoundError`; its other errors pass through.
    """
    info = listed.ledger(ledger_id)
    if info is None:
        return not_offloaded(listed.topic, ledger_id, "the ledger is not, or no longer, in the topic's ledger list")
    if info.is_offloaded:
        return Outcome(Status.OK, "offloaded", listed.topic, ledger_ids=(ledger_id,))
    if ledger_id == listed.last:
        reason = "the last ledger of a topic is never offloaded: a broker that loads the topic writes its record again"
        return not_offloaded(listed.topic, ledger_id, reason)
    try:
        found = find(ledger_id)
    except ObjectNotFoundError as error:
        return not_offloaded(listed.topic, ledger_id, "the ledger is not, or no longer, in BookKeeper", error)
    node = found.node
    why = why_not_readable((info.entries, info.size), node.last_entry + 1, node.length, is_closed=node.is_closed)
    return found if why is None else not_offloaded(listed.topic, ledger_id, why)


def why_not_readable(listed: tuple[int, int], entries: int, length: int, *, is_closed: bool) -> str | None:
    """Return why a BookKeeper ledger does not match the list's (entries, bytes), or is not closed; None if it can be copied."""
    if not is_closed:
        return "it is not closed in BookKeeper: a writer may still be running"
    if not entries:
        return "it has no entries"
    if listed != (entries, length):
        return (
            f"the topic's ledger list has {listed[0]:,} entries with {listed[1]:,} bytes for it, but BookKeeper has {entries:,} "
            f"with {length:,}"
        )
    return None

"""Whether anybody who comes back to a topic knows positions in a ledger, whose entries must keep their ids then.

Read after the topic's list, and after it was seen that no broker has the topic: a broker that loads it makes a ledger, and so changes the
list, before it opens a subscription. So with the list as it was read, and the nodes of the subscriptions, all of this is as it was.

A broker that was stopped for longer than its session lasts has no topic by what ZooKeeper tells, and goes on with what it knows. It closes
the last ledger of a topic when it lets the topic go; while that one is open, it may come back. And to note where a subscription is, in
another ledger, it has to set the subscription's node, whose version the commit changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.managed_ledgers.names import cursor_of, is_twofold, managed_ledger_path
from ledgerfs.formats.topic_names import decode_topic, encode_topic
from ledgerfs.offload.candidates import Listed
from ledgerfs.offload.list_bytes import MOST_BYTES
from ledgerfs.storage.zookeeper.newest_nodes import NodeReader
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.operations import Operation, SetNode

COMPACTION, DEDUPLICATION, REPLICATION = "__compaction", "pulsar.dedup", "pulsar.repl."
"""Cursors of brokers' own; those of replication go on with the name of a cluster."""
_REPLICATED = "pulsar.replicated.subscription"
_DELAYED = "#pulsar.internal.delayed.bucket"
_PENDING = "__transaction_pending_ack"
_SHADOW = "PULSAR.SHADOW_SOURCE"
_MORE_BYTES = 512
"""Of a node in a commit besides its data: path and numbers."""
_MOST_OF_COMMIT = MOST_BYTES // 2
"""For the list and the subscriptions; the rest is for notes and lines of the ledgers."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription, or another cursor, whose state is all in its node.

    Attributes
    ----------
    has_pending
        Whether acknowledgements of transactions are kept for it, which may not have ended.

    """

    name: str
    node: Node
    state: CursorInfo
    has_pending: bool

    def why_known(self, ledger_id: int) -> str | None:
        """Return why a ledger has to keep its ids for this; None if it has not."""
        mark = self.state.mark_delete
        if mark is None:
            return f"it is not known where subscription {self.name} is"
        if mark.ledger_id > ledger_id:
            return None
        if is_of_broker(self.name):
            return f"{self.name}, which brokers keep, has not passed it"
        if mark >= Position(ledger_id, 0):
            return f"subscription {self.name} is in it, or at its end: at {mark.ledger_id}:{mark.entry_id}"
        why = self._why_known_ahead(ledger_id)
        return None if why is None else f"subscription {self.name} has not passed it, and {why}"

    def _why_known_ahead(self, ledger_id: int) -> str | None:
        """Return why this knows ids in a ledger that it has not come to; None if it knows none."""
        if self._has_acknowledged_in(ledger_id):
            return "has acknowledged some of its messages"
        if any(name.startswith(_DELAYED) for name, _ in self.state.cursor_properties):
            return "delayed messages are kept for it by their ids"
        if self.has_pending:
            return "acknowledges in transactions, which are kept by ids"
        return None

    def _has_acknowledged_in(self, ledger_id: int) -> bool:
        ranges = self.state.acknowledged_ranges()
        is_in_range = any(lower.ledger_id <= ledger_id <= upper.ledger_id for lower, upper in ranges)
        return is_in_range or any(one.ledger_id == ledger_id for one in self.state.partly_deleted)


@dataclass(frozen=True, slots=True)
class KnownPositions:
    """What is known of positions in a topic.

    Attributes
    ----------
    why_all
        Why all of its ledgers have to keep their ids; None if that depends on the ledger.

    """

    why_all: str | None
    subscriptions: Sequence[Subscription] = ()

    def why_known(self, ledger_id: int) -> str | None:
        """Return why a ledger has to keep its ids; None if it has not."""
        if self.why_all is not None:
            return self.why_all
        return next(filter(None, (one.why_known(ledger_id) for one in self.subscriptions)), None)

    def unchanged(self) -> list[Operation]:
        """Return what sets the nodes of all subscriptions to what they are: it fails if any was changed, and so does who set one later."""
        return [SetNode.of(one.node, one.node.data) for one in self.subscriptions]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the subscriptions' nodes."""
        return frozenset(one.node.path for one in self.subscriptions)


def is_of_broker(name: str) -> bool:
    """Whether a cursor is no subscription, but brokers' own: of compaction, deduplication or replication."""
    return name in {COMPACTION, DEDUPLICATION} or name.startswith(REPLICATION)


def known_positions(nodes: NodeReader, ledgers: ClosedLedgers, managed_ledger: str, listed: Listed) -> KnownPositions:
    """Return what is known of positions in a topic that no broker has; raises the errors of ZooKeeper, not those of damaged nodes."""
    why = _why_topic(ledgers, listed)
    if why is not None:
        return KnownPositions(why)
    path = listed.node.path
    children = nodes.children(path)
    found: list[Subscription] = []
    named = [(decode_topic(one), f"{path}/{one}") for one in children]
    pending = [managed_ledger_path(_pending_of(managed_ledger, name)) for name, _ in named]
    size = len(listed.node.data)
    answers = nodes.get_many([at for _, at in named])
    for (name, _), node, kept in zip(named, answers, list(nodes.get_many(pending)), strict=True):
        try:
            at, state = _state(name, node)
            has_pending = _is_there(kept)
        except _KnownError as error:
            return KnownPositions(str(error))
        found.append(Subscription(name, at, state, has_pending))
        size += len(at.data) + len(at.path) + _MORE_BYTES
    if size > _MOST_OF_COMMIT:
        return KnownPositions(
            f"the list and the subscriptions of the topic have {size:,} bytes, too many for one commit"
        )
    return KnownPositions(None, tuple(found))


class _KnownError(Exception):
    """Why ids have to stay."""


def _why_topic(ledgers: ClosedLedgers, listed: Listed) -> str | None:
    """Return why no ledger of a topic may get other ids, by its list."""
    if listed.info.terminated is not None:
        return "the topic is terminated: a broker that loads it changes nothing, and would not be noticed"
    if any(name == _SHADOW for name, _ in listed.info.properties):
        return "the topic is the shadow of another, whose ids it has"
    if is_twofold(listed.node.path) or cursor_of(f"{listed.node.path}/x") is None:
        return "what is below the topic's node may be topics, or subscriptions"
    return _why_last(ledgers, listed.last)


def _why_last(ledgers: ClosedLedgers, last: int) -> str | None:
    """Return why a broker may have a topic, by its last ledger, whatever is told of its owner; None if none has."""
    try:
        found = ledgers.found(last)
    except ObjectNotFoundError:
        return f"BookKeeper does not have the topic's last ledger, {last}"
    except CorruptMetadataError as error:
        return f"the node of the topic's last ledger, {last}, cannot be read: {error.reason}"
    if found.node.is_closed:
        return None
    return (
        f"the topic's last ledger, {last}, is open: its broker has died, or was stopped and may come back; it may be done once "
        "a broker has loaded the topic, and let it go"
    )


def _state(name: str, node: Node | LedgerfsError) -> tuple[Node, CursorInfo]:
    """Return a subscription that ledgers may be compared with, its node and its state; raises `_KnownError` for others."""
    if isinstance(node, ObjectNotFoundError):
        raise _KnownError(f"subscription {name} is being deleted")
    if isinstance(node, LedgerfsError):
        raise node
    if name == COMPACTION:
        raise _KnownError("the topic is compacted: what is kept of it has the ids")
    try:
        state = parse_cursor_info(node.data, key=node.path)
    except CorruptMetadataError as error:
        raise _KnownError(f"the node of subscription {name} cannot be read: {error.reason}") from error
    if not state.is_in_the_node:
        raise _KnownError(
            f"subscription {name} is kept in ledger {state.cursors_ledger}, to which the broker that had it may still write"
        )
    if any(one == _REPLICATED for one, _ in (*state.properties, *state.cursor_properties)):
        raise _KnownError(f"subscription {name} is replicated: other clusters know ids of this one")
    return node, state


def _pending_of(managed_ledger: str, subscription: str) -> str:
    """Return the managed ledger in which the acknowledgements of transactions of a subscription are, if there are any."""
    folder, _, topic = managed_ledger.rpartition("/")
    return f"{folder}/{encode_topic(f'{decode_topic(topic)}-{subscription}{_PENDING}')}"


def _is_there(node: Node | LedgerfsError) -> bool:
    if isinstance(node, ObjectNotFoundError):
        return False
    if isinstance(node, LedgerfsError):
        raise node
    return True

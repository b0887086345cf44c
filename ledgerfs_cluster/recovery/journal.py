"""What was restored into a cluster, noted in its ZooKeeper by the same commit that makes a topic: so a run that ended anywhere goes on.

A topic is ours if its list was made by the commit that wrote its note: both have the same time, by ZooKeeper's one clock for a commit.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.snapshot.next_ids import RECOVERY
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import NodeReader, Nodes

NOTES = f"{RECOVERY}/topics"
NEW_IDS = f"{RECOVERY}/new-ids"

Noted = TypeVar("Noted")


@dataclass(frozen=True, slots=True)
class Note:
    """A topic that was restored.

    Attributes
    ----------
    source, bucket
        The managed ledger that it was, and the URL of the bucket, without credentials.
    ledgers, subscriptions
        How many of each there are.
    extra_id
        The id behind those of its restored ledgers, and before all that the cluster gives.
    left_out
        How many ledgers of its former name the bucket had that were not restored.
    has_new_ids
        Whether its ledgers have other ids than they had.
    hides_aborted
        Whether brokers hide what was aborted; False if entries were not read for transactions.

    """

    source: str
    bucket: str
    ledgers: int
    subscriptions: int
    extra_id: int
    left_out: int
    has_new_ids: bool
    hides_aborted: bool

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class NewIds:
    """Which ids the ledgers of a topic get: from ``first`` on, in the order of their old ones.

    Without ``ledgers`` they keep theirs, and ``first`` is the id of the ledger that ends open transactions.
    """

    first: int
    ledgers: tuple[int, ...]

    @property
    def new(self) -> range:
        """The ids that are taken."""
        return range(self.first, self.first + (len(self.ledgers) or 1))

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


def note_path(target: str) -> str:
    """Return where the note of a managed ledger is."""
    return f"{NOTES}/{target}"


def new_ids_path(target: str) -> str:
    """Return where it is noted which ids the ledgers of a managed ledger get."""
    return f"{NEW_IDS}/{target}"


def parse_note(node: Node) -> Note:
    """Parse the node of a note; raises `CorruptMetadataError`."""
    kinds = Note.__annotations__
    return _parsed(node, lambda told: Note(**{name: kind(told[name]) for name, kind in kinds.items()}))


def parse_new_ids(node: Node) -> NewIds:
    """Parse such a note; raises `CorruptMetadataError`."""
    return _parsed(node, lambda told: NewIds(int(told["first"]), tuple(map(int, told["ledgers"]))))


def note_of(nodes: Nodes, target: str) -> Note | None:
    """Return the note of a topic that was restored, and is still the one that was made then; None for others."""
    try:
        made, note = nodes.get(managed_ledger_path(target)), nodes.get(note_path(target))
    except ObjectNotFoundError:
        return None
    return parse_note(note) if is_of_note(made, note) else None


def is_of_note(made: Node, note: Node) -> bool:
    """Whether the list of a topic was made by the commit that wrote a note."""
    return made.created_ms == note.changed_ms


def new_ids_of(nodes: NodeReader, target: str) -> NewIds | None:
    """Return which ids are noted for the ledgers of a topic; None without a note."""
    return next((parse_new_ids(node) for _, node in answered(nodes.get_many, [new_ids_path(target)])), None)


def nodes_below(nodes: Nodes, folder: str) -> Iterator[Node]:
    """Yield the notes in a folder, whose paths have the names of topics; raises the errors of ZooKeeper."""
    level = [folder]
    while level:
        level = list(paths_below(nodes, level))
        for _, node in answered(nodes.get_many, level):
            if node.data:
                yield node


def _parsed(node: Node, made: Callable[[Any], Noted]) -> Noted:
    try:
        return made(json.loads(node.data))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("not a note of a recovery", key=node.path) from error

"""What was restored into a cluster, noted in its ZooKeeper by the same commit that makes a topic: so a run that ended anywhere goes on.

A topic is ours if its list was made by the commit that wrote its note: both have the same time, by ZooKeeper's one clock for a commit.
"""

import json
from dataclasses import asdict, dataclass

from ledgerfs.clusters.next_ids import RECOVERY
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.storage.zookeeper.node import Node

NOTES = f"{RECOVERY}/topics"
NEW_IDS = f"{RECOVERY}/new-ids"


@dataclass(frozen=True, slots=True)
class Note:
    """A topic that was restored.

    Attributes
    ----------
    source, bucket
        The managed ledger that it was, and the URL of the bucket, without credentials.
    ledgers, entries, subscriptions
        How many of each there are.
    at_ms
        When, ms since 1970 UTC, by the clock of the machine that did it.
    has_new_ids
        Whether its ledgers have other ids than they had.
    open_as
        How open transactions ended, as `OpenAs` has it; empty if there were none, None if brokers hide nothing, since nobody looked for
        transactions, or since the new cluster has none.

    """

    source: str
    bucket: str
    ledgers: int
    entries: int
    subscriptions: int
    at_ms: int
    has_new_ids: bool
    open_as: str | None

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


def note_path(target: str) -> str:
    """Return where the note of a managed ledger is."""
    return f"{NOTES}/{target}"


def parse_note(node: Node) -> Note:
    """Parse the node of a note; raises `CorruptMetadataError`."""
    try:
        told = json.loads(node.data)
        ledgers, entries, subscriptions, at_ms = (
            int(told[name]) for name in ("ledgers", "entries", "subscriptions", "at_ms")
        )
        source, bucket = str(told["source"]), str(told["bucket"])
        open_as = None if told["open_as"] is None else str(told["open_as"])
        return Note(source, bucket, ledgers, entries, subscriptions, at_ms, bool(told["has_new_ids"]), open_as)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("no note of a restored topic", key=node.path) from error


def is_of_note(made: Node, note: Node) -> bool:
    """Whether the list of a topic was made by the commit that wrote a note."""
    return made.created_ms == note.changed_ms


def new_ids_path(target: str) -> str:
    """Return where it is noted which ids the ledgers of a managed ledger get."""
    return f"{NEW_IDS}/{target}"


@dataclass(frozen=True, slots=True)
class NewIds:
    """Which ids the ledgers of a topic get: from ``first`` on, in the order of their old ones.

    Without ``ledgers`` they keep theirs, and ``first`` is the id of the ledger that ends open transactions.
    """

    first: int
    ledgers: tuple[int, ...]

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


def parse_new_ids(node: Node) -> NewIds:
    """Parse such a note; raises `CorruptMetadataError`."""
    try:
        told = json.loads(node.data)
        return NewIds(int(told["first"]), tuple(map(int, told["ledgers"])))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("no note of the ids of a restored topic", key=node.path) from error

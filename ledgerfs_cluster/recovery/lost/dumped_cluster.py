"""The lost cluster, as its dump has it: lists of ledgers, where they ended, subscriptions, and settings."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ledgerfs.errors import CorruptMetadataError, CorruptObjectError, UnsupportedFormatError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_id_at, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_of
from ledgerfs_cluster.formats.managed_ledgers.node_kinds import managed_ledger_at
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs_cluster.snapshot.answers import CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpHeader, Record
from ledgerfs_cluster.snapshot.partitioned_topics import partitioned_path
from ledgerfs_cluster.zookeeper.node import Node

Records = Callable[[], Iterator[Record]]
"""Reads a dump from its beginning."""


@dataclass(frozen=True, slots=True)
class DumpedCursor:
    """A subscription: its node, and the newest entry of its ledger; None if it has none, or for ``trouble``, which says why."""

    node: bytes
    newest: bytes | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class DumpedCluster:
    """See the module.

    Attributes
    ----------
    began_ms
        When the dump was begun, ms since 1970 UTC.
    lists
        {managed ledger: its list}; empty lists, too.
    cursors
        {managed ledger: {name: subscription}}.
    ends
        {ledger: its end}, of the last ledger of each list, as far as it is known.
    settings
        Policies, schemas, counts of partitions.
    damaged
        {path of a node that cannot be read: why}.

    """

    began_ms: int
    lists: Mapping[str, ManagedLedgerInfo]
    cursors: Mapping[str, Mapping[str, DumpedCursor]]
    ends: Mapping[int, LedgerEndAnswer]
    settings: DumpedSettings
    damaged: Mapping[str, str]


def is_partition(source: str, dump: DumpedCluster | None) -> bool:
    """Whether a topic is a partition by its name; what the lost cluster had under such a name, and not as a partition, is none."""
    whole, number = split_partition(source)
    # A partitioned topic that was made during the dump has no node in it either, but there is no topic of its whole name.
    had_none = (
        dump is not None and {source, whole} <= dump.lists.keys() and partitioned_path(whole) not in dump.settings.nodes
    )
    return number is not None and not had_none


def read_dumped(records: Records) -> DumpedCluster:
    """Return what a dump has, for which it is read twice: ledgers come before the lists that tell which of them are last.

    Raises the errors of `ledgerfs_cluster.snapshot.dump_file.read_dump`.
    """
    taken = _Taken()
    for record in records():
        taken.take(record)
    last = {info.ledgers[-1].ledger_id for info in taken.lists.values() if info.ledgers}
    wanted = last - taken.ends.keys()
    for record in records() if wanted else ():
        ledger_id = ledger_id_at(record.path, taken.ledgers_path) if isinstance(record, Node) else None
        if isinstance(record, Node) and ledger_id in wanted:
            taken.take_ledger(record, ledger_id)
    return taken.cluster()


@dataclass(slots=True)
class _Taken:
    """What was read so far."""

    ledgers_path: str = "/ledgers"
    began_ms: int = 0
    lists: dict[str, ManagedLedgerInfo] = field(default_factory=dict)
    cursors: dict[str, dict[str, DumpedCursor]] = field(default_factory=dict)
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    ends: dict[int, LedgerEndAnswer] = field(default_factory=dict)
    settings: DumpedSettings = field(default_factory=DumpedSettings)
    damaged: dict[str, str] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        match record:
            case DumpHeader(_, ledgers_path, began_ms):
                self.ledgers_path, self.began_ms = ledgers_path, began_ms
            case Node(path):
                self._take_node(record, path)
            case LedgerEndAnswer(ledger_id):
                self.ends[ledger_id] = record
            case CursorAnswer(path, entry, trouble):
                self._take_state(path, entry, trouble)
            case TopicPoliciesAnswer(namespace):
                self.settings.topic_policies[namespace] = record
            case SchemaAnswer(name):
                self.settings.schemas.setdefault(name, []).append(record)

    def take_ledger(self, node: Node, ledger_id: int) -> None:
        """Take the node of a last ledger, of which no bookie was asked: it was closed, or bookies were not asked at all."""
        try:
            found = parse_ledger_node(node.data, ledger_id, key=node.path)
        except (CorruptObjectError, UnsupportedFormatError) as error:
            self.damaged[node.path] = error.reason
            return
        if found.is_closed:
            self.ends[ledger_id] = LedgerEndAnswer(ledger_id, LastEnd.CLOSED, found.last_entry + 1, found.length)

    def cluster(self) -> DumpedCluster:
        return DumpedCluster(self.began_ms, self.lists, self.cursors, self.ends, self.settings, self.damaged)

    def _take_node(self, node: Node, path: str) -> None:
        if path.startswith("/admin/"):
            self.settings.nodes[path] = node.data
            return
        if path.startswith(f"{SCHEMAS}/"):
            # Folders of tenants and namespaces are nodes, too.
            if node.data:
                self.settings.locators[path.removeprefix(f"{SCHEMAS}/")] = node.data
            return
        name = managed_ledger_at(path, node.data)
        cursor = None if name is not None else cursor_of(path)
        if name is not None:
            try:
                self.lists[name] = parse_managed_ledger_info(node.data, key=path)
            except CorruptMetadataError as error:
                self.damaged[path] = error.reason
        elif cursor is not None:
            self.places[path] = cursor
            self.cursors.setdefault(cursor[0], {})[cursor[1]] = DumpedCursor(node.data)

    def _take_state(self, path: str, entry: bytes | None, trouble: str | None) -> None:
        place = self.places.get(path)
        if place is not None:
            of_topic = self.cursors[place[0]]
            of_topic[place[1]] = DumpedCursor(of_topic[place[1]].node, entry, trouble)

"""The lost cluster, from its dump: ledger lists, ends of ledgers, subscriptions, and settings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ledgerfs.errors import CorruptMetadataError, CorruptObjectError, UnsupportedFormatError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_id_at, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_of, managed_ledger_of
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.snapshot.answers import CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpHeader, Record
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.snapshot.survey_builder import POLICIES
from ledgerfs_cluster.zookeeper.node import Node

Records = Callable[[], Iterator[Record]]
"""Reads a dump from its beginning."""
_ROOT = "/admin/partitioned-topics"


@dataclass(frozen=True, slots=True)
class DumpedCursor:
    """A subscription: its node, and the newest entry of its ledger; None if it is empty, or with ``trouble`` (the reason)."""

    node: bytes
    newest: bytes | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class DumpedSettings:
    """Settings and schemas of the lost cluster; empty without a dump.

    Nodes are parsed on request, so that a damaged node concerns only its owner: all methods raise `CorruptMetadataError` for it.

    Attributes
    ----------
    nodes
        {path below ``/admin``: value}.
    topic_policies
        {namespace: policies of its topics}.
    locators
        {path below ``/schemas``: value}.
    schemas
        {path below ``/schemas``: BookKeeper's entry of each version}.

    """

    nodes: dict[str, bytes] = field(default_factory=dict)
    topic_policies: dict[str, TopicPoliciesAnswer] = field(default_factory=dict)
    locators: dict[str, bytes] = field(default_factory=dict)
    schemas: dict[str, list[SchemaAnswer]] = field(default_factory=dict)

    def policies(self, owner: str) -> dict[str, Any] | None:
        """Return the settings of a tenant, or the policies of a namespace, from ZooKeeper; None if unknown."""
        return self._object(f"{POLICIES}/{owner}")

    def partitions(self, managed_ledger: str) -> int | None:
        """Return a topic's number of partitions; None if it is unknown or not partitioned."""
        path = partitioned_path(managed_ledger)
        data = self.nodes.get(path)
        return None if data is None or not data.strip() else parse_partitions(data, key=path) or None

    def _object(self, path: str) -> dict[str, Any] | None:
        data = self.nodes.get(path)
        return None if data is None or not data.strip() else json_object(data, key=path)


@dataclass(slots=True)
class DumpedCluster:
    """All contents of a dump that recoveries use.

    Attributes
    ----------
    began_ms
        Beginning of the dump, ms since 1970 UTC.
    lists
        {managed ledger: its ledger list}; includes empty lists.
    cursors
        {managed ledger: {name: subscription}}.
    ends
        {ledger: its end}, of the last ledger of each list, as far as known.
    settings
        Policies, schemas, numbers of partitions.
    damaged
        {path of an unreadable node: reason}.

    """

    began_ms: int = 0
    lists: dict[str, ManagedLedgerInfo] = field(default_factory=dict)
    cursors: dict[str, dict[str, DumpedCursor]] = field(default_factory=dict)
    ends: dict[int, LedgerEndAnswer] = field(default_factory=dict)
    settings: DumpedSettings = field(default_factory=DumpedSettings)
    damaged: dict[str, str] = field(default_factory=dict)


def is_partition(source: str, dump: DumpedCluster | None) -> bool:
    """Return whether a topic is a partition by its name, unless the lost cluster had it as an ordinary topic."""
    whole, number = split_partition(source)
    # A partitioned topic that was created during the dump has no node either, but then no topic has the name without a number.
    had_none = (
        dump is not None and {source, whole} <= dump.lists.keys() and partitioned_path(whole) not in dump.settings.nodes
    )
    return number is not None and not had_none


def read_dumped(records: Records) -> DumpedCluster:
    """Parse a dump; reads it twice, as ledgers precede the lists that reference them.

    Raises the errors of `ledgerfs_cluster.snapshot.dump_file.read_dump`.
    """
    made = DumpedCluster()
    ledgers_path = "/ledgers"
    cursors: dict[str, tuple[str, str]] = {}
    for record in records():
        match record:
            case DumpHeader(_, path, began_ms):
                ledgers_path, made.began_ms = path, began_ms
            case Node(path):
                _take_node(made, record, cursors)
            case LedgerEndAnswer(ledger_id):
                made.ends[ledger_id] = record
            case CursorAnswer(path, entry, trouble) if path in cursors:
                name, subscription = cursors[path]
                of_topic = made.cursors[name]
                of_topic[subscription] = replace(of_topic[subscription], newest=entry, trouble=trouble)
            case TopicPoliciesAnswer(namespace):
                made.settings.topic_policies[namespace] = record
            case SchemaAnswer(name):
                made.settings.schemas.setdefault(name, []).append(record)
    wanted = {info.ledgers[-1].ledger_id for info in made.lists.values() if info.ledgers} - made.ends.keys()
    for record in records() if wanted else ():
        if isinstance(record, Node) and (last := ledger_id_at(record.path, ledgers_path)) in wanted:
            _take_ledger(made, record, last)
    return made


def _take_node(made: DumpedCluster, node: Node, cursors: dict[str, tuple[str, str]]) -> None:
    """Add one node; ``cursors`` gets {path: managed ledger and name} of subscriptions."""
    path = node.path
    if path.startswith("/admin/"):
        made.settings.nodes[path] = node.data
    elif path.startswith(f"{SCHEMAS}/"):
        # Folders of tenants and namespaces are nodes, too.
        if node.data:
            made.settings.locators[path.removeprefix(f"{SCHEMAS}/")] = node.data
    elif (name := managed_ledger_of(path)) is not None:
        try:
            made.lists[name] = parse_managed_ledger_info(node.data, key=path)
        except CorruptMetadataError as error:
            made.damaged[path] = error.reason
    elif (cursor := cursor_of(path)) is not None:
        cursors[path] = cursor
        made.cursors.setdefault(cursor[0], {})[cursor[1]] = DumpedCursor(node.data)


def _take_ledger(made: DumpedCluster, node: Node, ledger_id: int) -> None:
    """Add the node of a last ledger without an answer of bookies: it was closed, or bookies were not asked at all."""
    try:
        found = parse_ledger_node(node.data, ledger_id, key=node.path)
    except (CorruptObjectError, UnsupportedFormatError) as error:
        made.damaged[node.path] = error.reason
        return
    if found.is_closed:
        made.ends[ledger_id] = LedgerEndAnswer(ledger_id, LastEnd.CLOSED, found.last_entry + 1, found.length)


def partitioned_path(managed_ledger: str) -> str:
    """Return the path of a partitioned topic's node; ``managed_ledger`` has no partition number."""
    return f"{_ROOT}/{managed_ledger}"


def parse_partitions(data: bytes, *, key: str) -> int:
    """Return the number of partitions in a node's data, which may be 0; raises `CorruptMetadataError` for invalid data."""
    count = json_object(data, key=key).get("partitions")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 2**31:
        raise CorruptMetadataError(f"the number of partitions is invalid: {count!r}", key=key)
    return count

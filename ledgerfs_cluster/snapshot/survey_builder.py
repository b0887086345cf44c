"""Build a snapshot from nodes: ledgers first, then their possible owners, last the answers of bookies.

In this order the owner of a ledger is read after the ledger, so a ledger that is created meanwhile does not look like an orphan.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ledgerfs.errors import (
    CorruptMetadataError,
    CorruptObjectError,
    UnsupportedFormatError,
)
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.topic_names import decode_topic, topic_of
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState, ledger_id_at, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info, parse_position_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, cursor_of, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.formats.stored_schema import locator_path, parse_locator
from ledgerfs_cluster.snapshot.answers import Answer, CursorAnswer, LastEnd, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.bundles import BROKERS, NAMESPACES, BundleOwners
from ledgerfs_cluster.snapshot.cluster_names import CLUSTERS, GLOBAL
from ledgerfs_cluster.snapshot.managed_ledger_paths import list_of_ledgers
from ledgerfs_cluster.snapshot.policies import NamespacePolicies, json_object, parse_policies, policies_in
from ledgerfs_cluster.snapshot.survey import DamagedNode, Survey, namespaces_of_events
from ledgerfs_cluster.snapshot.tables import (
    CURSOR,
    DELAYED,
    FRAGMENT,
    LEDGER,
    LISTED,
    MEMBER,
    SCHEMA,
    TOPIC,
    GrowingTable,
    Interned,
    Table,
)
from ledgerfs_cluster.zookeeper.node import Node

POLICIES = "/admin/policies"
_COMPACTED = "CompactedTopicLedger"
_DELAYED = "#pulsar.internal.delayed.bucket"
_IN_LOCATORS = 2
"""Number of slashes in a locator's path: tenant, namespace, topic."""
_DIGITS = 19
"""Ids with fewer digits fit into a column."""
_MOST_HOLES, _MOST_ENTRIES = 2**31 - 1, 2**62
"""Limits of the columns; also for a topic's bytes."""


class SchemaPlace(NamedTuple):
    """Position of one version of a schema; ``name`` is the path of its locator below ``/schemas``."""

    name: str
    version: int
    ledger_id: int
    entry_id: int


class EventPlaces(NamedTuple):
    """Positions of a namespace's policy events: ordered ledger ids, and schemas; ``trouble`` is the reason if they are incomplete."""

    namespace: str
    topic: str
    compacted: list[int]
    ledger_ids: list[int]
    schemas: list[SchemaPlace]
    trouble: str | None


class SurveyBuilder:
    """Accepts nodes, each once, then answers of bookies; for one thread.

    Parameters
    ----------
    ledgers_path
        Root of BookKeeper's nodes.

    """

    def __init__(self, ledgers_path: str = "/ledgers") -> None:
        self._ledgers_path = ledgers_path
        self._ledgers, self._listed, self._topics = GrowingTable(LEDGER), GrowingTable(LISTED), GrowingTable(TOPIC)
        self._cursors, self._schemas = GrowingTable(CURSOR), GrowingTable(SCHEMA)
        self._topic_rows: dict[str, int] = {}
        self._last: dict[int, int] = {}
        self._cursor_rows: dict[str, tuple[int, int]] = {}
        self._words: Interned[str] = Interned()
        self._cursor_names: Interned[str] = Interned()
        # With many bookies nearly every ledger has its own ensemble.
        self._fragments, self._members = GrowingTable(FRAGMENT), GrowingTable(MEMBER)
        self._bookie_names: Interned[str] = Interned()
        self._drivers: Interned[tuple[str | None, tuple[tuple[str, str], ...]]] = Interned()
        self._policies: dict[str, NamespacePolicies] = {}
        self._topic_policies: dict[str, NamespacePolicies] = {}
        self._namespaces_read: set[str] = set()
        self._owners = BundleOwners()
        self._bookies: set[str] = set()
        self._clusters: set[str] = set()
        self._neighbours: set[str] = set()
        self._delayed = GrowingTable(DELAYED)
        self._damaged: list[DamagedNode] = []
        self._damaged_ledgers: set[int] = set()
        self._troubles: list[str] = []

    def take(self, record: Node | Answer | SchemaAnswer) -> None:
        """Add a node of any kind, or an answer; ignores answers about schemas."""
        if not isinstance(record, Node):
            if not isinstance(record, SchemaAnswer):
                self._take_answer(record)
            return
        try:
            self._take_node(record)
        except (CorruptObjectError, UnsupportedFormatError) as error:
            self._damaged.append(DamagedNode(record.path, error.reason))
            ledger_id = ledger_id_at(record.path, self._ledgers_path)
            if ledger_id is not None:
                self._damaged_ledgers.add(ledger_id)

    def open_ledgers(self) -> list[int]:
        """Return the last ledgers of topics that were open when the nodes of ledgers were read."""
        closed = set(self._closed_last(_sorted(self._ledgers.table(), "ledger_id"))[1]["ledger_id"].tolist())
        return [ledger_id for ledger_id in self._last if ledger_id not in closed]

    def unread_ledgers(self) -> list[int]:
        """Return the ids of ledgers that lists, subscriptions and schemas reference and whose nodes were not added, ascending.

        Without ledgers that a list marks as deleted from BookKeeper.
        """
        listed, cursors = self._listed.table(), self._cursors.table()
        named = [
            listed["ledger_id"][~listed["is_deleted_from_bookkeeper"]],
            *(cursors["cursors_ledger"], cursors["compacted_ledger"]),
            *(self._schemas.table()["ledger_id"], self._delayed.table()["ledger_id"]),
        ]
        lacking = np.setdiff1d(np.concatenate(named), self._ledgers.table()["ledger_id"])
        return [one for one in lacking.tolist() if one >= 0 and one not in self._damaged_ledgers]

    def stale_cursors(self) -> list[tuple[str, int]]:
        """Return the paths of cursors whose state is in a ledger, and these ledgers."""
        return [(path, ledger_id) for path, (_, ledger_id) in self._cursor_rows.items()]

    def event_places(self) -> Iterator[EventPlaces]:
        """Yield the positions of these namespaces' events; needs the answers about cursor states first."""
        topics, listed, schemas = self._topics.table(), self._listed.table(), self._schemas.table()
        names: dict[str, list[str]] = {}
        for name in self._topic_rows:
            for namespace in namespaces_of_events([name]):
                names.setdefault(namespace, []).append(name)
        compacted = self._compacted_topics() if names else {}
        for namespace, of_namespace in names.items():
            ids: list[int] = []
            before: list[int | None] = []
            for row in (self._topic_rows[name] for name in of_namespace):
                first = int(topics["first"][row])
                ids += listed["ledger_id"][first : first + int(topics["ledgers"][row])].tolist()
                before.append(compacted.get(row, -1))
            trouble = "it is unknown whether its events are in a compacted ledger" if None in before else None
            topic = topic_of(of_namespace[0])
            path = locator_path(topic).removeprefix(f"{SCHEMAS}/")
            rows = schemas[schemas["name"] == self._words.row_of(path)]
            places = [SchemaPlace(path, *one) for one in rows[["version", "ledger_id", "entry_id"]].tolist()]
            yield EventPlaces(
                namespace, topic, [one for one in before if one is not None and one >= 0], ids, places, trouble
            )

    def schema_places(self) -> Iterator[SchemaPlace]:
        """Yield the position of each version of each schema, in the order of locators."""
        for name, version, ledger_id, entry_id, _ in map(tuple, self._schemas.table()):
            yield SchemaPlace(self._words.values[name], int(version), int(ledger_id), int(entry_id))

    def _compacted_topics(self) -> dict[int, int | None]:
        """Return {row of a topic with a compacted ledger: that ledger, None if unknown}."""
        cursors = self._cursors.table()
        rows = cursors[cursors["name"] == self._cursor_names.row_of(COMPACTION)]
        return {int(one["topic"]): None if one["is_stale"] else int(one["compacted_ledger"]) for one in rows}

    def _take_answer(self, answer: Answer) -> None:
        if answer.trouble is not None:
            self._troubles.append(answer.trouble)
        if isinstance(answer, TopicPoliciesAnswer):
            self._take_topic_policies(answer)
        elif isinstance(answer, CursorAnswer):
            self._take_cursor_state(answer)
        elif answer.ledger_id in self._last and answer.end is not LastEnd.UNKNOWN:
            end = answer.end, answer.entries, answer.size
            self._topics.table()[["last_end", "last_entries", "last_size"]][self._last[answer.ledger_id]] = end

    def _take_cursor_state(self, answer: CursorAnswer) -> None:
        if answer.entry is None or answer.path not in self._cursor_rows:
            return
        try:
            state = parse_position_info(answer.entry, key=answer.path)
        except CorruptObjectError as error:
            self._damaged.append(DamagedNode(answer.path, error.reason))
            return
        row, cursors = self._cursor_rows[answer.path][0], self._cursors.table()
        cursors[["mark_ledger", "mark_entry", "holes", "hole_entries"]][row] = _position_columns(state)
        cursors["compacted_ledger"][row] = dict(state.properties).get(_COMPACTED, cursors["compacted_ledger"][row])
        cursors["is_stale"][row] = False

    def survey(self, source: str, read_ms: int, began_ms: int = 0) -> Survey:
        """Return the snapshot of everything that was added so far."""
        ledgers = _sorted(self._ledgers.table(), "ledger_id")
        topics, cursors = self._topics_with_ends(ledgers), _sorted(self._cursors.table(), "topic")
        places = np.searchsorted(np.ascontiguousarray(cursors["topic"]), np.arange(topics.size + 1))
        topics["first_cursor"], topics["cursors"] = places[:-1], np.diff(places)
        return Survey(
            source=source,
            read_ms=read_ms,
            topics=list(self._topic_rows),
            topic_table=topics,
            listed=self._listed.table(),
            cursors=cursors,
            cursor_names=self._cursor_names.values,
            ledgers=ledgers,
            schemas=self._schemas.table(),
            words=self._words.values,
            fragments=_sorted(self._fragments.table(), "ledger_id"),
            members=self._members.table(),
            bookie_names=self._bookie_names.values,
            drivers=self._drivers.values,
            policies=self._policies,
            topic_policies=self._topic_policies,
            namespaces_read=frozenset(self._namespaces_read),
            owners=self._owners,
            damaged=self._damaged,
            troubles=self._troubles,
            began_ms=began_ms,
            delayed=self._delayed.table(),
            bookies=frozenset(self._bookies),
            clusters=frozenset(self._clusters),
            damaged_ledgers=frozenset(self._damaged_ledgers),
            ledgers_path=self._ledgers_path,
            neighbours=tuple(sorted(self._neighbours)),
        )

    def _take_node(self, node: Node) -> None:
        path = node.path
        if path.startswith(f"{self._ledgers_path}/"):
            self._take_ledger(node)
        elif path.startswith(f"{MANAGED_LEDGERS}/"):
            self._take_managed(node)
        elif path.startswith(f"{SCHEMAS}/"):
            self._take_schema(node)
        elif path.startswith(f"{POLICIES}/"):
            self._take_policies(node)
        elif path.startswith(f"{NAMESPACES}/"):
            self._owners.own(path)
        elif path.startswith(f"{BROKERS}/"):
            manager = json_object(node.data, key=path).get("loadManagerClassName")
            self._owners.load_managers[path.removeprefix(f"{BROKERS}/")] = str(manager)
        elif path.startswith(f"{CLUSTERS}/"):
            # Below a cluster are its failure domains.
            self._clusters |= {path.removeprefix(f"{CLUSTERS}/").partition("/")[0]} - {GLOBAL}
        elif path.endswith(MANAGED_LEDGERS):
            self._neighbours.add(path.removesuffix(MANAGED_LEDGERS))

    def _take_ledger(self, node: Node) -> None:
        ledger_id = ledger_id_at(node.path, self._ledgers_path)
        if ledger_id is None:
            self._take_bookie(node)
            return
        one = parse_ledger_node(node.data, ledger_id, key=node.path)
        words = self._words
        self._ledgers.append(
            (
                *(ledger_id, one.state, one.length, one.last_entry, node.created_ms, node.changed_ms, node.version),
                one.write_quorum,
                words.row_of(one.application),
                words.row_of(one.component),
                words.row_of(one.owner),
                words.row_of(_decoded(one.reported("pulsar/cursor"))),
            )
        )
        for part in one.ensembles:
            self._fragments.append((ledger_id, part.first_entry, len(self._members), len(part.bookies)))
            self._members.extend([(self._bookie_names.row_of(bookie),) for bookie in part.bookies])

    def _take_bookie(self, node: Node) -> None:
        """Add an available bookie; nodes contain names as in ensembles."""
        folder, _, name = node.path.rpartition("/")
        available = f"{self._ledgers_path}/available"
        if folder in {available, f"{available}/readonly"} and name != "readonly":
            self._bookies.add(name)

    def _take_managed(self, node: Node) -> None:
        name = managed_ledger_of(node.path)
        if name is not None:
            self._take_topic(name, node)
            return
        cursor = cursor_of(node.path)
        if cursor is not None:
            self._take_cursor(*cursor, node)

    def _take_topic(self, name: str, node: Node) -> None:
        info = list_of_ledgers(node)
        if name in self._topic_rows:
            raise CorruptMetadataError("the topic occurs twice", key=node.path)
        row = self._topic_rows[name] = len(self._topic_rows)
        first = len(self._listed)
        self._listed.extend(self._listed_row(row, one) for one in info.ledgers)
        end = LastEnd.LISTED
        if info.ledgers:
            last = info.ledgers[-1]
            self._last[last.ledger_id] = row
            if not (last.entries or last.is_offloaded):
                end = LastEnd.UNKNOWN
        terminated = -1 if info.terminated is None else info.terminated.ledger_id
        times = node.created_ms, node.changed_ms
        self._topics.append((first, len(info.ledgers), node.version, *times, terminated, end, 0, 0, 0, 0))

    def _listed_row(self, topic: int, one: LedgerInfo) -> tuple[Any, ...]:
        context = one.context
        if context is None:
            return (topic, one.ledger_id, one.entries, one.size, one.closed_ms, False, False, False, 0, 0, 0, -1)
        high, low = (0, 0) if context.uuid is None else uuid_halves(context.uuid)
        return (
            *(topic, one.ledger_id, one.entries, one.size, one.closed_ms),
            *(True, context.is_complete, context.is_deleted_from_bookkeeper, context.offloaded_ms or 0, high, low),
            self._drivers.row_of((context.driver, context.properties)),
        )

    def _take_cursor(self, topic: str, name: str, node: Node) -> None:
        row = self._topic_rows.get(topic)
        if row is None:
            # The topic's own node is reported as damaged, or was deleted meanwhile.
            return
        info = parse_cursor_info(node.data, key=node.path)
        number = self._cursor_names.row_of(name)
        self._delayed.extend((row, number, one, node.changed_ms) for one in _delayed_ledgers(info, node.path))
        if not info.is_in_the_node:
            self._cursor_rows[node.path] = (len(self._cursors), info.cursors_ledger)
        self._cursors.append(
            (
                *(row, number, *_position_columns(info)),
                *(info.last_active_ms or 0, node.changed_ms, info.cursors_ledger, dict(info.properties).get(_COMPACTED, -1)),
                not info.is_in_the_node,
            )
        )  # fmt: skip

    def _take_schema(self, node: Node) -> None:
        path = node.path.removeprefix(f"{SCHEMAS}/")
        if not node.data and (node.children or path.count("/") != _IN_LOCATORS):
            # A folder of a tenant or a namespace.
            return
        name = self._words.row_of(path)
        for one in parse_locator(node.data, key=node.path):
            self._schemas.append((name, one.version, *one.position, node.changed_ms))

    def _take_policies(self, node: Node) -> None:
        namespace = node.path.removeprefix(f"{POLICIES}/")
        # Parents of namespaces are tenants, and in V1 names clusters: they contain no data.
        if "/" in namespace and (node.data or not node.children):
            self._policies[namespace] = parse_policies(node.data, key=node.path)

    def _take_topic_policies(self, answer: TopicPoliciesAnswer) -> None:
        if answer.trouble is not None:
            return
        try:
            self._topic_policies |= policies_in(answer)
        except CorruptMetadataError as error:
            self._damaged.append(DamagedNode(f"__change_events of {answer.namespace}", error.reason))
        else:
            self._namespaces_read.add(answer.namespace)

    def _topics_with_ends(self, ledgers: Table) -> Table:
        """Return the topics with the ends of their last ledgers: from bookies, else from BookKeeper's nodes read before."""
        topics = self._topics.table()
        rows, found = self._closed_last(ledgers)
        is_unknown = np.isin(topics["last_end"][rows], (LastEnd.UNKNOWN, LastEnd.LISTED))
        rows, found = rows[is_unknown], found[is_unknown]
        topics["last_end"][rows] = LastEnd.CLOSED
        topics["last_entries"][rows] = found["last_entry"] + 1
        topics["last_size"][rows] = found["length"]
        return topics

    def _closed_last(self, ledgers: Table) -> tuple[Int64, Table]:
        """Return the rows of topics with a closed last ledger, and the ledgers' nodes."""
        rows = np.fromiter(self._last.values(), np.int64, len(self._last))
        ids = np.fromiter(self._last, np.int64, len(self._last))
        if not ledgers.size:
            return rows[:0], ledgers
        places = np.searchsorted(ledgers["ledger_id"], ids)
        found = ledgers[np.minimum(places, ledgers.size - 1)]
        is_closed = (found["ledger_id"] == ids) & (found["state"] == LedgerState.CLOSED)
        return rows[is_closed], found[is_closed]


def _delayed_ledgers(info: CursorInfo, key: str) -> list[int]:
    """Return the ledgers of a subscription's delayed messages; raises `CorruptMetadataError` for invalid ids."""
    values = [value for name, value in info.cursor_properties if name.startswith(_DELAYED)]
    for one in values:
        if not (one.isascii() and one.isdigit() and len(one) < _DIGITS):
            raise CorruptMetadataError(f"the ledger id of a delayed-message bucket is invalid: {one[:40]!r}", key=key)
    return [int(one) for one in values]


def _position_columns(info: CursorInfo) -> tuple[int, int, int, int]:
    """Return ledger and entry of the mark-delete position, the number of acknowledged ranges, and of entries in them."""
    mark = info.mark_delete or (-1, -1)
    holes = entries = 0
    for lower, upper in info.acknowledged_ranges():
        holes += 1
        # A range that begins in an earlier ledger has no entries there: brokers keep ranges by ledger.
        entries += upper.entry_id - (lower.entry_id if lower.ledger_id == upper.ledger_id else -1)
    return (*mark, min(holes, _MOST_HOLES), min(entries, _MOST_ENTRIES))


def _decoded(cursor: str | None) -> str | None:
    """Return a subscription's decoded name; brokers encode it in a cursor's ledgers and paths."""
    return None if cursor is None else decode_topic(cursor)


def _sorted(table: Table, column: str) -> Table:
    values = table[column]
    if values.size > 1 and (values[1:] < values[:-1]).any():
        return table[np.argsort(values, kind="stable")]
    return table

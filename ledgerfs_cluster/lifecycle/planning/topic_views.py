"""One topic of a snapshot with its rule: its list, its ledgers in BookKeeper, and the programs that may work on it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind, Plan, Reason, Refusal
from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, Via
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule, TopicRules, url_of
from ledgerfs_cluster.rules.ownership import is_in
from ledgerfs_cluster.rules.tiered_objects import pair_keys
from ledgerfs_cluster.snapshot.bundles import BROKERS, Owner, namespace_of
from ledgerfs_cluster.snapshot.survey import Survey, TopicLedgers, is_of_brokers, is_system_topic
from ledgerfs_cluster.snapshot.tables import LISTED, Table


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic with ledgers.

    Attributes
    ----------
    row, name
        Row of the snapshot, and the managed ledger.
    rule
        The topic's rule.
    ledgers, listed
        By ascending id; rows of `LISTED`.
    nodes, is_there
        The ledgers' own nodes, rows of `LEDGER`, and which of them exist; the others have rows of another ledger. Shape (ledgers,).
    owner
        Whether a broker owns it.
    are_policies_known
        Whether all of the cluster's policies for it were read.
    is_terminated, is_of_brokers, is_being_deleted
        Whether publishing has ended; whether it is a system topic of brokers; whether its namespace is being deleted.

    """

    row: int
    name: str
    rule: TopicRule
    ledgers: TopicLedgers
    listed: Table
    nodes: Table
    is_there: Mask
    owner: Owner
    are_policies_known: bool
    is_terminated: bool
    is_of_brokers: bool
    is_being_deleted: bool

    @property
    def greatest(self) -> int:
        """The ledger id that is never offloaded."""
        return int(self.ledgers.ids[-1])

    def ids(self, rows: Iterator[int] | list[int] | Int64) -> tuple[int, ...]:
        """Return the ids of ledgers."""
        return tuple(int(self.ledgers.ids[row]) for row in rows)

    def size(self, rows: list[int] | Int64) -> int:
        """Return the bytes of ledgers."""
        return int(self.ledgers.sizes[rows].sum()) if len(rows) else 0


def refuse(plan: Plan, kind: ActionKind, topic: TopicView, reason: Reason, rows: list[int]) -> None:
    """Refuse an action on rows of a topic."""
    plan.refuse(kind, topic.name, reason, topic.ids(rows), topic.size(rows))


class ClusterView:
    """Values that all topics of a snapshot share.

    Attributes
    ----------
    survey
        The snapshot.
    damaged_lists
        Managed ledgers whose lists could not be read.
    is_owner_unreadable
        Whether the node of a broker could not be read, so that owners are unknown.

    """

    def __init__(self, survey: Survey, file: PolicyFile) -> None:
        self.survey = survey
        offloads = (OffloadContext(None, True, False, None, *one) for one in survey.drivers)
        self._urls = [url_of(file, one) for one in offloads]
        self._rules = TopicRules(file, survey)
        self._rows = {name: row for row, name in enumerate(survey.topics)}
        self._not_read = survey.namespaces_not_read()
        paths = [one.path for one in survey.damaged]
        self.damaged_lists = frozenset(filter(None, map(managed_ledger_of, paths)))
        self.is_owner_unreadable = any(path.startswith(f"{BROKERS}/") for path in paths)
        # A table's column is strided, and each search would copy all of it.
        self._node_ids: Int64 = np.ascontiguousarray(survey.ledgers["ledger_id"])
        self._offloads = np.unique(pair_keys(survey.listed[survey.listed["has_context"]]))
        ids, counts = np.unique(survey.listed["ledger_id"], return_counts=True)
        self._shared = frozenset(ids[counts > 1].tolist())

    def has_its_offloads_at(self, managed_ledger: str, url: str) -> bool:
        """Return whether a topic is offloaded to a bucket: by its rule, by the cluster's policies, or by a ledger in its list."""
        row = self._rows.get(managed_ledger)
        if row is None:
            return False
        rule = self._rules.of(managed_ledger)
        urls = {one.url for one in (rule.bucket, rule.brokers_bucket) if one is not None}
        first, count = self.survey.topic_table[["first", "ledgers"]][row].tolist()
        drivers = set(self.survey.listed["driver"][first : first + count].tolist())
        urls.update(self._urls[one] or "" for one in drivers if one >= 0)
        return any(one.rstrip("/") == url.rstrip("/") for one in urls)

    def rule_of(self, managed_ledger: str) -> TopicRule:
        """Return the rule of a topic, also of one that the cluster lacks."""
        return self._rules.of(managed_ledger)

    def list_of(self, managed_ledger: str) -> tuple[Table, int] | None:
        """Return the rows of a topic's list, by id, and its creation, ms since 1970 UTC; None without a list that has ledgers."""
        row = self._rows.get(managed_ledger)
        reported = None if row is None else self.survey.topic_table[row]
        if reported is None or not reported["ledgers"]:
            return None
        first = int(reported["first"])
        return self.survey.listed[first : first + int(reported["ledgers"])], int(reported["created_ms"])

    def newest_compacted(self, managed_ledger: str) -> int:
        """Return the newest compacted ledger that a topic's cursors name; -1 if they name none."""
        row = self._rows.get(managed_ledger)
        named = self.survey.cursors_of(row)["compacted_ledger"] if row is not None else np.zeros(0, np.int64)
        return int(named.max(initial=-1))

    def newest_schema(self, name: str) -> int:
        """Return the greatest ledger id in the locator of a schema, by its path below /schemas; -1 without one."""
        if name not in self.survey.words:
            return -1
        schemas = self.survey.schemas
        return int(schemas["ledger_id"][schemas["name"] == self.survey.words.index(name)].max(initial=-1))

    def has_closed(self, ledger_id: int) -> bool:
        """Return whether BookKeeper has a ledger, closed."""
        nodes = self.survey.ledgers
        row = int(np.searchsorted(nodes["ledger_id"], ledger_id))
        is_there = row < nodes.size and nodes["ledger_id"][row] == ledger_id
        return bool(is_there and nodes["state"][row] == LedgerState.CLOSED)

    def is_shared(self, ledger_id: int) -> bool:
        """Return whether several lists name a ledger."""
        return ledger_id in self._shared

    def names_offload(self, ledger_id: int, uuid: str) -> bool:
        """Return whether a list names an offload, complete or not."""
        row, digits = np.zeros(1, LISTED), uuid.replace("-", "")
        row["ledger_id"], row["uuid_high"], row["uuid_low"] = ledger_id, int(digits[:16], 16), int(digits[16:], 16)
        key = pair_keys(row)
        place = int(np.searchsorted(self._offloads, key)[0])
        return place < self._offloads.size and bool(self._offloads[place] == key[0])

    def topics(self) -> Iterator[TopicView]:
        """Yield every topic with ledgers, in the order of the snapshot."""
        for row, name in enumerate(self.survey.topics):
            found = self._view(row, name)
            if found is not None:
                yield found

    def topic(self, managed_ledger: str) -> TopicView | None:
        """Return one topic; None if there is none of this name, or it has no ledgers."""
        row = self._rows.get(managed_ledger)
        return None if row is None else self._view(row, managed_ledger)

    def _view(self, row: int, name: str) -> TopicView | None:
        survey = self.survey
        nodes, ledgers = survey.ledgers, survey.ledgers_of(row)
        if not ledgers.ids.size:
            return None
        places = np.searchsorted(self._node_ids, ledgers.ids)
        is_there = is_in(ledgers.ids, self._node_ids)
        first = int(survey.topic_table["first"][row])
        namespace = namespace_of(name)
        return TopicView(
            row,
            name,
            self._rules.of(name),
            ledgers,
            survey.listed[first : first + ledgers.ids.size],
            nodes[np.minimum(places, nodes.size - 1)] if nodes.size else np.zeros(ledgers.ids.size, nodes.dtype),
            is_there,
            survey.owners.of(name),
            namespace in survey.policies and (namespace not in self._not_read or is_system_topic(name)),
            survey.is_terminated(row),
            is_of_brokers(name),
            survey.policies_of(name).is_deleted,
        )


Route = Via | Reason
"""`Via.BROKER`, `Via.DIRECT`, or the reason against both."""


def route_of(cluster: ClusterView, topic: TopicView, *, has_admin: bool) -> Route:
    """Return whether a broker or this program offloads a topic, or the reason against both."""
    if topic.is_of_brokers:
        return Reason(Refusal.SYSTEM_TOPIC, "it is a system topic of the brokers")
    if topic.is_being_deleted:
        return Reason(Refusal.BEING_DELETED, "its namespace is being deleted")
    via = topic.rule.via
    # With the extensible load manager a topic without a broker looks like one that a broker is just taking.
    is_a_brokers = topic.owner is Owner.SOME or not cluster.survey.owners.are_in_zookeeper
    if via is Via.BROKER or (via is Via.AUTO and is_a_brokers):
        if has_admin:
            return Via.BROKER
        whose = 'via = "broker"' if via is Via.BROKER else "a broker owns or may own its bundle"
        return Reason(
            Refusal.NO_ADMIN,
            f"{whose}, so a broker has to do the work, but its address is missing: set admin in the policy file, or pass --admin",
        )
    return why_not_free(cluster, topic) or Via.DIRECT


def why_not_free(cluster: ClusterView, topic: TopicView) -> Reason | None:
    """Return the reason not to set a topic's list without its broker; None if it may be set."""
    if topic.owner is Owner.SOME:
        return Reason(Refusal.OWNED, "a broker owns its bundle and may have loaded the topic")
    owners = cluster.survey.owners
    if cluster.is_owner_unreadable:
        return Reason(
            Refusal.UNKNOWN_OWNER,
            "it is unknown whether a broker owns it: the ZooKeeper node of a broker could not be read",
        )
    if not owners.are_in_zookeeper:
        reason = (
            "the extensible load manager does not record owners in ZooKeeper, so a broker may load the topic at any time; "
            'set via = "broker"'
        )
        return Reason(Refusal.LOAD_MANAGER, reason)
    return None

"""Surveys without servers: nodes as a broker leaves them, taken one after the other. What is not said is healthy, closed and unloaded."""

import json
from collections.abc import Sequence
from uuid import UUID

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import Ensemble, LedgerNode, LedgerState, ledger_path
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_of, managed_ledger_path
from ledgerfs_cluster.formats.stored_schema import StoredVersion
from ledgerfs_cluster.snapshot.answers import CursorAnswer, LastEnd, LedgerEndAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.survey_builder import SurveyBuilder
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.encoders import build_ledger_node, build_locator

NOW = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
WHOLE = "0x00000000_0xffffffff"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
VERSION = 3
"""Of each ledger's node."""


def uuid_of(number: int) -> str:
    """Return the uuid of the offload of a ledger."""
    return str(UUID(int=(number + 1) << 64 | 7))


def listed(
    ledger_id: int,
    age_ms: int = DAY,
    *,
    size: int = 1000,
    entries: int = 10,
    offloaded_ms: int | None = None,
    is_complete: bool = True,
    is_deleted: bool = False,
    bucket: str = "tier",
    endpoint: str = "",
) -> LedgerInfo:
    """Return a closed line of a list; with ``offloaded_ms``, how long ago its offload was complete, or was begun."""
    context = None
    if offloaded_ms is not None:
        properties = (("bucket", bucket), ("serviceEndpoint", endpoint))
        context = OffloadContext(
            uuid_of(ledger_id),
            is_complete,
            is_deleted,
            NOW - offloaded_ms,
            "aws-s3",
            properties if endpoint else properties[:1],
        )
    return LedgerInfo(ledger_id, entries, size, NOW - age_ms, context)


def current(ledger_id: int) -> LedgerInfo:
    """Return the line of the last ledger, which has no end in the list."""
    return LedgerInfo(ledger_id, 0, 0, 0)


class MadeCluster:
    """Nodes of a cluster; `survey` makes one of them."""

    def __init__(self) -> None:
        self.ledgers: list[Node] = []
        self.nodes: list[Node] = []
        # Paths of policies that are not in this ZooKeeper.
        self.without_policies: set[str] = set()
        self.answers: list[CursorAnswer | LedgerEndAnswer | TopicPoliciesAnswer] = []

    def add(self, path: str, data: bytes, *, age_ms: int = DAY) -> None:
        self.nodes.append(Node(path, data, NOW - age_ms, NOW - age_ms, VERSION, 0))

    def ledger(
        self,
        ledger_id: int,
        owner: str,
        *,
        entries: int = 10,
        size: int = 1000,
        state: LedgerState = LedgerState.CLOSED,
        component: str = "managed-ledger",
        version: int = VERSION,
        age_ms: int = DAY,
    ) -> None:
        """Add the node of a ledger."""
        is_closed = state == LedgerState.CLOSED
        key = {"managed-ledger": "pulsar/managed-ledger", "schema": "pulsar/schemaId"}[component]
        node = LedgerNode(
            *(
                ledger_id,
                state,
                3,
                2,
                2,
                size if is_closed else 0,
                entries - 1 if is_closed else -1,
                Digest(DigestType.CRC32C),
            ),
            (Ensemble(0, ("a:1", "b:1", "c:1")),),
            (("application", b"pulsar"), ("component", component.encode()), (key, owner.encode())),
        )
        self.ledgers.append(
            Node(ledger_path(ledger_id), build_ledger_node(node), NOW - age_ms, NOW - age_ms, version, 0)
        )

    def topic(
        self,
        name: str,
        lines: Sequence[LedgerInfo],
        *,
        absent: Sequence[int] = (),
        there: Sequence[int] = (),
        is_terminated: bool = False,
        age_ms: int = DAY,
        last: LastEnd = LastEnd.OPEN,
    ) -> None:
        """Add a topic and its ledgers, without the nodes of those that are ``absent``, or called deleted and not ``there``."""
        for one in lines:
            is_gone = one.context is not None and one.context.is_deleted_from_bookkeeper
            if one.ledger_id not in absent and (not is_gone or one.ledger_id in there):
                state = LedgerState.CLOSED if one.closed_ms else LedgerState.OPEN
                self.ledger(one.ledger_id, name, entries=one.entries, size=one.size, state=state)
        end = Position(lines[-1].ledger_id, 9) if is_terminated else None
        # Lists are not sorted.
        info = ManagedLedgerInfo((*lines[1:], lines[0]), terminated=end)
        self.add(managed_ledger_path(name), build_managed_ledger_info(info), age_ms=age_ms)
        if not lines[-1].closed_ms and last is not LastEnd.UNKNOWN:
            self.answers.append(LedgerEndAnswer(lines[-1].ledger_id, last, 5, 500))

    def cursor(self, name: str, cursor: str, mark: tuple[int, int], *, ledger: int = IN_THE_NODE) -> None:
        """Add a subscription; with ``ledger`` its state is there."""
        self.add(cursor_path(name, cursor), build_cursor_info(CursorInfo(ledger, Position(*mark))))

    def compaction(self, name: str, ledger_id: int) -> None:
        """Add the subscription of a topic's compaction, which names a compacted ledger; -1 for none."""
        reported = () if ledger_id < 0 else (("CompactedTopicLedger", ledger_id),)
        self.add(
            cursor_path(name, "__compaction"),
            build_cursor_info(CursorInfo(IN_THE_NODE, Position(1, 9), properties=reported)),
        )

    def schema(self, name: str, ledger_id: int) -> None:
        """Add a schema, and its locator, by tenant/namespace/topic."""
        version = StoredVersion(0, (ledger_id, 0), b"hash")
        self.add(f"/schemas/{name}", build_locator([version]))

    def policies(self, namespace: str, **policies: object) -> None:
        """Add the policies of a namespace."""
        self.add(f"/admin/policies/{namespace}", json.dumps(policies).encode())

    def retention(self, namespace: str, minutes: int, megabytes: int = -1) -> None:
        """Add the retention of a namespace."""
        self.policies(namespace, retention_policies={"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes})

    def own(self, namespace: str) -> None:
        """Have a broker own all topics of a namespace."""
        self.add(f"/namespace/{namespace}/{WHOLE}", b"{}")

    def broker(self, manager: str = MODULAR) -> None:
        """Add a broker."""
        self.add("/loadbalance/brokers/b:8080", json.dumps({"loadManagerClassName": manager}).encode())

    def survey(self) -> Survey:
        """Return a survey of all nodes."""
        builder = SurveyBuilder()
        for node in (*self.ledgers, *self.nodes, *self._namespaces()):
            builder.take(node)
        for answer in self.answers:
            builder.take(answer)
        return builder.survey("made", NOW, NOW - MINUTE)

    def _namespaces(self) -> list[Node]:
        """Return the nodes of namespaces with topics of which nothing was added: each has one, and nothing is set."""
        there = {one.path for one in self.nodes} | self.without_policies
        topics = filter(None, (managed_ledger_of(one.path) for one in self.nodes))
        paths = {f"/admin/policies/{namespace_of(one)}" for one in topics} - there
        return [Node(path, b"{}", NOW - DAY, NOW - DAY, 0, 0) for path in sorted(paths)]

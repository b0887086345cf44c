"""Surveys of clusters of ours: what is in them, what is damaged, and what bookies have to tell."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import AccessDeniedError, BucketNotFoundError, UnsupportedFormatError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_id_at
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.rules.cursors import backlog_of, cursors
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.policies import BrokerDefaults, Retention
from ledgerfs_cluster.snapshot.survey import TopicLedgers, is_of_brokers, is_system_topic
from ledgerfs_cluster.snapshot.survey_builder import SurveyBuilder
from ledgerfs_cluster.snapshot.surveying import survey_cluster
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import surveyed
from tests.cluster.support.retained import Retained, retained
from tests.cluster.support.sessions import PATIENT_S
from tests.support.each import for_each

TOPIC = "persistent://public/default/orders"
NAME = managed_ledger_of(TOPIC)
MODULAR = b'{"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"}'
ALL_GOES = BrokerDefaults(Retention())


def going(cluster: LiveCluster) -> dict[str, Retained]:
    return retained(surveyed(cluster), ALL_GOES)


def test_a_survey_has_all_that_nodes_tell(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(10), created_ms=5)
    second = cluster.write_ledger(TOPIC, messages(3))
    uuid = cluster.offload(TOPIC, first)
    cluster.add_cursor(TOPIC, "a sub", (first, 4), holes=[(Position(first, 5), Position(first, 7))], last_active_ms=77)
    cluster.add_schema(TOPIC, SchemaInfo("STRING", b"", {}))
    cluster.set_policies("public/default", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": 2})
    found = surveyed(cluster)
    assert found.topics == [NAME]
    assert found.listed["ledger_id"].tolist() == [first, second]
    assert found.listed["is_complete"].tolist() == [True, False]
    digits = f"{int(found.listed['uuid_high'][0]):016x}{int(found.listed['uuid_low'][0]):016x}"
    assert digits == uuid.replace("-", "")
    assert found.ledgers["ledger_id"].tolist() == sorted(cluster.written)
    row = found.ledgers[0]
    assert (row["ledger_id"], row["created_ms"], row["last_entry"], row["write_quorum"]) == (first, 5, 9, 2)
    assert found.words[row["owner"]] == NAME
    assert found.words[row["component"]] == "managed-ledger"
    (fragment,) = found.fragments[found.fragments["ledger_id"] == first]
    members = found.members["bookie"][int(fragment["first_member"]) :][: int(fragment["size"])]
    ensemble = tuple(found.bookie_names[bookie] for bookie in members)
    assert (fragment["first_entry"], ensemble) == (0, cluster.written[first].node.ensembles[0].bookies)
    cursor = found.cursors_of(0)[0]
    assert found.cursor_names[cursor["name"]] == "a sub"
    assert (cursor["mark_ledger"], cursor["mark_entry"], cursor["holes"], cursor["hole_entries"]) == (first, 4, 1, 2)
    assert (cursor["last_active_ms"], bool(cursor["is_stale"])) == (77, False)
    assert found.schemas["version"].tolist() == [0]
    assert found.policies["public/default"].retention == Retention.of(1, 2)
    assert (found.damaged, found.troubles) == ([], [])


@pytest.mark.parametrize("rest", ["/x", ""])
def test_a_v1_namespace_of_the_name_of_the_domain_is_refused(cluster: LiveCluster, rest: str) -> None:
    """Its topics are where cursors of a topic ``persistent`` would be, which is read as any other."""
    ledger = cluster.write_ledger(f"persistent://t/c/persistent{rest}", messages(3))
    cluster.add_cursor(f"persistent://t/c/persistent{rest}", "s", (ledger, 1))
    if rest:
        with pytest.raises(UnsupportedFormatError, match="a namespace of Pulsar 1"):
            surveyed(cluster)
    else:
        assert surveyed(cluster).cursors["mark_entry"].tolist() == [1]


def test_open_ledgers_end_where_bookies_say(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(10))
    cluster.write_ledger(TOPIC, messages(7))
    found = surveyed(cluster)
    assert found.ledgers_of(0).last_end is LastEnd.OPEN
    assert found.ledgers_of(0).entries.tolist() == [10, 7]
    assert found.ledgers_of(0).sizes.tolist() == [sum(map(len, messages(10))), sum(map(len, messages(7)))]
    unknown = surveyed(cluster, bookies=False).ledgers_of(0)
    assert (unknown.last_end, unknown.entries.tolist()) == (LastEnd.UNKNOWN, [10, 0])


def test_an_empty_range_of_acknowledged_entries_is_none(cluster: LiveCluster) -> None:
    """Also behind the last id that there is, where no entry can begin."""
    first = cluster.write_ledger(TOPIC, messages(10))
    end = Position(first, 2**63 - 1)
    cluster.add_cursor(TOPIC, "s", (first, 1), holes=[(end, end), (Position(first, 4), Position(first, 6))])
    found = surveyed(cluster)
    assert found.damaged == []
    assert found.cursors["hole_entries"].tolist() == [2]


def test_a_dead_bookie_leaves_an_end_unknown_and_says_so(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(10))
    cluster.write_ledger(TOPIC, messages(7))
    for bookie in cluster.bookies:
        bookie.kill()
    found = surveyed(cluster)
    assert len(found.troubles) == 1
    (one,) = retained(found, ALL_GOES).values()
    assert (one.ledger_ids, one.ledgers.last_end) == ([first], LastEnd.UNKNOWN)


def test_stale_cursors_are_where_their_ledgers_say(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(10))
    second = cluster.write_ledger(TOPIC, messages(10))
    for name in ("open", "closed"):
        own = cluster.add_cursor(
            TOPIC, name, (second, 3), stale=(first, 1), holes=[(Position(second, 5), Position(second, 6))]
        )
        if name == "closed":
            cluster.close(own)
    found = surveyed(cluster)
    rows = found.cursors_of(0)
    assert rows["mark_ledger"].tolist() == [second, second]
    assert rows["mark_entry"].tolist() == [3, 3]
    assert rows["hole_entries"].tolist() == [1, 1]
    assert not rows["is_stale"].any()
    blind = surveyed(cluster, bookies=False).cursors_of(0)
    assert blind["mark_ledger"].tolist() == [first, first]
    assert blind["is_stale"].all()


def test_a_cursor_whose_ledger_is_gone_may_be_further(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(10))
    own = cluster.add_cursor(TOPIC, "s", (first, 9), stale=(first, 1))
    cluster.delete_from_bookkeeper(own, flag=False)
    found = surveyed(cluster)
    assert found.cursors_of(0)["is_stale"].tolist() == [True]
    assert f"ledger {own} is not in BookKeeper" in found.troubles[0]


def test_damaged_nodes_are_named_and_the_rest_is_reported(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(3))
    other = cluster.write_ledger("public/default/other", messages(3))
    cluster.zookeeper.set(managed_ledger_path(NAME), b"\x0a\xff")
    cluster.zookeeper.set(f"{managed_ledger_path(NAME)}/s", b"\xff\xff")
    cluster.zookeeper.set("/admin/policies/public/broken", b"{")
    found = surveyed(cluster)
    assert [one.path for one in found.damaged] == [managed_ledger_path(NAME), "/admin/policies/public/broken"]
    assert found.topics == ["public/default/persistent/other"]
    assert other in found.ledgers["ledger_id"]


@for_each(
    "path", [managed_ledger_path(NAME), "/schemas", "/admin/policies/public/default", "/namespace", "/ledgers/00"]
)
def test_a_node_that_may_not_be_read_is_an_error(cluster: LiveCluster, path: str) -> None:
    cluster.write_ledger(TOPIC, messages(3))
    if cluster.zookeeper.get(path) is None:
        cluster.zookeeper.set(path, b"")
    cluster.zookeeper.no_auth(path)
    with pytest.raises(AccessDeniedError) as raised:
        surveyed(cluster)
    assert raised.value.key == path
    cluster.zookeeper.as_to_all(path)


def test_servers_without_ledgers_are_said_to_be_the_wrong_ones(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(3))
    living = ClusterFileSystem().cluster(f"{cluster.zookeeper.address}/elsewhere")
    with pytest.raises(BucketNotFoundError, match="it belongs to another cluster"):
        survey_cluster(living, None, lambda *_: None)
    living.nodes.close()


def test_a_loaded_topic_keeps_its_current_ledger(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger(TOPIC, messages(5)) for _ in range(2)]
    cluster.own_bundle("public/default", "0x00000000_0xffffffff")
    cluster.zookeeper.set("/loadbalance/brokers/127.0.0.1:8080", MODULAR)
    one = going(cluster)[NAME]
    assert (one.owner, one.ledger_ids) == (Owner.SOME, ledgers[:1])
    cluster.zookeeper.set(
        "/loadbalance/brokers/127.0.0.1:8080", MODULAR.replace(b"impl.Modular", b"extensions.Extensible")
    )
    cluster.write_ledger("public/other/orders", messages(5))
    # A node says who owns it whatever the load manager is; that there is none says nothing then.
    owners = {name: one.owner for name, one in going(cluster).items()}
    assert owners == {NAME: Owner.SOME, "public/other/persistent/orders": Owner.UNKNOWN}


def test_a_terminated_topic_keeps_its_last_ledger(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger(TOPIC, messages(5)) for _ in range(2)]
    cluster.terminate(TOPIC)
    assert going(cluster)[NAME].ledger_ids == ledgers[:1]


def test_a_last_ledger_that_is_gone_is_dropped(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger(TOPIC, messages(5)) for _ in range(2)]
    cluster.delete_from_bookkeeper(ledgers[1], flag=False)
    one = going(cluster)[NAME]
    assert (one.ledgers.last_end, one.trim.dropped, one.ledger_ids) == (LastEnd.GONE, (1,), ledgers[:1])


def test_namespaces_with_policies_of_topics_are_reported(cluster: LiveCluster) -> None:
    cluster.write_ledger("public/default/x", messages(1))
    cluster.write_ledger("public/own/x", messages(1))
    cluster.write_ledger("public/own/__change_events", messages(1))
    cluster.set_policies("public/own", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    survey = surveyed(cluster)
    found = retained(survey, ALL_GOES)
    assert survey.namespaces_not_read() == {"public/own"}
    assert {name: (one.policy, len(one.ledger_ids)) for name, one in found.items()} == {
        "public/default/persistent/x": ("broker", 1),
        "public/own/persistent/x": ("namespace", 0),
        "public/own/persistent/__change_events": ("system", 1),
    }


@for_each(
    ("name", "is_system", "is_brokers"),
    [
        ("t/n/persistent/__change_events", True, True),
        ("t/n/persistent/__change_events-partition-3", True, True),
        ("t/n/persistent/__transaction_buffer_snapshot_segments", True, True),
        ("t/n/persistent/x-partition-0-sub__transaction_pending_ack", True, True),
        ("pulsar/system/persistent/transaction_coordinator_assign-partition-7", True, True),
        ("pulsar/system/persistent/__transaction_log_7", True, True),
        ("pulsar/system/persistent/loadbalancer-service-unit-state", False, True),
        ("pulsar/host:8080/persistent/healthcheck", False, True),
        ("pulsar/cluster/host:8080/persistent/healthcheck", False, True),
        # Users', whatever they look like.
        ("public/__kafka/persistent/__consumer_offsets-partition-0", False, False),
        ("t/n/persistent/__change_events_of_mine", False, False),
        ("pulsar/functions/persistent/assignments", False, False),
    ],
)
def test_system_topics_are_those_of_brokers_by_name(name: str, *, is_system: bool, is_brokers: bool) -> None:
    assert (is_system_topic(name), is_of_brokers(name)) == (is_system, is_brokers)


def test_a_ledger_that_is_closed_meanwhile_has_the_end_of_its_node(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(5), state=CLOSED)
    found = surveyed(cluster, bookies=False).ledgers_of(0)
    assert (found.last_end, found.entries.tolist()) == (LastEnd.CLOSED, [5])


def test_subscriptions_hold_back_what_they_alone_or_others_need(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger(TOPIC, messages(10)) for _ in range(4)]
    size = sum(map(len, messages(10)))
    cluster.add_cursor(TOPIC, "done", (ledgers[3], 9))
    cluster.add_cursor(
        TOPIC, "middle", (ledgers[2], 4), holes=[(Position(ledgers[2], 6), Position(ledgers[2], 7))], last_active_ms=9
    )
    cluster.add_cursor(TOPIC, "slow", (ledgers[0], 9))
    survey = surveyed(cluster)
    found = {one.name: one for one in cursors(survey, ALL_GOES, survey.read_ms)}
    assert {name: one.backlog for name, one in found.items()} == {"done": 0, "middle": 14, "slow": 30}
    assert found["middle"].backlog_size == size + size // 2
    assert {name: one.held_size for name, one in found.items()} == {"done": 0, "middle": 2 * size, "slow": 3 * size}
    assert {name: one.held_ledgers for name, one in found.items()} == {"done": 0, "middle": 2, "slow": 3}
    assert found["middle"].active_ms == 9
    assert found["slow"].last_active_ms is None
    assert found["slow"].active_ms == found["slow"].changed_ms > 0


@for_each(
    ("mark", "entries", "size"),
    [
        ((5, -1), 7, 700),
        ((5, 3), 3, 300),
        ((6, 0), 3, 300),
        ((7, 2), 0, 0),
        ((4, 9), 7, 700),
        ((9, 0), 0, 0),
        ((-1, -1), 7, 700),
    ],
)
def test_backlog_is_what_is_after_a_position(mark: tuple[int, int], entries: int, size: int) -> None:
    ids, counts = np.array([5, 7]), np.array([4, 3])
    ledgers = TopicLedgers(ids, counts, counts * 100, counts, counts > 9, LastEnd.CLOSED)
    assert backlog_of(ledgers, mark) == (entries, size)


@pytest.mark.parametrize("name", ["pulsar-s3", "dbledger"])
def test_nodes_of_real_clusters_are_surveyed(golden: Path, name: str) -> None:
    """Closed ledgers have the entries and sizes that brokers said of the same topics."""
    real = GoldenNodes.of(golden) if name == "pulsar-s3" else GoldenNodes.of_dbledger()
    builder = SurveyBuilder()
    for path, data in sorted(real.nodes.items()):
        builder.take(Node(path, data, 1, 2, 3, 0))
    found = builder.survey("golden", 5)
    assert found.damaged == []
    compared = 0
    for topic, stats in real.stats.items():
        ledgers = found.ledgers_of(found.topics.index(managed_ledger_of(topic)))
        reported = {one["ledgerId"]: (one["entries"], one["size"]) for one in stats["ledgers"][:-1]}
        ours = zip(
            ledgers.ids.tolist(), zip(ledgers.entries.tolist(), ledgers.sizes.tolist(), strict=True), strict=True
        )
        known = {ledger_id: numbers for ledger_id, numbers in ours if ledger_id in reported}
        assert known == {ledger_id: reported[ledger_id] for ledger_id in known}
        compared += len(known)
    assert compared > 3
    in_bookkeeper = {one for one in map(ledger_id_at, real.nodes) if one is not None}
    assert set(found.ledgers["ledger_id"].tolist()) == in_bookkeeper


def test_a_closed_ledger_listed_without_entries_is_what_a_broker_deletes(cluster: LiveCluster) -> None:
    """Whatever BookKeeper has of it: a broker that loads the topic believes its list, but of the last ledger."""
    ids = [cluster.write_ledger(TOPIC, messages(5), state=CLOSED) for _ in range(3)]
    for one in ids[1:]:
        cluster.change_ledger(TOPIC, one, lambda info: replace(info, entries=0, size=0))
    survey = surveyed(cluster)
    (found,) = retained(survey, BrokerDefaults(Retention.of(-1, -1))).values()
    assert (found.trim.dropped, found.ledger_ids) == ((1,), [])
    assert found.ledgers.entries.tolist() == [5, 0, 5]


@for_each(
    "factory", ["org.apache.bookkeeper.meta.FlatLedgerManagerFactory", "x.LongHierarchicalLedgerManagerFactory", ""]
)
def test_other_layouts_of_ledgers_are_refused_and_no_loss(cluster: LiveCluster, factory: str) -> None:
    if not cluster.list_of(TOPIC).ledgers:
        cluster.write_ledger(TOPIC, messages(5))
    cluster.zookeeper.set("/ledgers/LAYOUT", f"2\n{factory}:1".encode())
    with pytest.raises(UnsupportedFormatError, match="layout"):
        surveyed(cluster)
    with pytest.raises(UnsupportedFormatError, match="/ledgers/LAYOUT"):
        open_bucket(cluster.url, {"timeout_s": PATIENT_S}).topics()
    cluster.zookeeper.set("/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
    assert (
        len(surveyed(cluster).ledgers)
        == len(open_bucket(cluster.url, {"timeout_s": PATIENT_S}).topic(TOPIC).ledgers)
        == 1
    )

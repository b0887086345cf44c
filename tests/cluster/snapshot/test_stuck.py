"""What is stuck in a cluster is named with what mends it, and nothing that is live, healthy or not known."""

import pytest

from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.stuck import StuckLimits, not_known, stuck
from ledgerfs_cluster.snapshot.policies import BrokerDefaults, OffloadThresholds, Retention
from ledgerfs_cluster.snapshot.survey import Survey
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import surveyed

DEFAULT = StuckLimits()
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
WHOLE = "0x00000000_0xffffffff"
MODULAR = b'{"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"}'
EXTENSIBLE = MODULAR.replace(b"impl.Modular", b"extensions.Extensible")
KEEPS = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
ALL_GOES = BrokerDefaults(Retention())
KEEPS_ALL = BrokerDefaults(Retention.of(-1, -1))
SIZE = sum(map(len, messages(5)))


@pytest.fixture(autouse=True)
def _broker(cluster: LiveCluster) -> None:
    cluster.zookeeper.set("/loadbalance/brokers/127.0.0.1:8080", MODULAR)


def found(
    survey: Survey, kind: FindingKind, later_ms: int, defaults: BrokerDefaults = ALL_GOES, limits: StuckLimits = DEFAULT
) -> dict[str, Finding]:
    """Return what is found of one kind so long after the survey, by the last parts of topics' names."""
    every = [one for one in stuck(survey, defaults, survey.read_ms + later_ms, limits) if one.kind is kind]
    names = {one.subject.removeprefix("persistent://"): one for one in every}
    assert len(names) == len(every)
    assert all(one.subject in one.mend and one.mend.startswith("pulsar-admin topics ") for one in every)
    return names


def test_topics_that_no_broker_has_loaded_and_that_are_past_their_retention(cluster: LiveCluster) -> None:
    done = [cluster.write_ledger("t/free/done", messages(5), state=CLOSED) for _ in range(3)]
    cluster.add_cursor("t/free/done", "s", (done[2], 4))
    held = cluster.write_ledger("t/free/held", messages(5), state=CLOSED)
    cluster.add_cursor("t/free/held", "s", (held, 0))
    for namespace in ("kept", "loaded", "own"):
        cluster.write_ledger(f"t/{namespace}/x", messages(5), state=CLOSED)
    cluster.set_policies("t/kept", retention_policies=KEEPS)
    cluster.own_bundle("t/loaded", WHOLE)
    events = cluster.write_ledger("t/own/__change_events", messages(1), state=CLOSED)
    cluster.add_cursor("t/own/__change_events", "__compaction", (events, -1))
    survey = surveyed(cluster)
    kind = FindingKind.UNLOADED_EXPIRED
    # A bundle may be without an owner for some minutes.
    assert found(survey, kind, 9 * MINUTE) == {}
    named = found(survey, kind, 20 * MINUTE)
    assert list(named) == ["t/free/done"]
    one = named["t/free/done"]
    assert (one.ledger_ids, one.size) == (tuple(done), 3 * SIZE)
    assert 0 < one.since_ms <= survey.read_ms
    assert one.mend == "pulsar-admin topics trim-topic persistent://t/free/done"
    assert any("policies of single topics" in said for said in not_known(survey, survey.read_ms, DEFAULT))


def test_a_subscription_that_was_active_just_now_is_a_sign_of_life(cluster: LiveCluster) -> None:
    done = cluster.write_ledger("t/free/done", messages(5), state=CLOSED)
    later = 20 * DAY
    cluster.add_cursor("t/free/done", "s", (done, 4), last_active_ms=surveyed(cluster).read_ms + later - MINUTE)
    survey = surveyed(cluster)
    assert found(survey, FindingKind.UNLOADED_EXPIRED, later) == {}
    since = found(survey, FindingKind.UNLOADED_EXPIRED, later + HOUR)["t/free/done"].since_ms
    # Its only ledger is closed by the load, and past its retention from then on.
    assert since == 0


def test_with_owners_that_are_not_in_zookeeper_nothing_is_said_to_be_unloaded(cluster: LiveCluster) -> None:
    cluster.write_ledger("t/free/done", messages(5), state=CLOSED)
    cluster.zookeeper.set("/loadbalance/brokers/127.0.0.1:8080", EXTENSIBLE)
    survey = surveyed(cluster)
    assert found(survey, FindingKind.UNLOADED_EXPIRED, 20 * DAY) == {}
    assert ["owners of topics" in said for said in not_known(survey, survey.read_ms, DEFAULT)] == [True]


def test_ledgers_that_are_open_for_longer_than_rollover_allows(cluster: LiveCluster) -> None:
    left = cluster.write_ledger("t/ns/left", messages(5))
    cluster.write_ledger("t/ns/empty", ())
    cluster.write_ledger("t/ns/closed", messages(5), state=CLOSED)
    survey = surveyed(cluster)
    young = cluster.write_ledger("t/loaded/young", messages(5))
    cluster.own_bundle("t/loaded", WHOLE)
    kind = FindingKind.OPEN_TOO_LONG
    created = cluster.created_ms
    # Brokers add up to 5 % to the four hours.
    assert found(survey, kind, 4 * HOUR + 10 * MINUTE, KEEPS_ALL) == {}
    named = found(survey, kind, 4 * HOUR + 13 * MINUTE, KEEPS_ALL)
    assert list(named) == ["t/ns/left"]
    one = named["t/ns/left"]
    assert (one.ledger_ids, one.size, one.since_ms) == ((left,), SIZE, created[left] + 4 * HOUR)
    assert one.mend == "pulsar-admin topics stats persistent://t/ns/left"
    assert "and none has" in one.evidence
    both = found(surveyed(cluster), kind, 5 * HOUR, KEEPS_ALL)
    assert both["t/loaded/young"].ledger_ids == (young,)
    assert both["t/loaded/young"].mend == "pulsar-admin topics unload persistent://t/loaded/young"
    assert found(surveyed(cluster), kind, 5 * HOUR, KEEPS_ALL, StuckLimits(open_ms=5 * HOUR)) == {}
    # Without bookies nobody tells whether a ledger has entries.
    assert found(surveyed(cluster, bookies=False), kind, 5 * HOUR, KEEPS_ALL) == {}


def test_a_ledger_that_came_while_the_cluster_was_read_is_young(cluster: LiveCluster) -> None:
    cluster.write_ledger("t/ns/x", messages(5))
    survey = surveyed(cluster)
    survey.ledgers["ledger_id"] += 1000
    assert found(survey, FindingKind.OPEN_TOO_LONG, DAY, KEEPS_ALL) == {}


def test_subscriptions_that_are_inactive_and_hold_back(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger("t/ns/x", messages(5)) for _ in range(3)]
    now = surveyed(cluster).read_ms
    at_start = (ledgers[0], -1)
    cluster.add_cursor("t/ns/x", "old one", at_start, last_active_ms=now - 5 * DAY)
    cluster.add_cursor("t/ns/x", "recent", at_start, last_active_ms=now + 2 * DAY)
    cluster.add_cursor("t/ns/x", "at the end", (ledgers[2], 4), last_active_ms=now - 5 * DAY)
    # Brokers' own, and those in use: the time of consumers tells nothing.
    cluster.add_cursor("t/ns/x", "__compaction", at_start, last_active_ms=now - 5 * DAY)
    cluster.add_cursor("t/ns/x", "pulsar.repl.far", at_start, last_active_ms=now - 5 * DAY)
    cluster.add_cursor("t/ns/x", "in use", at_start, stale=at_start, last_active_ms=now - 5 * DAY)
    survey = surveyed(cluster)

    def named(later_ms: int, defaults: BrokerDefaults = ALL_GOES) -> list[str]:
        every = stuck(survey, defaults, survey.read_ms + later_ms, DEFAULT)
        of_kind = [one for one in every if one.kind is FindingKind.INACTIVE_CURSOR]
        assert all((one.ledger_ids, one.size) == (tuple(ledgers), 3 * SIZE) for one in of_kind)
        return [one.mend for one in of_kind]

    old = "pulsar-admin topics unsubscribe -s 'old one' persistent://t/ns/x"
    assert named(DAY) == []
    assert named(3 * DAY) == [old]
    assert sorted(named(8 * DAY)) == [
        "look why the broker does not go on with it (replication, deduplication): it is no subscription of a user's",
        "pulsar-admin topics compact persistent://t/ns/x",
        "pulsar-admin topics unsubscribe -s 'in use' persistent://t/ns/x",
        old,
    ]
    assert len(named(10 * DAY)) == 5
    # Retention keeps it, not they.
    assert named(10 * DAY, KEEPS_ALL) == []


def test_a_subscription_that_may_be_further_is_not_named(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger("t/ns/x", messages(5)) for _ in range(3)]
    own = cluster.add_cursor("t/ns/x", "s", (ledgers[2], 4), stale=(ledgers[0], -1), last_active_ms=1)
    assert found(surveyed(cluster), FindingKind.INACTIVE_CURSOR, 20 * DAY) == {}
    cluster.delete_from_bookkeeper(own, flag=False)
    survey = surveyed(cluster)
    assert survey.cursors["is_stale"].all()
    assert found(survey, FindingKind.INACTIVE_CURSOR, 20 * DAY) == {}


def test_attempts_to_offload_that_failed(cluster: LiveCluster) -> None:
    ledgers = [cluster.write_ledger("t/ns/x", messages(5)) for _ in range(4)]
    cluster.offload("t/ns/x", ledgers[0])
    cluster.offload("t/ns/x", ledgers[1], is_complete=False, objects=["data"])
    for name in ("whole", "untouched"):
        first, _ = (cluster.write_ledger(f"t/ns/{name}", messages(5)) for _ in range(2))
        if name == "whole":
            cluster.offload(f"t/ns/{name}", first)
    survey = surveyed(cluster)
    kind = FindingKind.FAILED_OFFLOAD
    assert found(survey, kind, HOUR, KEEPS_ALL) == {}
    assert not_known(survey, survey.read_ms + HOUR, DEFAULT) == [
        "1 attempts to offload a ledger are not complete, and may go on"
    ]
    named = found(survey, kind, 3 * HOUR, KEEPS_ALL)
    assert list(named) == ["t/ns/x"]
    one = named["t/ns/x"]
    assert (one.ledger_ids, one.size) == ((ledgers[1],), SIZE)
    assert one.since_ms == int(survey.topic_table["changed_ms"][survey.topics.index("t/ns/persistent/x")])
    # What is newer stays: one closed ledger, and the open one.
    assert one.mend == f"pulsar-admin topics offload --size-threshold {2 * SIZE} persistent://t/ns/x"
    assert not_known(survey, survey.read_ms + 3 * HOUR, DEFAULT) == []


def test_nothing_is_stuck_in_a_cluster_at_work(cluster: LiveCluster) -> None:
    """Producers, consumers, rollovers and offloads that go on: nothing is named, though all of it is past its retention."""
    cluster.own_bundle("t/ns", WHOLE)
    for name in ("a", "b", "c"):
        ledgers = [cluster.write_ledger(f"t/ns/{name}", messages(5)) for _ in range(4)]
        cluster.offload(f"t/ns/{name}", ledgers[0])
        cluster.offload(f"t/ns/{name}", ledgers[1], is_complete=False)
        cluster.add_cursor(f"t/ns/{name}", "s", (ledgers[3], 2), stale=(ledgers[0], 1))
    survey = surveyed(cluster)
    assert len(survey.topics) == 3
    defaults = BrokerDefaults(Retention(), OffloadThresholds(0, 0))
    assert list(stuck(survey, defaults, survey.read_ms, DEFAULT)) == []

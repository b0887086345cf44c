"""The time to live of topics: whose it is, where it moves subscriptions, what goes then, and what is said where that is not known."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.clusters.cursors import CursorState, cursors
from ledgerfs.clusters.dumping import dump_cluster
from ledgerfs.clusters.expiry import ExpiryState
from ledgerfs.clusters.policies import BrokerDefaults, Retention
from ledgerfs.clusters.retention import TopicRetention, retention
from ledgerfs.clusters.stuck import StuckLimits, not_known, stuck
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.surveying import survey_cluster, survey_dump
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.messages.proto.message_metadata_pb2 import BrokerMetadataRecord
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.entries import frame, metadata
from tests.support.live_clusters import CLOSED, LiveCluster

HOUR = 3_600_000
TOPIC = "t/ttl/x"
BROKER = BrokerDefaults(Retention())


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        made.set_policies("t/ttl", message_ttl_in_seconds=3600)
        yield made
        assert made.not_reads() == []


def surveyed(cluster: LiveCluster, *, bookies: bool = True, broker_ttl_ms: int = 0) -> Survey:
    living = ClusterFileSystem(skip_instance_cache=True).cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        asked = NewestEntries(living.reading) if bookies else None
        return survey_cluster(living, asked, lambda *_: None, broker_ttl_ms=broker_ttl_ms)
    finally:
        living.nodes.close()


def ago(hours: float) -> int:
    """Return the time so many hours ago, ms since 1970 UTC."""
    return time.time_ns() // 1_000_000 - round(hours * HOUR)


def entries(*hours: float) -> list[bytes]:
    """Return entries that were published so many hours ago."""
    return [frame(metadata(publish_time_ms=ago(one)), b"m") for one in hours]


def written(cluster: LiveCluster, *ledgers: list[bytes], topic: str = TOPIC) -> list[int]:
    """Write a topic that no broker has loaded; its ledgers were closed long ago, but for the last, which has no time."""
    return [cluster.write_ledger(topic, one, state=CLOSED, closed_ms=ago(2)) for one in ledgers]


def of(survey: Survey, defaults: BrokerDefaults = BROKER, topic: str = TOPIC) -> TopicRetention:
    (one,) = (
        one
        for one in retention(survey, defaults, survey.read_ms)
        if topic_of(one.managed_ledger) == f"persistent://{topic}"
    )
    return one


def states(survey: Survey, defaults: BrokerDefaults = BROKER) -> dict[str, CursorState]:
    return {one.name: one for one in cursors(survey, defaults, survey.read_ms)}


def test_what_is_expired_goes_with_all_that_subscriptions_have_passed(cluster: LiveCluster) -> None:
    first, second, last = written(cluster, entries(5, 5), entries(4, 4, 3), entries(2.5, 2, 0.5, 0.1))
    cluster.add_cursor(TOPIC, "unread", (first, -1))
    cluster.add_cursor(TOPIC, "half", (second, 1), stale=(first, 0))
    cluster.add_cursor(TOPIC, "beyond", (last, 2))
    cluster.add_cursor(TOPIC, "holes", (first, -1), holes=[(Position(last, 1), Position(last, 2))])
    cluster.add_cursor(TOPIC, "pulsar.repl.far", (first, 0))
    survey = surveyed(cluster)
    told = of(survey)
    assert (told.ledger_ids, told.expiry, told.ttl_ms) == ([first, second], ExpiryState.KNOWN, HOUR)
    assert told.slowest_position == (last, 1)
    found = states(survey)
    assert {name: one.expires_to for name, one in found.items()} == {
        "unread": (last, 1),
        "half": (last, 1),
        "beyond": None,
        "holes": (last, 2),
        "pulsar.repl.far": (last, 1),
    }
    assert {name: one.position for name, one in found.items()}["unread"] == (first, -1)
    assert {one.held_size for one in found.values()} == {survey.ledgers_of(0).sizes[-1]}


def test_what_brokers_keep_for_themselves_is_not_expired(cluster: LiveCluster) -> None:
    first, _ = written(cluster, entries(5, 5), entries(4, 4))
    for name in ("__compaction", "pulsar.dedup"):
        cluster.add_cursor(TOPIC, name, (first, -1))
    assert (of(surveyed(cluster)).ledger_ids, of(surveyed(cluster)).expiry) == ([], ExpiryState.NONE)
    cluster.add_cursor(TOPIC, "s", (first, -1))
    told = of(surveyed(cluster))
    assert (told.ledger_ids, told.expiry, told.slowest_position) == ([], ExpiryState.KNOWN, (first, -1))
    found = {}
    for topic in ("t/ttl/__transaction_buffer_snapshot", "t/ttl/__consumer_offsets"):
        ids = written(cluster, entries(5), entries(5), topic=topic)
        cluster.add_cursor(topic, "s", (ids[0], -1))
        found[topic] = of(surveyed(cluster), topic=topic)
    system, users = found.values()
    assert (system.ledger_ids, system.ttl_ms, system.policy) == ([], 0, "system")
    # Only the brokers' own names are system topics.
    assert (users.ledger_ids, users.ttl_ms, users.policy) == ([ids[0], ids[1]], HOUR, "broker")


def test_a_list_of_more_entries_than_can_be_counted_is_damaged_and_ends_nothing(cluster: LiveCluster) -> None:
    first, _ = written(cluster, entries(5, 5), entries(4, 4))
    cluster.add_cursor(TOPIC, "s", (first, -1))
    other = "t/ttl/other"
    ids = written(cluster, entries(5), entries(4), topic=other)
    cluster.add_cursor(other, "s", (ids[0], -1))
    huge = LedgerInfo(first, 2**63 - 1, 5, ago(2))
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(huge, *info.ledgers[1:])))
    survey = surveyed(cluster)
    (damaged,) = survey.damaged
    assert damaged.reason.endswith("which no ledger has")
    assert of(survey, topic=other).expiry is ExpiryState.KNOWN


def test_a_namespace_comes_before_the_broker(cluster: LiveCluster) -> None:
    ids = written(cluster, entries(5, 5), entries(4, 0.5))
    cluster.add_cursor(TOPIC, "s", (ids[0], -1))
    minute = BrokerDefaults(Retention(), ttl_ms=60_000)
    for told, found in ((3600, (ids[1], 0)), (0, None), (-1, (ids[1], 1)), (None, (ids[1], 1))):
        cluster.set_policies("t/ttl", message_ttl_in_seconds=told)
        survey = surveyed(cluster, broker_ttl_ms=60_000)
        assert states(survey, minute)["s"].expires_to == found, told
    assert states(survey, BROKER)["s"].expiry is ExpiryState.NONE
    # What was asked for another time to live tells nothing.
    assert states(survey, BrokerDefaults(Retention(), ttl_ms=HOUR))["s"].expiry is ExpiryState.UNKNOWN


def test_the_brokers_time_comes_before_the_producers(cluster: LiveCluster) -> None:
    def stamped(published: float, hours: float) -> bytes:
        broker = BrokerMetadataRecord(broker_time_ms=ago(hours))
        return frame(metadata(publish_time_ms=ago(published)), b"m", broker=broker)

    first, last = written(cluster, [stamped(0.1, 5)], [stamped(0.1, 3), stamped(9, 0.2), b"no message"])
    cluster.add_cursor(TOPIC, "s", (first, -1))
    assert states(surveyed(cluster))["s"].expires_to == (last, 0)


def test_what_is_not_known_is_said_and_never_goes(cluster: LiveCluster) -> None:
    first, second, _ = written(cluster, entries(5, 5), entries(4, 4), entries(0.1))
    cluster.add_cursor(TOPIC, "s", (first, 1), last_active_ms=1)
    everything = surveyed(cluster)
    assert of(everything).ledger_ids == [first, second]
    limits = StuckLimits()
    for bookies in (False, True):
        if bookies:
            cluster.zookeeper.delete(ledger_path(second))
        survey = surveyed(cluster, bookies=bookies)
        told = of(survey)
        assert (told.ledger_ids, told.expiry) == ([first], ExpiryState.UNKNOWN), bookies
        assert states(survey)["s"].expires_to is None
        assert [one for one in survey.troubles if "time to live" in one] or not bookies
        assert any("time to live of 1 topics" in one for one in not_known(survey, survey.read_ms, limits, BROKER))
        kinds = {one.kind.value for one in stuck(survey, BROKER, survey.read_ms + 9 * HOUR, limits)}
        assert "inactive-cursor" not in kinds


def test_a_dump_tells_the_same(cluster: LiveCluster, tmp_path: Path) -> None:
    ids = written(cluster, entries(5, 5), entries(4, 0.5))
    cluster.add_cursor(TOPIC, "s", (ids[0], -1))
    other = "t/other/y-z"
    more = written(cluster, entries(5, 5), entries(4, 4), topic=other)
    cluster.add_cursor(other, "o", (more[0], -1))
    path = tmp_path / "dump.json.zst"
    living = ClusterFileSystem(skip_instance_cache=True).cluster(cluster.url.removeprefix("pulsar+zk://"))
    dump_cluster(living, NewestEntries(living.reading), path, lambda *_: None)
    living.nodes.close()
    survey = survey_dump(path, lambda *_: None)
    assert states(survey)["s"].expires_to == (ids[1], 0)
    assert of(survey).ledger_ids == of(surveyed(cluster)).ledger_ids == [ids[0]]
    assert states(survey)["o"].expiry is ExpiryState.NONE
    assert states(survey, BrokerDefaults(ttl_ms=HOUR))["o"].expiry is ExpiryState.UNKNOWN


def test_many_topics_are_searched_together(cluster: LiveCluster) -> None:
    expected = {}
    for number in range(40):
        topic = f"t/ttl/many-{number:02d}"
        hours = [100 - i for i in range(60 + number)]
        (ledger,) = written(cluster, entries(*[max(one, 0.2) for one in hours]), topic=topic)
        cluster.add_cursor(topic, f"s{number}", (ledger, -1))
        expected[f"s{number}"] = (ledger, sum(one > 1 for one in hours) - 1)
    survey = surveyed(cluster)
    assert {name: one.expires_to for name, one in states(survey).items()} == expected

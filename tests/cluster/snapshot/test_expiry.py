"""The time to live of topics: whose it is, where it moves subscriptions by the times of ledgers, and what goes then."""

import time
from dataclasses import replace

import pytest

from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.rules.cursors import CursorState, cursors
from ledgerfs_cluster.rules.retention import TopicRetention, retention
from ledgerfs_cluster.snapshot.policies import BrokerDefaults, Retention
from ledgerfs_cluster.snapshot.survey import Survey
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import surveyed

HOUR = 3_600_000
TOPIC = "t/ttl/x"
BROKER = BrokerDefaults(Retention())


@pytest.fixture(autouse=True)
def _time_to_live(cluster: LiveCluster) -> None:
    cluster.set_policies("t/ttl", message_ttl_in_seconds=3600)


def ago(hours: float) -> int:
    """Return the time so many hours ago, ms since 1970 UTC."""
    return time.time_ns() // 1_000_000 - round(hours * HOUR)


def written(cluster: LiveCluster, *hours: float, topic: str = TOPIC) -> list[int]:
    """Write ledgers of three entries, each closed so many hours ago, and a last one that has no time; no broker has the topic loaded."""
    made = [cluster.write_ledger(topic, messages(3), state=CLOSED)]
    return [*made, *(cluster.write_ledger(topic, messages(3), state=CLOSED, closed_ms=ago(one)) for one in hours)]


def of(survey: Survey, defaults: BrokerDefaults = BROKER, topic: str = TOPIC) -> TopicRetention:
    (one,) = (
        one
        for one in retention(survey, defaults, survey.read_ms)
        if topic_of(one.managed_ledger) == f"persistent://{topic}"
    )
    return one


def states(survey: Survey, defaults: BrokerDefaults = BROKER) -> dict[str, CursorState]:
    return {one.name: one for one in cursors(survey, defaults, survey.read_ms)}


def test_what_was_closed_before_the_time_to_live_goes(cluster: LiveCluster) -> None:
    first, second, third, last = written(cluster, 5, 1.1, 0.9)
    for name, at in {
        "unread": (first, -1),
        "pulsar.repl.far": (first, 0),
        "end": (second, 2),
        "beyond": (third, 0),
    }.items():
        cluster.add_cursor(TOPIC, name, at)
    cluster.add_cursor(TOPIC, "stale", (second, 1), stale=(first, 0))
    for bookies in (True, False):
        survey = surveyed(cluster, bookies=bookies)
        told = of(survey)
        assert told.ledger_ids == [first, second]
        found = states(survey)
        assert {name: one.expires_to for name, one in found.items()} == {
            "unread": (second, 2), "stale": (second, 2), "end": None, "beyond": None, "pulsar.repl.far": (second, 2),
        }  # fmt: skip
        assert found["unread"].position == (first, -1)
        assert {one.held_size for one in found.values()} == {int(survey.ledgers_of(0).sizes[2:].sum())}
    assert last not in told.ledger_ids


def test_a_ledger_behind_a_younger_one_stays(cluster: LiveCluster) -> None:
    """As by clocks that went back, and by a list that tells no time."""
    for topic, hours in {"t/ttl/back": (5, 0.5, 5), "t/ttl/none": (0, 5, 5)}.items():
        ids = written(cluster, *hours, topic=topic)
        cluster.add_cursor(topic, "s", (ids[0], -1))
        if topic == "t/ttl/none":
            cluster.change_list(
                topic, lambda info: replace(info, ledgers=(replace(info.ledgers[0], closed_ms=0), *info.ledgers[1:]))
            )
        assert of(surveyed(cluster), topic=topic).ledger_ids == (ids[:1] if topic == "t/ttl/back" else [])


def test_what_brokers_keep_for_themselves_is_not_expired(cluster: LiveCluster) -> None:
    first, second, _ = written(cluster, 5, 4)
    for name in ("__compaction", "pulsar.dedup"):
        cluster.add_cursor(TOPIC, name, (first, -1))
    assert of(surveyed(cluster)).ledger_ids == []
    cluster.add_cursor(TOPIC, "s", (first, -1))
    assert of(surveyed(cluster)).ledger_ids == []
    assert states(surveyed(cluster))["s"].expires_to == (second, 2)
    found = {}
    for topic in ("t/ttl/__transaction_buffer_snapshot", "t/ttl/__consumer_offsets"):
        ids = written(cluster, 5, topic=topic)
        cluster.add_cursor(topic, "s", (ids[0], -1))
        found[topic] = of(surveyed(cluster), topic=topic)
    system, users = found.values()
    assert (system.ledger_ids, system.policy) == ([], "system")
    # Only the brokers' own names are system topics.
    assert (users.ledger_ids, users.policy) == ([ids[0]], "broker")


def test_a_list_of_more_entries_than_can_be_counted_is_damaged_and_ends_nothing(cluster: LiveCluster) -> None:
    first, *_ = written(cluster, 5, 4)
    cluster.add_cursor(TOPIC, "s", (first, -1))
    other = "t/ttl/other"
    ids = written(cluster, 5, topic=other)
    cluster.add_cursor(other, "s", (ids[0], -1))
    huge = LedgerInfo(first, 2**63 - 1, 5, ago(2))
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(huge, *info.ledgers[1:])))
    survey = surveyed(cluster)
    (damaged,) = survey.damaged
    assert damaged.reason.endswith("which no ledger has")
    assert of(survey, topic=other).ledger_ids == [ids[0]]


def test_a_namespace_comes_before_the_broker(cluster: LiveCluster) -> None:
    first, second, _ = written(cluster, 5, 0.5)
    cluster.add_cursor(TOPIC, "s", (first, -1))
    minute = BrokerDefaults(Retention(), ttl_ms=60_000)
    for told, found in ((3600, (first, 2)), (0, None), (-1, (second, 2)), (None, (second, 2))):
        cluster.set_policies("t/ttl", message_ttl_in_seconds=told)
        survey = surveyed(cluster)
        assert states(survey, minute)["s"].expires_to == found, told
    assert states(survey, BROKER)["s"].expires_to is None

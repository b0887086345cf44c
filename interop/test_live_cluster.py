"""A cluster of three bookies, read while it lives: every message once, as a Java reader has it, and no trace of the reading.

Ledgers roll over every 250 entries, are offloaded, deleted and trimmed, and a bookie crashes, while producers go on and a follower waits
for what they send. At the end the broker is gone, with ledgers left open: then all nodes of ZooKeeper are compared before and after reading
in every way.
"""

import base64
import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
import pytest

from interop import workload
from interop.comparison import differences, in_the_same_words
from interop.follower import followed, rows_that_come
from interop.java_client import JavaClient, Lines
from interop.keys import KEY_NAME, KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import LiveProducer, connected, going_on, produce_to
from interop.recording import BookieRequest, ZooKeeperRequest
from interop.stages import stage
from interop.waiting import wait_until
from interop.ways import OPEN_END, Ways, mounted
from ledgerfs import open_bucket
from ledgerfs.errors import StaleObjectError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.spark.runtime.session import open_session
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.stored_schema import parse_stored_schema
from ledgerfs_cluster.snapshot.answers import SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import read_dump
from ledgerfs_cluster.snapshot.surveying import survey_dump
from tests.support.golden_rows import rows_of
from tests.support.spark_java import IN_HASTE

LIVE = "persistent://public/live"
EVENTS, LARGE, MOVING, OPEN, BESIDES = (f"{LIVE}/{name}" for name in ("events", "large", "moving", "open", "besides"))
TRIMMED = "persistent://public/trimmed/trimmed"
ENTRIES_A_LEDGER = 250
MOMENTS = {
    "producing": ("scan", "spark", "mount", "export"),
    "a bookie crashed": ("scan", "spark"),
    "offloaded": ("mount", "export"),
    "deleted from BookKeeper": ("scan", "spark", "mount", "export"),
    "the bookie is back": ("scan", "spark"),
}
"""What happens while a producer goes on, and how its topic is read then; at the end of all of it the topic is trimmed."""
MOMENTS_OF_GOLDEN = {
    "producing": ("scan", "mount"),
    "a bookie crashed": ("follow", "spark"),
    "another topic is offloaded": ("scan", "mount"),
    "the bookie is back": ("follow", "spark"),
}
"""The same of golden topics, to which nobody writes: a producer goes on to another one."""
IN_OPEN = 20
"""Messages of `OPEN`."""
LATE_S = 10
"""By how much half of the messages that are followed may be late on a machine that does much else; a second is promised."""

_NO_RETENTION = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
_SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster, with a namespace whose ledgers are on two bookies of the three, so that there is another one when one crashes."""
    with lent_live_cluster(folder / "live") as made:
        workload.prepare(made.cluster)
        admin = made.cluster.admin
        admin.make_namespace("public/live")
        quorums = dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 2)
        admin.call("POST", "v2/namespaces/public/live/persistence", {**quorums, "managedLedgerMaxMarkDeleteRate": 0})
        yield made


@pytest.fixture(scope="module")
def java(live: LiveCluster, classes: Path, keys: KeyPair) -> JavaClient:
    """Java's client of this cluster."""
    return JavaClient(live.cluster, classes, keys)


@pytest.fixture(scope="module")
def ways(live: LiveCluster, folder: Path, keys: KeyPair) -> Iterator[Ways]:
    """All ways to read, with one session of Spark and one mount, which outlive all that happens."""
    with pytest.MonkeyPatch.context() as patch, mounted(live, folder / "live-mount") as point:
        patch.setenv("SPARK_SUBMIT_OPTS", IN_HASTE)
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "spark"))
        with stage("live: start Spark"):
            session = open_session("interop", "local[2]", _SPARK)
        yield Ways(live, keys, session, point)
        session.stop()


@pytest.fixture(scope="module")
def golden(live: LiveCluster, java: JavaClient) -> list[str]:
    """Topics with all kinds of messages, of which the first round is only in the bucket, and the second only in BookKeeper."""
    with stage("live: produce"):
        workload.produce(live.cluster, java, 0)
    topics = workload.topics(live.cluster)
    with stage("live: offload"):
        offloaded = {ledger for topic in topics for ledger in live.cluster.admin.offload(topic)}
    with stage("live: produce"):
        workload.produce(live.cluster, java, 1)
    with stage("live: delete from BookKeeper"):
        live.cluster.wait_until_deleted_from_bookkeeper(offloaded)
    return topics


@dataclass
class Reading:
    """What was read of a topic, in which way, at which moment; ``least`` messages had been acknowledged before."""

    way: str
    moment: str
    least: int
    lines: Lines


def test_every_message_is_read_once_while_the_cluster_changes(live: LiveCluster, ways: Ways, java: JavaClient) -> None:
    readings: list[Reading] = []
    with connected(live.cluster.service_url) as client:
        _fill(client, LARGE, 1500, 8000)
        producer = produce_to(client, EVENTS, 200)
        with followed(live.url, EVENTS) as follower:
            with going_on(producer, 1, 0.05):
                producer.send(2 * ENTRIES_A_LEDGER)
                _live_through(live, ways, producer, readings)
                client.subscribe(EVENTS, "late").close()
                with stage("live: Pulsar's reader"):
                    truth = _as_java_reads(java, EVENTS)
                with stage("live: trimmed"):
                    follower.wait(len(truth))
                    _trim_up_to_the_subscription(live)
                    producer.send(ENTRIES_A_LEDGER)
            with stage("live: Pulsar's reader"):
                rest = _as_java_reads(java, EVENTS)
            follower.wait(producer.sent)
    assert truth[0] not in rest, "nothing was trimmed"
    truth += [row for row in rest if _place(row) > _place(truth[-1])]
    assert [int(base64.b64decode(row["value"])[:8]) for row in truth] == list(range(producer.sent))
    assert {len(base64.b64decode(row["value"])) for row in truth} == {208}
    assert differences({EVENTS: follower.rows}, {EVENTS: truth}) == []
    assert statistics.median(follower.delays_ms()) < 1000 * LATE_S
    for one in readings:
        rows = one.lines[EVENTS]
        assert one.least <= len(rows) <= len(truth), (one.way, one.moment)
        assert differences(one.lines, {EVENTS: truth[: len(rows)]}) == [], (one.way, one.moment)
    least = [min(one.least for one in readings if one.moment == moment) for moment in MOMENTS]
    assert least == sorted(set(least)), "the producer did not go on"


def test_a_scan_goes_on_where_its_ledgers_have_gone_to(live: LiveCluster) -> None:
    """They are in BookKeeper when it begins, and only in the bucket soon after."""
    with connected(live.cluster.service_url) as client:
        _fill(client, MOVING, 1500, 8000)
    scan = iter(open_bucket(live.url, OPEN_END).topic(MOVING).scan(["value"]))
    batches = [next(scan)]
    with stage("live: offload below a scan"):
        ledgers = set(live.cluster.admin.offload(MOVING))
        live.cluster.wait_until_deleted_from_bookkeeper(ledgers)
    before = live.ledgers_asked_for()
    batches += scan
    _require_numbers(batches, 1500)
    assert ledgers & before
    assert ledgers - live.ledgers_asked_for(), "all was read before it moved: the topic is too small for this test"


def test_what_is_trimmed_below_a_scan_ends_it_with_an_error(live: LiveCluster, java: JavaClient) -> None:
    admin = live.cluster.admin
    admin.make_namespace("public/trimmed")
    with connected(live.cluster.service_url) as client:
        _fill(client, TRIMMED, 1600, 8000)
    bucket = open_bucket(live.url, OPEN_END)
    scan = iter(bucket.topic(TRIMMED).scan(["value"]))
    batches = [next(scan)]
    first = admin.ledgers(TRIMMED)[0]["ledgerId"]
    with stage("live: trim below a scan"):
        admin.call("POST", "v2/namespaces/public/trimmed/retention", _NO_RETENTION)
        wait_until(lambda: admin.trim(TRIMMED) != first, "the broker trims")
    with pytest.raises(StaleObjectError, match="trimmed"):
        batches += scan
    _require_numbers(batches, sum(batch.num_rows for batch in batches))
    bucket.refresh()
    rows = _as_java_reads(java, TRIMMED)
    assert rows_of(bucket.topic(TRIMMED).scan()) == rows
    assert 0 < len(rows) <= ENTRIES_A_LEDGER


@pytest.mark.parametrize("quorums", [(2, 2, 2), (3, 2, 2), (3, 3, 2)], ids=str)
def test_an_open_ledger_ends_where_its_adds_are_confirmed(live: LiveCluster, quorums: tuple[int, int, int]) -> None:
    """The last message of a producer that says no more is acknowledged, but only the next add would confirm it to readers of bookies."""
    admin = live.cluster.admin
    namespace = "public/open-{}-{}-{}".format(*quorums)
    admin.make_namespace(namespace)
    names = ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
    numbers = dict(zip(names, quorums, strict=True))
    admin.call("POST", f"v2/namespaces/{namespace}/persistence", {**numbers, "managedLedgerMaxMarkDeleteRate": 0})
    topic = f"persistent://{namespace}/open"
    confirmed, acknowledged = open_bucket(live.url), open_bucket(live.url, OPEN_END)
    with connected(live.cluster.service_url) as client:
        producer = produce_to(client, topic, 10)
        for count in range(1, 12):
            producer.send(1)
            producer.wait(count)
            if count in {2, 10, 11}:
                before = _open_ledger(live, topic)
                confirmed.refresh()
                acknowledged.refresh()
                _require_numbers(confirmed.topic(topic).scan(["value"]), count - 1, 10)
                _require_numbers(acknowledged.topic(topic).scan(["value"]), count, 10)
                assert _open_ledger(live, topic) == before


@pytest.fixture(scope="module")
def golden_rows(golden: list[str], java: JavaClient) -> Lines:
    """What Pulsar's reader returns of golden topics, while all bookies are there; nobody writes to them any more."""
    with stage("live: Pulsar's reader"):
        return in_the_same_words(java.read(golden))


def test_golden_topics_are_read_while_the_cluster_changes(live: LiveCluster, ways: Ways, golden_rows: Lines) -> None:
    """Half of each is in the bucket, the other half in BookKeeper."""
    acknowledged: list[int] = []
    offloaded: list[int] = []
    with connected(live.cluster.service_url) as client:
        producer = produce_to(client, BESIDES, 200)
        with going_on(producer, 1, 0.05):
            for moment, ways_of_moment in MOMENTS_OF_GOLDEN.items():
                with stage(f"live: golden: {moment}"):
                    if moment == "a bookie crashed":
                        live.kill_bookie(2)
                    elif moment == "another topic is offloaded":
                        producer.send(2 * ENTRIES_A_LEDGER)
                        producer.wait(producer.sent)
                        offloaded = live.cluster.admin.offload(BESIDES)
                    elif moment == "the bookie is back":
                        live.start_bookie(2)
                for way in ways_of_moment:
                    with stage(f"live: golden: {way} meanwhile"):
                        found, expected = _read_golden(ways, way, golden_rows)
                    assert differences(found, expected) == [], (way, moment)
                acknowledged.append(producer.acknowledged)
    assert len(offloaded) >= 2
    assert acknowledged == sorted(set(acknowledged)), "the producer did not go on"


@pytest.fixture(scope="module")
def truth(live: LiveCluster, golden: list[str], java: JavaClient) -> Lines:
    """What Pulsar's reader returns of all topics; then the broker is killed, and nothing in the cluster changes any more."""
    with connected(live.cluster.service_url) as client:
        _fill(client, OPEN, IN_OPEN, 10)
        client.subscribe(OPEN, "s", initial_position=pulsar.InitialPosition.Earliest).close()
        with stage("live: Pulsar's reader"):
            found = in_the_same_words(java.read([*golden, *live.cluster.admin.topics("public/live")]))
        with stage("live: kill the broker"):
            live.kill_broker()
    return found


@pytest.mark.parametrize("way", ["scan", "spark", "mount", "export"])
def test_a_quiet_cluster_is_read_as_java_read_it(way: str, live: LiveCluster, ways: Ways, truth: Lines) -> None:
    """Half of each topic is in the bucket. Commands read a few topics, for each starts a process, and no mount has keys."""
    topics = [topic for topic in truth if way != "mount" or "encrypted" not in topic]
    if way == "export":
        topics = [OPEN, *(topic for topic in topics if topic.endswith(("/plain", "/txn", "/encrypted")))]
    with live.untouched(), stage(f"live: {way}"):
        found = ways.all[way](topics)
    assert differences(found, {topic: truth[topic] for topic in topics}) == []


def test_the_topics_are_half_in_the_bucket(ways: Ways, golden: list[str], truth: Lines) -> None:
    ways.bucket.refresh()
    for topic in golden:
        described = [ledger.describe()["where"] for ledger in ways.bucket.topic(topic).ledgers]
        assert described == sorted(described, reverse=True), topic
        assert set(described) == {"BookKeeper", "bucket"}, topic


def test_commands_leave_a_quiet_cluster_as_it_is(live: LiveCluster, ways: Ways, truth: Lines) -> None:
    with live.untouched(), stage("live: commands"):
        counted = {one["name"]: one["messages"] for one in json.loads(ways.command("count", *truth, "--json"))}
        head = [json.loads(line) for line in ways.command("head", OPEN, "-n", "5", "--json").splitlines()]
        listed = {one["name"] for one in json.loads(ways.command("topics", "--json"))}
    assert {topic: counted.get(topic) for topic in truth} == {topic: len(rows) for topic, rows in truth.items()}
    assert [line["value"] for line in head] == [f"{number:08d}" + "." * 10 for number in range(5)]
    assert listed >= truth.keys()


def test_commands_about_the_whole_cluster_leave_it_as_it_is(
    live: LiveCluster, ways: Ways, truth: Lines, tmp_path: Path
) -> None:
    dump = tmp_path / "dump.json.zst"
    with live.untouched(), stage("live: commands about the cluster"):
        dumped = ways.cluster_command("dump", str(dump))
        cursors = ways.cluster_command("cursors", "--all")
        # Without --bucket, objects of offloaded ledgers are not judged.
        checked = ways.cluster_command("check", "--grace", "1s", "--pass-seconds", "1", code=3)
    _require_whole_dump(dump, dumped, truth)
    assert {one["subscription"]: one["backlog_entries"] for one in cursors if one["topic"] == OPEN} == {"s": IN_OPEN}
    assert [one for one in checked["findings"] if one["loss"]] == []
    assert (checked["not_known"], checked["damaged_nodes"]) == ([], [])
    assert checked["topics"] >= len(truth)


def test_a_follower_that_is_interrupted_leaves_a_quiet_cluster_as_it_is(
    live: LiveCluster, ways: Ways, truth: Lines
) -> None:
    with live.untouched(), stage("live: head --follow"):
        lines = ways.interrupted_head(OPEN, IN_OPEN)
    assert [json.loads(line)["value"] for line in lines] == [f"{number:08d}" + "." * 10 for number in range(IN_OPEN)]


def test_nothing_but_reads_was_ever_sent(live: LiveCluster, truth: Lines) -> None:
    """By any process of ledgerfs, to any server; the broker's requests did not come this way."""
    live.require_only_reads()
    requests = live.requests()
    kinds = {(type(one), one.operation) for one in requests}
    assert {operation for kind, operation in kinds if kind is BookieRequest} == {2, 7}
    assert {4, 8} <= {operation for kind, operation in kinds if kind is ZooKeeperRequest}
    assert sum(requests.values()) > 1000


def _live_through(live: LiveCluster, ways: Ways, producer: LiveProducer, readings: list[Reading]) -> None:
    """Let all moments come about, and read in the ways of each."""
    offloaded: set[int] = set()
    for moment, ways_of_moment in MOMENTS.items():
        with stage(f"live: {moment}"):
            if moment == "a bookie crashed":
                _crash_while_reading(live)
            elif moment == "offloaded":
                producer.send(ENTRIES_A_LEDGER)
                producer.wait(producer.sent)
                offloaded = set(live.cluster.admin.offload(EVENTS))
            elif moment == "deleted from BookKeeper":
                live.cluster.wait_until_deleted_from_bookkeeper(offloaded)
            elif moment == "the bookie is back":
                live.start_bookie(2)
        for way in ways_of_moment:
            with stage(f"live: {way} meanwhile"):
                readings.append(_read(ways, way, moment, producer))
    assert len(offloaded) >= 2


def _read_golden(ways: Ways, way: str, rows: Lines) -> tuple[Lines, Lines]:
    """Read golden topics in one way, and return what they should have; no mount has keys."""
    expected = {topic: of_topic for topic, of_topic in rows.items() if way != "mount" or "encrypted" not in topic}
    if way == "follow":
        counts = {topic: len(of_topic) for topic, of_topic in expected.items()}
        return rows_that_come(ways.live.url, counts, {KEY_NAME: ways.keys.private}), expected
    return ways.all[way](list(expected)), expected


def _require_whole_dump(path: Path, reported: dict[str, Any], truth: Lines) -> None:
    """See to it that a dump has all topics, and each version of each schema."""
    assert reported["not_known"] == 0
    survey = survey_dump(path, lambda *_: None)
    assert {topic_of(name) for name in survey.topics} >= truth.keys()
    schemas = [record for record in read_dump(path) if isinstance(record, SchemaAnswer)]
    assert len(schemas) == survey.schemas.size > 0
    for one in schemas:
        assert one.payload is not None, one
        assert parse_stored_schema(one.payload, key=one.name, version=one.version).version == one.version


def _trim_up_to_the_subscription(live: LiveCluster) -> None:
    admin = live.cluster.admin
    first = admin.ledgers(EVENTS)[0]["ledgerId"]
    admin.set_retention_of_topic(EVENTS, _NO_RETENTION)
    wait_until(lambda: admin.trim(EVENTS) != first, "the broker trims")


def _as_java_reads(java: JavaClient, topic: str) -> list[dict[str, Any]]:
    return in_the_same_words(java.read([topic]))[topic]


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["ledger_id"], row["entry_id"]


def _fill(client: pulsar.Client, topic: str, messages: int, size: int) -> None:
    producer = produce_to(client, topic, size)
    producer.send(messages)
    producer.wait(messages)


def _read(ways: Ways, way: str, moment: str, producer: LiveProducer) -> Reading:
    least = producer.acknowledged
    return Reading(way, moment, least, ways.all[way]([EVENTS]))


def _crash_while_reading(live: LiveCluster) -> None:
    """Kill a bookie when a part of a topic is read, and read the rest."""
    scan = iter(open_bucket(live.url, OPEN_END).topic(LARGE).scan(["value"]))
    batches = [next(scan)]
    live.kill_bookie(2)
    batches += scan
    _require_numbers(batches, 1500)


def _require_numbers(batches: Iterable[pa.RecordBatch], count: int, size: int = 8000) -> None:
    """See to it that the values are those of the first messages of a producer, each once, in order."""
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert values == [b"%08d" % number + b"." * size for number in range(count)]


def _open_ledger(live: LiveCluster, topic: str) -> tuple[int, object]:
    """Return the ledger that is written, and its node."""
    ledger_id = live.cluster.admin.ledgers(topic)[-1]["ledgerId"]
    path = ledger_path(ledger_id)
    node = live.znodes()[path]
    assert parse_ledger_node(node.data, ledger_id, key=path).state is LedgerState.OPEN
    return ledger_id, node

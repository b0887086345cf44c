"""Topics with transactions: original ledgers are served, aborted messages are hidden by a snapshot, and no id is given twice."""

from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import coordinator_log_path, managed_ledger_path
from ledgerfs_cluster.recovery.checking.check import Check
from ledgerfs_cluster.recovery.journal import NewIds, new_ids_path
from ledgerfs_cluster.recovery.planning import Wanted
from ledgerfs_cluster.recovery.report import Outcome, Report
from tests.cluster.recovery.lost import Clusters
from tests.cluster.support.living_clusters import living
from tests.cluster.support.served_topics import ServedTopics
from tests.cluster.support.transaction_snapshots import Snapshot, parsed_snapshot
from tests.support.entries import sent

pytestmark = pytest.mark.process
ORDERS = "public/default/orders"
TOPIC = f"persistent://{ORDERS}"
COMMIT, ABORT = 21, 22
LEDGERS = (
    [sent("a"), sent("b committed", 1), sent("c aborted", 2), sent("d open", 3)],
    [sent("e committed", 1), sent("", 1, marker_type=COMMIT), sent("f"), sent("", 2, marker_type=ABORT)],
    [sent("g", 4), sent("h"), sent("", 4, marker_type=COMMIT)],
)
COMMITTED = ["a", "b committed", "e committed", "f", "g", "h"]
PLAIN = "public/default/plain"


@pytest.fixture(name="clusters")
def _clusters(clusters: Clusters) -> Clusters:
    for entries in LEDGERS:
        clusters.rolled(ORDERS, *entries)
    clusters.rolled(PLAIN, sent("plain"))
    return clusters


def values(clusters: Clusters, **options: Any) -> list[str]:
    table = open_bucket(clusters.old.bucket_url()).topic(TOPIC).scan(["value"], **options).to_arrow()
    return [value.decode() for value in table["value"].to_pylist()]


def listed(clusters: Clusters, topic: str = ORDERS) -> tuple[LedgerInfo, ...]:
    path = clusters.new.chroot + managed_ledger_path(managed_ledger_of(topic))
    return parse_managed_ledger_info(clusters.new.nodes[path], key=path).ledgers[:-1]


def snapshot_of(clusters: Clusters, topic: str = TOPIC) -> Snapshot:
    return parsed_snapshot(clusters.snapshots[topic])


def objects(clusters: Clusters) -> set[str]:
    return {path.name for path in clusters.old.bucket().iterdir()}


def whys(report: Report) -> dict[str, str | None]:
    return {one.topic.rpartition("/")[2]: one.reason for one in report.topics}


def log_of(clusters: Clusters, number: int) -> str:
    return clusters.new.chroot + coordinator_log_path(number)


def test_originals_are_served_and_open_transactions_end_in_a_ledger_of_markers(clusters: Clusters) -> None:
    before = objects(clusters)
    uuids = [one.context.uuid for one in clusters.old.list_of(ORDERS).ledgers[:-1] if one.context is not None]
    assert values(clusters, transactions="readable") == ["a", "b committed"]
    assert clusters.restore().is_well
    *originals, last = listed(clusters)
    assert [one.context.uuid for one in originals if one.context is not None] == uuids
    assert last.entries == 1
    found = snapshot_of(clusters)
    assert (found.topic, found.end, found.aborted) == (TOPIC, (last.ledger_id, 0), [(7, 2), (7, 3)])
    assert {at for _, at in found.aborts} == {found.end}
    assert PLAIN not in "".join(clusters.snapshots)
    made = objects(clusters) - before
    assert {name.removesuffix("-index").rpartition("-")[2] for name in made} == {str(last.ledger_id)}
    for transactions in ("readable", "committed"):
        assert values(clusters, transactions=transactions) == COMMITTED
    # The next run finds all as it should be.
    again = clusters.restore()
    assert again.is_well
    assert {one.outcome for one in again.topics} == {Outcome.THERE}
    assert objects(clusters) - before == made


@pytest.mark.parametrize("new_ids", [False, True])
def test_under_another_name_only_the_snapshot_hides(clusters: Clusters, new_ids: bool) -> None:
    before = objects(clusters)
    if new_ids:
        first = clusters.old.list_of(ORDERS).ledgers[0].ledger_id
        clusters.new.write_unlisted([b"taken"], (("component", b"x"),), ledger_id=first)
    name = "public/again/{topic}"
    assert clusters.restore(name, topics=ORDERS, gives_new_ids=new_ids).is_well
    ledgers = listed(clusters, "public/again/orders")
    found = snapshot_of(clusters, "persistent://public/again/orders")
    assert (len(ledgers), found.end) == (3, (ledgers[-1].ledger_id, 2))
    assert found.aborted == [(7, 2), (7, 3)]
    assert len(objects(clusters)) - len(before) == (6 if new_ids else 0)
    assert values(clusters, transactions="readable") == ["a", "b committed"]


def test_an_id_that_a_run_noted_for_markers_is_given_to_no_other_topic(clusters: Clusters) -> None:
    """The first run ended before it wrote that ledger, and the other topic comes first in the second run."""
    other = "public/default/earlier"
    clusters.rolled(other, sent("x", 9))
    note(clusters, 2**31)
    report = clusters.restore()
    assert report.is_well, whys(report)
    assert listed(clusters)[-1].ledger_id == 2**31
    assert listed(clusters, other)[-1].ledger_id == 2**31 + 1


def test_markers_are_not_written_in_front_of_the_messages(clusters: Clusters) -> None:
    note(clusters, 0)
    before = objects(clusters)
    assert "the topic has newer ledgers" in str(whys(clusters.restore())["orders"])
    assert objects(clusters) == before


def note(clusters: Clusters, ledger_id: int) -> None:
    """Note that a ledger is to end the open transactions of a topic."""
    path = new_ids_path(managed_ledger_of(ORDERS))
    clusters.new.zookeeper.set(clusters.new.chroot + path, NewIds(ledger_id, ()).build())


def test_a_lost_ledger_of_markers_is_reported(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    clusters.lose(listed(clusters)[-1].ledger_id)
    assert f"the bucket lacks ledger {listed(clusters)[-1].ledger_id}" in str(whys(clusters.restore())["orders"])


# The new cluster's transactions.


def test_brokers_without_transactions_get_topics_with_aborted_messages_only_on_demand(clusters: Clusters) -> None:
    clusters.brokers.has_transactions = False
    clusters.rolled("public/default/committed", sent("x", 1), sent("", 1, marker_type=COMMIT))
    found = whys(clusters.restore())
    assert "would deliver 2 entries" in str(found.pop("orders"))
    assert found == {"plain": None, "committed": None}
    assert clusters.restore(looks_for_transactions=False).topics[1].outcome is Outcome.RESTORED
    assert (len(listed(clusters)), clusters.snapshots) == (3, {})
    assert "--no-transactions" in str(whys(clusters.restore())["orders"])


def test_coordinators_begin_beyond_all_that_was_given(clusters: Clusters) -> None:
    clusters.new.zookeeper.set(
        f"{clusters.new.chroot}/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign",
        b'{"partitions":3}',
    )
    assert clusters.restore().is_well
    nodes = clusters.new.nodes
    made = [number for number in range(20) if log_of(clusters, number) in nodes]
    # Of the topic with transactions, too, in case that there are more coordinators one day.
    assert made == [0, 1, 2, 7]
    for number in made:
        info = parse_managed_ledger_info(nodes[log_of(clusters, number)], key="x")
        ((name, value),) = info.properties
        assert (info.ledgers, name) == ((), "max_local_txn_id")
        assert int(value) > 1_700_000_000_000_000


@pytest.mark.parametrize(("properties", "given"), [((), -1), ((("max_local_txn_id", "3"),), 3)])
def test_a_coordinator_in_use_may_give_ids_again(clusters: Clusters, properties: Any, given: int) -> None:
    value = build_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(9, 1, 1, 0),), None, properties))
    clusters.new.zookeeper.set(log_of(clusters, 7), value)
    found = whys(clusters.restore())
    assert "coordinator 7 is in use" in str(found["orders"])
    assert f"its last known id is {given}" in str(found["orders"])
    assert found["plain"] is None
    assert clusters.new.nodes[log_of(clusters, 7)] == value


def test_a_coordinator_in_use_that_is_beyond_all_is_no_reason(clusters: Clusters) -> None:
    value = build_managed_ledger_info(ManagedLedgerInfo((), None, (("max_local_txn_id", "4"),)))
    clusters.new.zookeeper.set(log_of(clusters, 7), value)
    assert clusters.restore().is_well


def test_without_a_snapshot_there_is_no_topic(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: str | bytes) -> None:
        raise InvalidOptionError("pip install 'ledgerfs[pulsar]'", key="pulsar-client")

    monkeypatch.setattr(clusters, "publish", refused)
    found = whys(clusters.restore())
    assert "pip install" in str(found["orders"])
    assert found["plain"] is None
    assert clusters.new.chroot + managed_ledger_path(managed_ledger_of(ORDERS)) not in clusters.new.nodes


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_brokers_show_of_aborted_transactions_is_found(clusters: Clusters, is_shown: bool) -> None:
    assert clusters.restore(topics=ORDERS).is_well
    ids = [one.ledger_id for one in listed(clusters)[:3]]
    entries = [(one, row, entry) for one, some in zip(ids, LEDGERS, strict=True) for row, entry in enumerate(some)]
    markers = {(ids[1], 1), (ids[1], 3), (ids[2], 2)}
    hidden = markers if is_shown else {(ids[0], 2), (ids[0], 3), *markers}
    with living(clusters.new) as seen:
        bucket, broker = open_bucket(clusters.old.bucket_url()), ServedTopics({TOPIC: entries}, hidden)
        (line,) = Check(bucket, seen, broker).run(Wanted(), lambda *_: None).topics  # type: ignore[arg-type]
    assert line.compared is not None
    assert (line.is_well, line.compared.counts["unexpected"]) == (not is_shown, 2 * is_shown)

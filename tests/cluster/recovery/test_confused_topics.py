"""Topics that clients would take for one, and what a dump does not know: refused, or said, in the plan already."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import coordinator_log_path, managed_ledger_path
from ledgerfs_cluster.recovery.dumped_cluster import read_dumped
from ledgerfs_cluster.recovery.report import Report
from ledgerfs_cluster.snapshot.answers import CursorAnswer
from ledgerfs_cluster.snapshot.dump_file import Record
from tests.cluster.recovery.lost import Clusters, catalog_of, dump_of, plan_topics
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.zookeeper import WriteFault
from tests.support.entries import sent

pytestmark = pytest.mark.process
RESTORED = "public/restored/{topic}"
COMMIT, ABORT = 21, 22


def whys(report: Report) -> dict[str, str | None]:
    return {
        one.source.rpartition("/persistent/")[0] + "/" + one.source.rpartition("/")[2]: one.reason
        for one in report.topics
    }


# Refused, in the plan already, and nothing of them is made.


def two_partitioned(clusters: Clusters) -> None:
    for number in (0, 1):
        clusters.rolled(f"public/one/p-partition-{number}")
        clusters.rolled(f"public/two/p-partition-{number + 2}")


def beside_restored_partitions(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    clusters.rolled("public/two/p")
    assert clusters.restore(RESTORED, topics="public/one/.*").is_well


def partitions_in_the_bucket(clusters: Clusters) -> None:
    clusters.rolled("public/restored/p-partition-0")
    clusters.rolled("public/two/p")


def producer_was_early(clusters: Clusters) -> None:
    clusters.rolled("public/default/p-partition-0")
    clusters.new.write_ledger("public/default/p", messages(1))


def partitions_were_made(clusters: Clusters) -> None:
    clusters.rolled("public/default/p")
    set_partitions(clusters, 2)


def partitions_were_loaded(clusters: Clusters) -> None:
    partitions_were_made(clusters)
    clusters.new.write_ledger("public/default/p-partition-1", messages(1))


def other_count_was_made(clusters: Clusters) -> None:
    for number in (0, 1):
        clusters.rolled(f"public/default/p-partition-{number}")
    set_partitions(clusters, 5)


def set_partitions(clusters: Clusters, count: int) -> None:
    path = f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p"
    clusters.new.zookeeper.set(path, b'{"partitions":%d}' % count)


@pytest.mark.parametrize(
    ("begin", "template", "topics", "why"),
    [
        (two_partitioned, RESTORED, ".*", "would get the same name"),
        (beside_restored_partitions, RESTORED, "public/two/.*", "would treat"),
        (
            partitions_in_the_bucket,
            RESTORED,
            "public/two/.*",
            "the bucket has persistent://public/restored/p-partition-0",
        ),
        (producer_was_early, "", ".*", "would treat as the same topic"),
        (partitions_were_made, "", ".*", "and clients would use that one"),
        (partitions_were_loaded, "", ".*", "would treat as the same topic"),
        (other_count_was_made, "", ".*", "with 5 partitions, but the lost cluster had 2"),
    ],
)
def test_what_clients_would_take_for_one_topic_is_refused(
    clusters: Clusters, begin: Callable[[Clusters], None], template: str, topics: str, why: str
) -> None:
    begin(clusters)
    before = [
        path for path in clusters.new.nodes if "/managed-ledgers/public" in path or "/partitioned-topics/" in path
    ]
    for is_plan in (True, False):
        found = clusters.restore(template, topics=topics, is_plan=is_plan)
        assert found.topics
        assert all(why in str(one.reason) for one in found.topics), (is_plan, whys(found))
    after = [path for path in clusters.new.nodes if "/managed-ledgers/public" in path or "/partitioned-topics/" in path]
    assert after == before


# Of one run.


def test_a_topic_beside_partitions_of_its_name_is_reported(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    clusters.rolled("public/one/p")
    plans = plan_topics(catalog_of(clusters.old))
    assert [any("do not get the messages of this topic" in said for said in one.remarks) for one in plans] == [
        True,
        False,
    ]


def test_what_was_no_partition_makes_none(clusters: Clusters, tmp_path: Path) -> None:
    """A topic may be called like a partition; the dump tells that there was no partitioned topic."""
    clusters.rolled("public/default/p-partition-0")
    clusters.rolled("public/default/p")
    dump = dump_of(clusters.old, tmp_path / "dump")
    done = clusters.restore(dump=dump)
    assert done.is_well
    assert clusters.partitions("public/default/p") is None
    assert not any("a partitioned topic has the same name" in said for one in done.topics for said in one.remarks)


# Of several.


def test_partitions_that_are_left_come_in_a_second_run(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    assert clusters.restore(RESTORED).is_well
    clusters.rolled("public/one/p-partition-1")
    found = clusters.restore(RESTORED)
    # Its count was set by the first run.
    assert "with 1 partitions, but the lost cluster had 2" in str(found.topics[1].reason)


def test_partitions_that_the_new_cluster_added_are_its_own(clusters: Clusters) -> None:
    """Their ledgers lie in the same bucket, and no lost cluster had them."""
    for number in (0, 1):
        clusters.rolled(f"public/default/p-partition-{number}")
    assert clusters.restore().is_well
    set_partitions(clusters, 3)
    ledger_id = clusters.new.write_ledger("public/default/p-partition-2", messages(2))
    clusters.new.roll_over("public/default/p-partition-2")
    clusters.new.offload("public/default/p-partition-2", ledger_id)
    clusters.rolled("public/default/b")
    partitions = ["public/default/p-partition-0", "public/default/p-partition-1"]
    own = "1 topics belong to the new cluster itself, such as persistent://public/default/p-partition-2"
    for is_plan in (True, False):
        found = clusters.restore(is_plan=is_plan)
        assert found.is_well, (is_plan, whys(found))
        assert sorted(whys(found)) == ["public/default/b", *partitions], is_plan
        assert any(own in one for one in found.remarks), (is_plan, found.remarks)
        assert clusters.partitions("public/default/p") == 3, is_plan


def test_what_the_lost_cluster_had_is_not_the_new_ones_own(clusters: Clusters, tmp_path: Path) -> None:
    """Somebody has made its list by hand, and a dump knows of more that was in it."""
    clusters.rolled("public/default/a")
    dump = dump_of(clusters.old, tmp_path / "dump")
    path = managed_ledger_path(managed_ledger_of("public/default/a"))
    clusters.new.zookeeper.set(clusters.new.chroot + path, clusters.old.nodes[clusters.old.chroot + path])
    assert "already has a topic with this name" in str(clusters.restore(dump=dump).topics[0].reason)
    (remark,) = [one for one in clusters.restore().remarks if "belong to the new cluster itself" in one]
    assert "public/default/a" in remark
    clusters.rolled("public/default/a")
    assert "already has a topic with this name" in str(clusters.restore().topics[0].reason)


def test_under_one_name_the_new_clusters_own_and_a_restored_one_are_reported_apart(clusters: Clusters) -> None:
    clusters.rolled("public/default/a")
    assert clusters.restore(RESTORED).is_well
    ledger_id = clusters.new.load_restored("public/restored/a")
    clusters.new.append(ledger_id, messages(1))
    clusters.new.roll_over("public/restored/a")
    clusters.new.offload("public/restored/a", ledger_id)
    again = clusters.restore(RESTORED)
    assert whys(again) == {"public/default/a": None}
    clusters.rolled("public/default/a")
    assert "not in its ledger list" in str(clusters.restore(RESTORED).topics[0].reason)
    # What is to have the name of a topic of the new cluster's own is refused, and not that topic.
    clusters.rolled("public/other/b")
    own = clusters.new.write_ledger("public/restored/b", messages(1))
    clusters.new.roll_over("public/restored/b")
    clusters.new.offload("public/restored/b", own)
    reported = whys(clusters.restore(RESTORED))
    assert "already has a topic with this name" in str(reported["public/other/b"])


def test_a_template_makes_nothing_of_what_it_made(clusters: Clusters) -> None:
    """Its broker has offloaded messages of its own, under the name that the template would change once more."""
    template = "public/{namespace}-x/{topic}"
    clusters.rolled("public/default/a")
    for _ in range(3):
        found = clusters.restore(template)
        assert whys(found) == {"public/default/a": None}
        ledger_id = clusters.new.load_restored("public/default-x/a")
        clusters.new.append(ledger_id, messages(1))
        clusters.new.roll_over("public/default-x/a")
        clusters.new.offload("public/default-x/a", ledger_id)
    assert not any("default-x-x" in path for path in clusters.new.nodes)


@pytest.mark.parametrize("is_lost", [False, True])
def test_no_topic_gets_a_name_of_which_the_bucket_has_ledgers(clusters: Clusters, is_lost: bool) -> None:
    """Readers of the bucket would take what the new cluster writes for that one's, transactions included."""
    clusters.rolled("public/x/a", sent("mine"))
    other = clusters.rolled("public/y/a", sent("open", 1), sent("other's"))
    if is_lost:
        (path,) = clusters.old.bucket().glob(f"*-ledger-{other}")
        path.unlink()
    for is_plan in (True, False):
        (line,) = clusters.restore("public/y/{topic}", topics="public/x/a", is_plan=is_plan).topics
        assert f"already has other ledgers of persistent://public/y/a, such as {other}" in str(line.reason)
    assert clusters.restore("public/z/{topic}", topics="public/x/a").is_well


def test_copies_of_a_run_that_did_not_end_keep_no_topic_from_its_name(clusters: Clusters) -> None:
    first = clusters.rolled("public/x/a", sent("mine"))
    clusters.new.write_unlisted([b"taken"], (("component", b"x"),), ledger_id=first)
    ended = 0
    for number in range(12):
        clusters.new.zookeeper.write_faults.extend([*[WriteFault.NONE] * number, WriteFault.EXPIRED_BEFORE])
        try:
            found = clusters.restore("public/z/{topic}", topics="public/x/a", gives_new_ids=True)
        except LedgerfsError:
            ended += 1
        else:
            break
        finally:
            clusters.new.zookeeper.write_faults.clear()
    assert found.is_well
    assert ended > 3
    # The same name for another cluster of the same bucket would have its rows twice.
    with LiveCluster(clusters.old.buckets.parent / "third") as third:
        third.zookeeper.takes_writes = True
        third.write_unlisted([b"taken"], (("component", b"x"),), ledger_id=first)
        again = clusters.restore("public/z/{topic}", topics="public/x/a", gives_new_ids=True, into=third)
        assert "which are not of persistent://public/x/a" in str(again.topics[0].reason)


# A cluster that is in use.


def test_a_run_into_a_cluster_in_use_ends_none_of_its_transactions(clusters: Clusters, tmp_path: Path) -> None:
    """Ids of ledgers are advanced while some are under way, and their ends come into a ledger of another block."""
    topic = "public/default/a"
    clusters.rolled(topic, sent("old"), sent("old open", 1))
    clusters.rolled("public/default/b")
    assert clusters.restore(topics=topic).is_well
    first = clusters.new.load_restored(topic)
    committed, aborted, still_open = (number_given(clusters.new, 7) + number for number in (1, 2, 3))
    clusters.new.append(first, [sent("committed", committed), sent("aborted", aborted), sent("open", still_open)])
    clusters.new.roll_over(topic)
    found = clusters.restore(topics="public/default/b")
    assert found.is_well, whys(found)
    clusters.new.advance_ids()
    clusters.new.offload(topic, first)
    between = clusters.new.list_of(topic).ledgers[-1].ledger_id
    clusters.new.append(between, [sent("plain")])
    clusters.new.roll_over(topic)
    last = clusters.new.list_of(topic).ledgers[-1].ledger_id
    assert last >> 32 > first >> 32
    clusters.new.append(
        last, [sent("", committed, marker_type=COMMIT), sent("", aborted, marker_type=ABORT), sent("after")]
    )
    clusters.new.roll_over(topic)
    for one in (between, last):
        clusters.new.offload(topic, one)
    seen = ["old", "committed", "plain", "after"]
    assert values(clusters, topic) == seen
    # It is lost in turn.
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        again = clusters.restore(topics=topic, into=third)
        assert again.is_well
        # What the first cluster left open was ended by the first recovery.
        assert any("2 entries are of aborted transactions" in one for one in again.topics[0].remarks)
        assert any("1 entries are of transactions without a known end" in one for one in again.topics[0].remarks)
        named = parse_managed_ledger_info(
            third.nodes[third.chroot + managed_ledger_path(managed_ledger_of(topic))], key="x"
        )
        assert len([one for one in named.ledgers if one.context is not None]) == 6
    assert values(clusters, topic) == seen


def number_given(cluster: LiveCluster, coordinator: int) -> int:
    """Return the number behind which a coordinator of transactions begins."""
    path = coordinator_log_path(coordinator)
    return int(
        dict(parse_managed_ledger_info(cluster.nodes[cluster.chroot + path], key=path).properties)["max_local_txn_id"]
    )


def values(clusters: Clusters, topic: str) -> list[str]:
    table = open_bucket(clusters.old.bucket_url()).topic(topic).scan(["value"]).to_arrow()
    return [value.decode() for value in table["value"].to_pylist()]


# What a dump does not know.


def test_what_the_plan_says_of_subscriptions_is_what_the_run_says(clusters: Clusters, tmp_path: Path) -> None:
    ledger_id = clusters.rolled("public/default/a")
    clusters.old.add_cursor("public/default/a", "s", (ledger_id, 1), stale=(ledger_id, -1))
    path = tmp_path / "dump"
    dump_of(clusters.old, path)
    dump = read_dumped(lambda: silent(path))
    planned = clusters.restore(dump=dump, is_plan=True)
    (said,) = (one for one in planned.topics[0].remarks if one.startswith("subscription s:"))
    done = clusters.restore(dump=dump)
    assert said in done.topics[0].remarks


def silent(path: Path) -> Iterator[Record]:
    """Yield the records of a dump that was made while bookies were silent."""
    from ledgerfs_cluster.snapshot.dump_file import read_dump

    for record in read_dump(path):
        yield CursorAnswer(record.path, None, "no bookie answers") if isinstance(record, CursorAnswer) else record

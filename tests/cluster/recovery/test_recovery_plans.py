"""What is planned of each topic: its ledgers, what will be missing and why, and which topics stay away."""

import json
import re
from pathlib import Path

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.recovery.planning import Wanted
from ledgerfs_cluster.recovery.report import TopicRecovery
from tests.cluster.recovery.lost import catalog_of, dump_of, plan_topics
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

pytestmark = pytest.mark.process
ORDERS = "public/default/persistent/orders"


@pytest.fixture(name="lost")
def _lost(cluster: LiveCluster) -> LiveCluster:
    """Two topics: two ledgers of the first are offloaded, and of five and three messages; the last one is open."""
    for size in (5, 3):
        cluster.offload("public/default/orders", _rolled(cluster, "orders", size))
    cluster.write_ledger("public/default/orders", messages(4))
    cluster.offload("public/default/others", _rolled(cluster, "others", 2))
    return cluster


def _rolled(cluster: LiveCluster, topic: str, size: int) -> int:
    ledger_id = cluster.write_ledger(f"public/default/{topic}", messages(size))
    cluster.roll_over(f"public/default/{topic}")
    return ledger_id


def _one(plans: list[TopicRecovery], source: str) -> TopicRecovery:
    return next(one for one in plans if one.source == source)


def test_without_a_dump_all_of_the_bucket_is_planned_and_nobody_knows_what_is_missing(lost: LiveCluster) -> None:
    plan = _one(plan_topics(catalog_of(lost)), ORDERS)
    assert (plan.target, len(plan.ledgers), plan.entries, plan.missing) == (ORDERS, 2, 8, ())
    assert not plan.is_missing_exact


def test_the_last_ledger_is_missing_and_counted_by_the_dump(lost: LiveCluster, tmp_path: Path) -> None:
    plan = _one(plan_topics(catalog_of(lost), dump_of(lost, tmp_path / "d")), ORDERS)
    (part,) = plan.missing
    last = lost.list_of("public/default/orders").ledgers[-1].ledger_id
    assert (part.last_ledger, part.entries, part.is_at_least) == (last, 4, True)
    assert "not offloaded when the dump was made" in part.why
    assert not plan.is_missing_exact


def test_a_ledger_that_the_bucket_lost_is_counted_exactly(lost: LiveCluster, tmp_path: Path) -> None:
    first = lost.list_of("public/default/orders").ledgers[0]
    assert first.context is not None
    for path in lost.bucket().glob(f"{first.context.uuid}*"):
        path.unlink()
    plan = _one(plan_topics(catalog_of(lost), dump_of(lost, tmp_path / "d")), ORDERS)
    assert next((one.first_ledger, one.entries, one.is_at_least) for one in plan.missing) == (first.ledger_id, 5, False)
    assert "the bucket does not have it" in plan.missing[0].why
    assert plan.entries == 3


def test_what_expired_before_the_dump_does_not_come_back(lost: LiveCluster, tmp_path: Path) -> None:
    first = lost.list_of("public/default/orders").ledgers[0].ledger_id
    lost.trim("public/default/orders", first, only_list=True)  # its objects stay, as where a deletion failed
    dump = dump_of(lost, tmp_path / "d")
    plan = _one(plan_topics(catalog_of(lost), dump), ORDERS)
    assert (plan.left_out, plan.entries) == ((first,), 3)
    assert any("no longer belonged to the topic" in one for one in plan.remarks)


def test_what_was_offloaded_after_the_dump_is_restored(lost: LiveCluster, tmp_path: Path) -> None:
    dump = dump_of(lost, tmp_path / "d")
    last = lost.list_of("public/default/orders").ledgers[-1].ledger_id
    lost.roll_over("public/default/orders")
    newer = _rolled(lost, "orders", 6)
    lost.offload("public/default/orders", last)
    lost.offload("public/default/orders", newer)
    plan = _one(plan_topics(catalog_of(lost), dump), ORDERS)
    assert (plan.entries, plan.missing) == (18, ())


def test_a_topic_that_was_deleted_before_the_dump_stays_away_and_a_newer_one_comes(
    lost: LiveCluster, tmp_path: Path
) -> None:
    dump = dump_of(lost, tmp_path / "d")
    del dump.lists[ORDERS]
    assert "had deleted it" in str(_one(plan_topics(catalog_of(lost), dump), ORDERS).reason)
    dump.began_ms = 0
    assert _one(plan_topics(catalog_of(lost), dump), ORDERS).reason is None


def test_of_two_copies_the_listed_one_is_restored_and_a_damaged_one_gives_way(
    lost: LiveCluster, tmp_path: Path
) -> None:
    first = lost.list_of("public/default/orders").ledgers[0].ledger_id
    newest = lost.offload("public/default/orders", first)
    assert next(ref.uuid for ref in _one(plan_topics(catalog_of(lost)), ORDERS).ledgers) == newest
    data = lost.bucket() / f"{newest}-ledger-{first}"
    data.write_bytes(data.read_bytes()[:-5])
    plan = _one(plan_topics(catalog_of(lost), dump_of(lost, tmp_path / "d")), ORDERS)
    assert plan.ledgers[0].uuid != newest
    assert plan.entries == 8


def test_names_and_partitions(cluster: LiveCluster) -> None:
    for number in (0, 1):
        ledger_id = cluster.write_ledger(f"public/default/p-partition-{number}", messages(2))
        cluster.roll_over(f"public/default/p-partition-{number}")
        cluster.offload(f"public/default/p-partition-{number}", ledger_id)
    names = "restored/{namespace}/{tenant}-{topic}"
    plans = plan_topics(catalog_of(cluster), wanted=Wanted((re.compile("public/default/p-partition-0"),), names))
    assert [one.target_topic for one in plans] == [
        f"persistent://restored/default/public-p-partition-{number}" for number in (0, 1)
    ]
    assert plan_topics(catalog_of(cluster), wanted=Wanted((re.compile("other/.*"),))) == []


@for_each("template", ["public/restored", "{topic}/x", "a/{name}/{topic}", "a/b/{topic}-old"])
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(InvalidOptionError):
        Wanted(template=template)


def test_damaged_ledgers_are_missing_also_without_a_dump(tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    folder.mkdir()
    entries = [frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"value") for i in range(5)]
    put_in_folder(folder, *(offload(entries, number, uuid=number) for number in (1, 2)))
    (data,) = folder.glob("*-ledger-1")
    data.write_bytes(data.read_bytes()[:-10])
    planned = run("recover", "plan", str(folder))
    assert b"ledger 1: 5 entries" in planned.stderr
    assert b"are damaged" in planned.stderr
    (topic,) = json.loads(run("recover", "plan", str(folder), "--json").stdout)["topics"]
    assert [one["first_ledger"] for one in topic["missing"]] == [1]

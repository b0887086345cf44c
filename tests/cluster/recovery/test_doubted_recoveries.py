"""What a hostile operator tried: nothing of it passes without a word, and exit code 0 is not given for less than was there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery import recovery
from ledgerfs_cluster.recovery.generated_ids import FreeIds, advance_ids
from ledgerfs_cluster.recovery.planning import Wanted, without_others
from ledgerfs_cluster.recovery.report import Report
from tests.cluster.recovery.lost import Clusters, catalog_of, dump_of, plan_topics
from tests.cluster.support.live_clusters import messages
from tests.support.each import for_each
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import S3Server

pytestmark = pytest.mark.process
ORDERS = "public/default/orders"
NAME = managed_ledger_of(ORDERS)


@pytest.fixture(name="clusters")
def _clusters(clusters: Clusters) -> Clusters:
    for _ in range(3):
        clusters.rolled(ORDERS, *messages(3))
    return clusters


def _why(report: Report) -> str:
    (line,) = report.topics
    assert not report.is_well
    return str(line.reason)


def test_objects_that_go_after_a_recovery_are_reported_by_the_next_plan_and_run(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    middle = clusters.old.list_of(ORDERS).ledgers[1].ledger_id
    clusters.lose(middle)
    for is_plan in (True, False):
        assert f"the bucket lacks ledger {middle}" in _why(clusters.restore(is_plan=is_plan)), is_plan


def test_copies_that_contradict_each_other_are_missing_and_not_forgotten(tmp_path: Path) -> None:
    one, other = (offload([b"a"] * size, 5, name=NAME, uuid=size) for size in (2, 3))
    whole = offload([b"b"], 6, name=NAME, uuid=9)
    catalog = open_bucket(put_in_folder(tmp_path, one, other, whole)).refresh()
    (found,) = plan_topics(catalog)
    assert [ref.ledger_id for ref in found.ledgers] == [6]
    assert [(part.first_ledger, "two copies" in part.why) for part in found.missing] == [(5, True)]


def test_a_topic_that_is_called_as_the_template_would_call_another_is_not_skipped(clusters: Clusters) -> None:
    clusters.rolled("public/restored/orders", *messages(2))
    plans = plan_topics(catalog_of(clusters.old), wanted=Wanted(template="public/restored/{topic}"))
    assert [one.source for one in plans if one.reason is None] == []
    assert all("several topics" in str(one.reason) for one in plans)
    same = plan_topics(catalog_of(clusters.old), wanted=Wanted(template="public/{namespace}/{topic}"))
    assert [one.target == one.source and one.reason is None for one in same] == [True, True]


def test_a_late_ledger_is_reported_where_ids_are_new(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    assert clusters.restore(template="public/again/{topic}", gives_new_ids=True).is_well
    clusters.rolled(ORDERS)
    report = clusters.restore(template="public/again/{topic}", gives_new_ids=True)
    assert "not in its ledger list" in str(report.topics[0].reason)


def test_ledgers_that_change_while_they_are_copied_get_no_id_of_others(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    name = f"{clusters.new.chroot}/ledgerfs/recovery/new-ids/{managed_ledger_of('public/again/orders')}"
    clusters.new.zookeeper.set(name, b'{"first": 4294967296, "ledgers": [1, 2]}')
    report = clusters.restore(template="public/again/{topic}", gives_new_ids=True)
    assert "under another name" in str(report.topics[0].reason)
    assert clusters.new.chroot + managed_ledger_path(managed_ledger_of("public/again/orders")) not in clusters.new.nodes


def test_what_was_restored_in_another_way_is_reported(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore(looks_for_transactions=False).is_well
    assert "--no-transactions" in _why(clusters.restore())
    clusters.old.add_cursor(ORDERS, "billing", (clusters.old.list_of(ORDERS).ledgers[0].ledger_id, 0))
    dump = dump_of(clusters.old, tmp_path / "dump")
    assert "0 subscriptions, but the dump has 1" in _why(clusters.restore(dump=dump, looks_for_transactions=False))


@for_each(
    ("name", "value"),
    [
        ("message_ttl_in_seconds", 60),
        ("subscription_expiration_time_minutes", 5),
        ("backlog_quota_map", {"destination_storage": {"limitSize": 1, "policy": "consumer_backlog_eviction"}}),
    ],
)
def test_policies_that_expire_what_is_restored_are_refused(clusters: Clusters, name: str, value: object) -> None:
    kept = {"retention_policies": {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}, name: value}
    clusters.brokers.add_namespace("public/default", **kept)
    clusters.new.set_policies("public/default", **kept)
    assert "delete or expire" in _why(clusters.restore())


def test_ledgers_of_another_cluster_under_the_same_name_stay_away(
    clusters: Clusters, tmp_path: Path, s3: S3Server, s3_bucket: str
) -> None:
    dump = dump_of(clusters.old, tmp_path / "dump")
    nodes = {**dump.settings.nodes, "/admin/clusters/old": b"{}", "/admin/clusters/global": b"{}"}
    dump = replace(dump, settings=replace(dump.settings, nodes=nodes))
    for number, cluster in enumerate(("old", "other", None)):
        made = offload([b"x"], 10_000 + number, name=NAME, uuid=number + 1)
        reported = {} if cluster is None else {"pulsarclustername": cluster}
        for key, data in made.objects.items():
            role = "index" if key.endswith("-index") else "data"
            names = {"role": role, "managedledgername": NAME, "s3managedledgeroffloaderformatversion": "1"}
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata={**names, **reported})
    bucket = open_bucket(f"s3://{s3_bucket}", s3.options)
    plans = without_others(plan_topics(bucket.refresh(), dump), dump, bucket)
    (found,) = plans
    assert [ref.ledger_id for ref in found.ledgers] == [10_000, 10_002]
    assert any("ledgers of another cluster, other," in one for one in found.remarks)


def test_a_ledger_that_gets_an_id_of_the_bucket_before_ids_are_advanced_is_seen(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> FreeIds:
        clusters.new.write_ledger("public/default/others", messages(1))
        return advance_ids(*arguments)

    monkeypatch.setattr(recovery, "advance_ids", late)
    assert "of its ledger ids are already used in the new cluster" in _why(clusters.restore())

"""A cluster that topics were restored into is lost, too: what it was given under other names, or ids, is served again."""

from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.recovery.lost import Clusters, dump_of
from tests.cluster.support.live_clusters import LiveCluster, messages

pytestmark = pytest.mark.process
TOPIC, AGAIN = "public/default/a", "public/again/a"
NOTHING = lambda *_: None  # noqa: E731


@pytest.fixture(name="clusters")
def _clusters(clusters: Clusters) -> Clusters:
    """One topic with two offloaded ledgers."""
    for size in (5, 3):
        clusters.rolled(TOPIC, *messages(size))
    return clusters


def _listed(clusters: Clusters, topic: str) -> list[LedgerInfo]:
    info = clusters.list_of(topic)
    assert info is not None
    return list(info.ledgers[:-1])


def test_what_was_restored_under_another_name_is_restored_again(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore("public/again/{topic}").is_well
    first = [(one.ledger_id, one.entries) for one in _listed(clusters, AGAIN)]
    clusters.new.load_restored(AGAIN)
    dump = dump_of(clusters.new, tmp_path / "dump")
    with LiveCluster(tmp_path / "newest") as newest:
        newest.zookeeper.takes_writes = True
        clusters.new = newest
        of_again, of_first = sorted(clusters.restore(dump=dump).topics, key=lambda one: one.source)
        assert (of_again.reason, of_again.missing_entries) == (None, 0)
        assert [(one.ledger_id, one.entries) for one in _listed(clusters, AGAIN)] == first
        assert "had deleted it" in str(of_first.reason)
        # What is there needs no more than that either.
        again = clusters.restore(dump=dump)
        assert [one.reason for one in again.topics if one.source == managed_ledger_of(AGAIN)] == [None]


def test_copies_of_an_earlier_run_are_no_topics_of_the_lost_cluster(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    target = "public/default2/a"
    for _ in range(3):
        report = clusters.restore("public/{namespace}2/{topic}", gives_new_ids=True)
        assert [one.target for one in report.topics] == [managed_ledger_of(target)]
        assert report.is_well
    # As of a run that ended before its last copy.
    clusters.lose(_listed(clusters, target)[0].ledger_id)
    report = clusters.restore("public/{namespace}2/{topic}", gives_new_ids=True)
    assert [one.target for one in report.topics] == [managed_ledger_of(target)]

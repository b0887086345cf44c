"""Ledgers that schemas and compaction name, and that are gone: named by two looks, as what they are."""

from types import SimpleNamespace

import pytest

from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs_cluster.check.check import Check, Rules, check_cluster
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.living_clusters import living
from tests.cluster.support.sick_clusters import topic_of_ledgers, write_of

TOPIC = "persistent://public/default/orders"
OTHER = "persistent://public/default/others"
BUCKET = "#pulsar.internal.delayed.bucket"


class Named:
    """Two topics with one of each thing that is named elsewhere than in a list; the second one's compaction is at rest."""

    def __init__(self, cluster: LiveCluster) -> None:
        first, _, third, _ = topic_of_ledgers(cluster, TOPIC)
        own, _, _, _ = topic_of_ledgers(cluster, OTHER)
        for text in (b"1", b"22", b"333"):
            cluster.add_schema(TOPIC, SchemaInfo("STRING", text, {}))
        self.schemas = cluster.schema_ledgers(TOPIC)
        self.compacted, self.at_rest = (
            write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", one)) for one in (TOPIC, OTHER)
        )
        self.old = write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", TOPIC))
        self.compaction = cluster.add_cursor(
            TOPIC, "__compaction", (first, 3), stale=(first, 1), properties={"CompactedTopicLedger": self.compacted}
        )
        cluster.add_cursor(OTHER, "__compaction", (own, 3), properties={"CompactedTopicLedger": self.at_rest})
        self.subscription = cluster.add_cursor(TOPIC, "late", (third, 3), stale=(first, 2))
        self.buckets = [
            write_of(cluster, "delayed-index-bucket", ("pulsar/delayedIndexTopic", TOPIC)) for _ in range(2)
        ]
        names = {f"{BUCKET}_{number}_{number}": str(one) for number, one in enumerate(self.buckets)}
        cluster.add_cursor(TOPIC, "delayed", (first, 1), cursor_properties=names)
        self.all = {*self.schemas, self.compacted, self.at_rest, self.compaction, self.subscription, *self.buckets}


def checked(cluster: LiveCluster, *, bookies: bool = True) -> Check:
    with living(cluster) as opened:
        reads = NewestEntries(opened.reading) if bookies else None
        return check_cluster(opened, reads, [], Rules(3_600_000, 0), lambda *_: None)


def reported(check: Check) -> dict[tuple[FindingKind, str], tuple[int, ...]]:
    return {(one.kind, one.subject): one.ledger_ids for one in check.findings}


def only(check: Check, kind: FindingKind) -> Finding:
    (found,) = (one for one in check.findings if one.kind is kind)
    return found


def test_what_is_there_is_not_named(cluster: LiveCluster) -> None:
    named = Named(cluster)
    cluster.delete_from_bookkeeper(named.old)
    done = checked(cluster)
    assert (done.findings, done.passes) == ([], 1)
    assert named.all <= set(done.survey.ledgers["ledger_id"].tolist())


def test_each_is_named_by_what_named_it(cluster: LiveCluster) -> None:
    named = Named(cluster)
    for one in (named.schemas[0], named.schemas[2], named.compacted, named.at_rest, named.subscription, *named.buckets):
        # What subscriptions alone name is no message.
        cluster.delete_from_bookkeeper(one)
    done = checked(cluster)
    assert reported(done) == {
        (FindingKind.LOST_SCHEMA_LEDGER, "schema public/default/orders"): (named.schemas[0], named.schemas[2]),
        (FindingKind.LOST_COMPACTED_LEDGER, TOPIC): (named.compacted,),
        (FindingKind.LOST_COMPACTED_LEDGER, OTHER): (named.at_rest,),
    }
    assert all(one.kind.is_loss for one in done.findings)
    assert "versions 0, 2" in only(done, FindingKind.LOST_SCHEMA_LEDGER).evidence


def test_without_the_state_of_compaction_what_it_names_is_not_judged(cluster: LiveCluster) -> None:
    named = Named(cluster)
    cluster.delete_from_bookkeeper(named.compacted)
    assert checked(cluster, bookies=False).findings == []
    cluster.delete_from_bookkeeper(named.compaction)
    assert reported(checked(cluster)) == {(FindingKind.LOST_COMPACTED_LEDGER, TOPIC): (named.compaction,)}


def test_what_is_named_anew_meanwhile_is_not_named(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema is deleted ledgers first; compaction names another ledger; a subscription is at rest again: all between two looks."""
    named = Named(cluster)
    first = min(named.all)
    for one in (*named.schemas, named.compacted, named.subscription, named.buckets[0]):
        cluster.delete_from_bookkeeper(one)

    def end(_: float) -> None:
        cluster.zookeeper.delete("/schemas/public/default/orders")
        new = write_of(cluster, "compacted-ledger", ("pulsar/compactedTopic", TOPIC))
        cluster.add_cursor(TOPIC, "__compaction", (first, 3), properties={"CompactedTopicLedger": new})
        cluster.add_cursor(TOPIC, "late", (first, 3))
        cluster.add_cursor(TOPIC, "delayed", (first, 1), cursor_properties={f"{BUCKET}_1_1": str(named.buckets[1])})

    monkeypatch.setattr("ledgerfs_cluster.check.check.time", SimpleNamespace(sleep=end))
    done = checked(cluster)
    assert (done.findings, done.passes) == ([], 2)


def test_what_the_second_look_cannot_read_is_said(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspect by the first look, and neither confirmed nor well by the second one: bookies are away, and a list is damaged by then."""
    named = Named(cluster)
    lost = int(cluster.list_of(OTHER).ledgers[0].ledger_id)
    for one in (named.compacted, lost):
        cluster.delete_from_bookkeeper(one)

    def end(_: float) -> None:
        for one in cluster.bookies:
            one.kill()
        cluster.zookeeper.set("/managed-ledgers/public/default/persistent/others", b"\xff")

    monkeypatch.setattr("ledgerfs_cluster.check.check.time", SimpleNamespace(sleep=end))
    done = checked(cluster)
    assert [one for one in done.findings if one.kind.is_loss] == []
    (trouble,) = done.survey.troubles
    assert "orders/__compaction: its position may be out of date" in trouble
    assert [one.path for one in done.survey.damaged] == ["/managed-ledgers/public/default/persistent/others"]

"""Whoever deletes what no list names deletes nothing of a lost cluster: it may be late, or back, and all that there is of its rows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.check.check import Check, Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.lifecycle.service.making import service_of
from tests.cluster.recovery.lost import Clusters
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import living
from tests.support.s3 import S3Server

pytestmark = pytest.mark.process
A, B, AGAIN = "public/default/a", "public/default/b", "public/restored/a"


class Store:
    """The bucket of both clusters, in a store that keeps user metadata: these name the cluster, which both are called."""

    def __init__(self, folder: Path, s3: S3Server, name: str) -> None:
        self._folder, self._s3, self._name = folder, s3, name

    @property
    def bucket(self) -> Bucket:
        return open_bucket(f"s3://{self._name}", self._s3.options)

    @property
    def policy(self) -> bytes:
        options = "".join(f'{name} = "{value}"\n' for name, value in self._s3.options.items())
        return f"""
            [defaults]
            orphans = true
            orphan_grace = "0s"
            trash_grace = "0s"
            bucket = "tier"
            [buckets.tier]
            url = "s3://{self._name}"
            bucket = "tier"
            region = "us-east-1"
            endpoint = "{self._s3.endpoint}"
            [buckets.tier.options]
            {options}
            [[topics]]
            match = ".*"
            offload = false
            """.encode()

    def push(self, topic: str) -> None:
        """Put what is new in the folder into the store, as of this topic."""
        reported = {"ManagedLedgerName": managed_ledger_of(topic), "pulsarclustername": "ours"}
        there = self.keys()
        for one in self._folder.glob("*-ledger-*"):
            if one.name not in there:
                self._s3.client.put_object(Bucket=self._name, Key=one.name, Body=one.read_bytes(), Metadata=reported)

    def keys(self) -> set[str]:
        found = self._s3.client.list_objects_v2(Bucket=self._name).get("Contents", [])
        return {one["Key"] for one in found if "-ledger-" in one["Key"]}

    def values(self) -> list[bytes]:
        """Return what readers of the bucket get of the topic."""
        self.bucket.refresh()
        found: list[bytes] = self.bucket.topic(A).scan(["value"]).to_arrow()["value"].to_pylist()
        return found


@pytest.fixture(name="clusters")
def _clusters(clusters: Clusters) -> Clusters:
    clusters.new.zookeeper.set("/admin/clusters/ours", b"{}")
    return clusters


@pytest.fixture(name="store")
def _store(clusters: Clusters, s3: S3Server, s3_bucket: str) -> Store:
    return Store(clusters.old.bucket(), s3, s3_bucket)


def grow_older(cluster: LiveCluster) -> None:
    """Have all lists be older than what comes into the store from now on, which keeps times in whole seconds.

    Objects that are older than a list are no orphans of it, whatever else is true of them.
    """
    with cluster.zookeeper._lock:
        for node in cluster.zookeeper._tree.nodes.values():
            node.created_ms -= 5000
            node.changed_ms -= 5000


def clean(cluster: LiveCluster, store: Store) -> None:
    """Have a lifecycle mark, delete and forget what no list names, without troubles."""
    file = parse_policy_file(store.policy, Path("policy.toml"))
    for _ in range(3):
        with living(cluster) as seen, service_of(file, seen, None, None, 0.0) as made:
            made.run(lambda *_: None, once=True)
            assert made.events.troubles() == []


def checked(cluster: LiveCluster, store: Store) -> Check:
    with living(cluster) as seen:
        return check_cluster(seen, None, [Tier(store.bucket, frozenset({"tier"}))], Rules(0, 0.0), lambda *_: None)


def unlisted_copy(cluster: LiveCluster, topic: str, ledger_id: int) -> None:
    """Have the bucket get another offload of a ledger that its list does not name."""
    before = cluster.list_of(topic).ledgers
    cluster.offload(topic, ledger_id)
    cluster.change_list(topic, lambda info: replace(info, ledgers=before))


def test_nothing_is_deleted_as_an_orphan_where_nothing_is_one(clusters: Clusters, store: Store) -> None:
    """And what is one goes: else the tests below would show nothing."""
    clusters.rolled(A)
    clusters.restore()
    clusters.new.load_restored(A)
    mine = clusters.new.list_of(A).ledgers[-1].ledger_id
    clusters.new.append(mine, messages(1))
    clusters.new.roll_over(A)
    clusters.new.offload(A, mine)
    store.push(A)
    before = store.keys()
    grow_older(clusters.new)
    unlisted_copy(clusters.new, A, mine)
    store.push(A)
    assert len(store.keys()) == len(before) + 2
    assert [one.kind.value for one in checked(clusters.new, store).findings] == ["orphan-object"]
    clean(clusters.new, store)
    assert store.keys() == before


def came_back(clusters: Clusters, store: Store) -> None:
    """The bucket had lost the oldest ledger when the topic was restored."""
    ids = [clusters.rolled(A) for _ in range(3)]
    kept = {one: one.read_bytes() for one in clusters.old.bucket().glob(f"*-ledger-{ids[0]}*")}
    clusters.lose(ids[0])
    clusters.restore()
    for path, data in kept.items():
        path.write_bytes(data)


def late_under_another_name(clusters: Clusters, store: Store) -> None:
    """The topic was restored under another name, and a client made the old one anew before a ledger came late."""
    clusters.rolled(A)
    ledger_id = clusters.old.write_ledger(A, messages(1))
    clusters.old.roll_over(A)
    clusters.restore("public/restored/{topic}")
    store.push(AGAIN)
    clusters.new.advance_ids()
    clusters.new.write_ledger(A, messages(1))
    clusters.old.offload(A, ledger_id)


def not_restored(clusters: Clusters, store: Store) -> None:
    """A client made the topic anew, whose ledger has the id of one of the lost cluster's that is not restored."""
    clusters.rolled(A)
    clusters.rolled(B)
    clusters.new.write_ledger(A, messages(1))
    clusters.new.roll_over(A)
    clusters.restore(topics=B)


@pytest.mark.parametrize("how", [came_back, late_under_another_name, not_restored])
def test_what_a_restored_topic_does_not_name_stays(
    clusters: Clusters, store: Store, how: Callable[[Clusters, Store], None]
) -> None:
    how(clusters, store)
    grow_older(clusters.new)
    store.push(A)
    keys, found = store.keys(), store.values()
    assert found
    clean(clusters.new, store)
    assert store.keys() == keys
    assert store.values() == found
    check = checked(clusters.new, store)
    assert [one for one in check.findings if one.kind.value == "orphan-object"] == []
    assert any("older than a recovery into this cluster" in one for one in check.left_out)

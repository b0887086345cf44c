"""What `ledgerfs cluster check` calls lost; and what the lifecycle is at is left out, and hides nothing that is lost."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import AccessDeniedError, LedgerfsError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.storage.objects import ReadRequest
from ledgerfs_cluster.check.check import Check, Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.offload.journal import ROOT, JournalRecord, RecordKind
from ledgerfs_cluster.rules.findings import FindingKind
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.reported_owners import NAME
from tests.cluster.support.sick_clusters import prepared
from tests.support.stores import CountingStore

S3 = "aws-s3"
UNEQUAL = FindingKind.UNEQUAL_LEDGER
Kinds = set[tuple[FindingKind, tuple[int, ...]]]


class Checked:
    """Checks a cluster of ours."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))

    def check(self, bucket: Bucket | None = None, *, with_bucket: bool = True) -> Check:
        time.sleep(0.05)
        opened = bucket or open_bucket(self.cluster.bucket_url())
        tiers = [Tier(opened, frozenset({"tier"}))] if with_bucket else []
        return check_cluster(self.living, None, tiers, Rules(1, 0.0), lambda *_: None)

    def kinds(self, *, with_bucket: bool = True) -> Kinds:
        found = self.check(with_bucket=with_bucket).findings
        return {(one.kind, one.ledger_ids) for one in found}

    def put_objects(self, ledger_id: int, uuid: str) -> None:
        """Put the objects of an offload that no list names."""
        key = LedgerKey(uuid, ledger_id, is_index=False)
        for name in (key.data_key, key.index_key):
            (self.cluster.bucket() / name).write_bytes(b"objects")

    def mark(self, kind: RecordKind, ledger_id: int, uuid: str | None) -> None:
        bucket = None if uuid is None else self.cluster.bucket_url()
        record = JournalRecord(kind, ledger_id, NAME, uuid, bucket, "a test", 0, 9, 1, 1)
        self.cluster.zookeeper.set(record.path, record.build())


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        made.zookeeper.takes_writes = True
        prepared(made.bucket())
        made.write_ledgers(TOPIC, [messages(20, size=200, prefix=str(number)) for number in range(4)])
        yield made


@pytest.fixture(name="checked")
def _checked(cluster: LiveCluster) -> Iterator[Checked]:
    made = Checked(cluster)
    yield made
    made.living.nodes.close()


def ids(cluster: LiveCluster) -> list[int]:
    return [one.ledger_id for one in cluster.list_of(TOPIC).ledgers]


@pytest.mark.parametrize("with_bucket", [False, True])
def test_other_entries_are_loss_also_of_what_was_offloaded(
    cluster: LiveCluster, checked: Checked, with_bucket: bool
) -> None:
    first, second, *_ = ids(cluster)
    cluster.offload(TOPIC, first)
    cluster.change_ledger(TOPIC, first, lambda info: replace(info, entries=info.entries + 1))
    cluster.change_ledger(TOPIC, second, lambda info: replace(info, size=info.size + 1))
    truncated: Kinds = {(FindingKind.TRUNCATED_OFFLOAD, (first,))} if with_bucket else set()
    # Of what was never offloaded other bytes are loss, too.
    assert checked.kinds(with_bucket=with_bucket) == {(UNEQUAL, (first,)), (UNEQUAL, (second,)), *truncated}


@pytest.mark.parametrize(("entries", "size"), [(-1, -24), (1, 0), (0, 5)])
def test_a_ledger_that_ends_elsewhere_by_its_list_is_named(
    cluster: LiveCluster, checked: Checked, entries: int, size: int
) -> None:
    _, unequal, *_ = ids(cluster)
    cluster.change_ledger(
        TOPIC, unequal, lambda info: replace(info, entries=info.entries + entries, size=info.size + size)
    )
    (found,) = checked.check().findings
    assert (found.kind, found.ledger_ids, found.size) == (UNEQUAL, (unequal,), abs(size))
    assert found.kind.is_loss
    assert ("do not exist" in found.evidence) is (entries > 0)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_objects_of_a_noted_attempt_are_no_orphans(cluster: LiveCluster, checked: Checked, is_damaged: bool) -> None:
    first, second, *_ = ids(cluster)
    attempt, orphan = JournalRecord.attempt(NAME, first, cluster.bucket_url(), 1), str(uuid4())
    cluster.zookeeper.set(attempt.path, b"\xff" if is_damaged else attempt.build())
    checked.put_objects(first, attempt.key.uuid)
    checked.put_objects(second, orphan)
    assert checked.kinds() == {(FindingKind.ORPHAN_OBJECT, (second,))}
    assert any(
        one.startswith("1 offloads without an owner are recorded in the lifecycle journal")
        for one in checked.check().left_out
    )
    assert [one.path for one in checked.check().survey.damaged] == ([attempt.path] if is_damaged else [])
    cluster.zookeeper.delete(attempt.path)
    assert checked.kinds() == {(FindingKind.ORPHAN_OBJECT, (one,)) for one in (first, second)}


class _Refusing(CountingStore):
    """Does not let indexes be read."""

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        return (AccessDeniedError("the policy denies it", key=one.key) for one in requests)


def test_objects_that_the_store_refuses_are_neither_sound_nor_lost(cluster: LiveCluster, checked: Checked) -> None:
    first, second, *_ = ids(cluster)
    keys = [f"{cluster.offload(TOPIC, one)}-ledger-{one}" for one in (first, second)]
    assert (checked.check().findings, checked.check().is_complete) == ([], True)
    store = _Refusing(open_bucket(cluster.bucket_url()).raw_store)
    found = checked.check(Bucket(store))  # type: ignore[arg-type]
    assert found.findings == []
    assert not found.is_complete
    (said,) = found.unjudged
    assert said.startswith("the store refuses access to objects of offloaded ledgers: ")
    assert any(f"/{key}: the policy denies it; 1 more objects" in said for key in keys)


def test_a_compacted_topic_whose_cursor_was_not_read_is_not_judged(cluster: LiveCluster, checked: Checked) -> None:
    first, *_ = ids(cluster)
    cluster.add_cursor(TOPIC, "__compaction", (first, 1), stale=(first, 0), properties={"CompactedTopicLedger": 999})
    found = checked.check(with_bucket=False)
    assert (found.findings, found.is_complete) == ([], False)
    assert found.unjudged[0].startswith("1 compacted topics were not checked: ")


def test_what_is_marked_is_no_orphan(cluster: LiveCluster, checked: Checked) -> None:
    orphan, other = ids(cluster)[0], str(uuid4())
    cluster.trim(TOPIC, orphan, only_list=True)
    checked.put_objects(7, other)
    assert {kind for kind, _ in checked.kinds()} == {FindingKind.ORPHAN_LEDGER, FindingKind.ORPHAN_OBJECT}
    checked.mark(RecordKind.ORPHAN, orphan, None)
    checked.mark(RecordKind.OBJECTS, 7, other)
    assert checked.kinds() == set()
    # So is that of a damaged record, which is a finding, too.
    cluster.zookeeper.set(f"{ROOT}/orphan-{orphan}", b"")
    assert checked.kinds() == set()
    assert [one.path for one in checked.check().survey.damaged] == [f"{ROOT}/orphan-{orphan}"]

"""BookKeeper's copy of a ledger whose batches were split goes once its messages are those of the objects, and not before."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.subscriptions_now import SubscriptionsNow
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.errors import LockLostError, RefusedLedgerError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.lifecycle.acting.deletions import Deletions
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_journal import drop, mark, undo
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.storage.zookeeper.changes import ClusterLock
from tests.support.live_clusters import TOPIC, LiveCluster
from tests.support.split_offloads import Splitting, topic_in_batches
from tests.support.told_owners import NAME


@pytest.fixture
def splitting(cluster: LiveCluster) -> Iterator[Splitting]:
    made = Splitting(cluster)
    yield made
    made.close()


def deletions_of(splitting: Splitting) -> Deletions:
    living = splitting.living
    copies = OffloadedCopies(living.reading)
    means = Means(
        *(splitting.lock, ClosedLedgers(living), copies, splitting.owners, open_bucket),
        splitting.tier.url_of,
    )
    return Deletions(means, lambda _: SubscriptionsNow(None))


def noted(splitting: Splitting) -> list[NotedLine]:
    return list(read_journal(splitting.living.nodes).noted_lines)


def finish(splitting: Splitting) -> Done:
    done = Done()
    deletions_of(splitting).finish(noted(splitting), done)
    return done


def in_bookkeeper(cluster: LiveCluster, ids: list[int]) -> list[int]:
    return [one for one in ids if ledger_path(one) in cluster.nodes]


@pytest.mark.parametrize("codec", [None, "none", "lz4", "zlib", "zstd", "snappy"])
def test_it_goes_and_all_messages_are_there(cluster: LiveCluster, codec: str | None) -> None:
    ids = topic_in_batches(cluster)[:2]
    splitting = Splitting(cluster, codec)
    try:
        before = splitting.values()
        splitting.offload(*ids)
        done = finish(splitting)
        assert (done.ledger_ids, done.postponed, done.remarks) == (ids, {}, [])
        assert in_bookkeeper(cluster, ids) == []
        assert {one.state for one in splitting.lines().values()} == {TrashState.DELETED}
        assert splitting.values() == before
    finally:
        splitting.close()


def test_it_stays_if_the_objects_have_other_messages(cluster: LiveCluster, splitting: Splitting) -> None:
    first, second, _ = topic_in_batches(cluster)
    splitting.offload(first, second)
    paths = {one: splitting.folder / f"{splitting.listed()[one].context.uuid}-ledger-{one}" for one in (first, second)}
    paths[first].write_bytes(paths[second].read_bytes())
    done = finish(splitting)
    assert (done.ledger_ids, list(done.postponed)) == ([second], [first])
    assert "hold other entries than BookKeeper" in done.postponed[first]
    assert done.remarks
    assert in_bookkeeper(cluster, [first, second]) == [first]
    assert splitting.lines()[first].state is TrashState.UNLISTED


@pytest.mark.parametrize("end", ["", "-index"])
def test_it_stays_if_an_object_is_gone(cluster: LiveCluster, splitting: Splitting, end: str) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    (splitting.folder / f"{splitting.listed()[first].context.uuid}-ledger-{first}{end}").unlink()
    done = finish(splitting)
    assert (done.ledger_ids, "objects are not whole" in done.postponed[first]) == ([], True)
    assert in_bookkeeper(cluster, [first]) == [first]


def test_a_broker_that_has_the_topic_by_then_reads_the_list_again(cluster: LiveCluster, splitting: Splitting) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    splitting.owners.owner = Owner.SOME
    assert finish(splitting).ledger_ids == [first]
    assert splitting.owners.unloaded == [NAME]


def test_it_goes_also_if_the_ledger_was_trimmed_meanwhile(cluster: LiveCluster, splitting: Splitting) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))
    assert finish(splitting).ledger_ids == [first]
    assert in_bookkeeper(cluster, [first]) == []


def test_it_is_not_taken_back(cluster: LiveCluster, splitting: Splitting) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    with pytest.raises(RefusedLedgerError, match="has other ids, and subscriptions may be at them"):
        undo(splitting.lock, f"unbatched-{first}")
    assert set(splitting.lines()) == {first}


def test_without_its_line_it_is_one_that_is_called_deleted(cluster: LiveCluster, splitting: Splitting) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    line = splitting.lines()[first]
    drop(splitting.lock, noted(splitting))
    mark(splitting.lock, [replace(line, kind=TrashKind.FLAGGED, state=TrashState.MARKED)])
    done = Done()
    deletions_of(splitting).delete_flagged(NAME, noted(splitting)[0], done)
    assert (done.ledger_ids, done.postponed) == ([first], {})


def test_split_batches_are_no_copy_of_a_ledger_that_is_not_called_deleted(
    cluster: LiveCluster, splitting: Splitting
) -> None:
    first, *_ = topic_in_batches(cluster)
    splitting.offload(first)
    line, info = splitting.lines()[first], splitting.listed()[first]
    drop(splitting.lock, noted(splitting))
    kept = replace(info.context, is_deleted_from_bookkeeper=False)
    cluster.change_ledger(TOPIC, first, lambda _: replace(info, context=kept))
    mark(splitting.lock, [replace(line, kind=TrashKind.OFFLOADED, state=TrashState.MARKED)])
    done = Done()
    deletions_of(splitting).flag(NAME, noted(splitting), done)
    assert (done.ledger_ids, "entries, BookKeeper" in done.postponed[first]) == ([], True)
    assert in_bookkeeper(cluster, [first]) == [first]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_crash_is_gone_on_from(
    cluster: LiveCluster, splitting: Splitting, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    first, *_ = topic_in_batches(cluster)
    before = splitting.values()
    splitting.offload(first)
    sent = ClusterLock.commit

    def dying(lock: ClusterLock, operations: list[object]) -> None:
        if is_done:
            sent(lock, operations)  # type: ignore[arg-type]
        cluster.zookeeper.expire_sessions()
        sent(lock, [])

    with monkeypatch.context() as patch:
        patch.setattr(ClusterLock, "commit", dying)
        with pytest.raises(LockLostError):
            finish(splitting)
    assert in_bookkeeper(cluster, [first]) == ([] if is_done else [first])
    again = Splitting(cluster)
    try:
        if not is_done:
            assert finish(again).ledger_ids == [first]
        assert again.lines()[first].state is TrashState.DELETED
        assert in_bookkeeper(cluster, [first]) == []
        assert again.values() == before
    finally:
        again.close()

"""What nothing names is deleted if the same is planned again right before, and nothing has changed since that was read."""

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind
from ledgerfs_cluster.offload.journal import AGAIN_MS, ROOT, JournalRecord
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.marked import Marked
from tests.cluster.support.outcomes import done, left, remarks
from tests.cluster.support.reported_owners import NAME
from tests.support.tries import without_pauses

LONG_AFTER_MS = AGAIN_MS + 600_000


def ledgers(cluster: LiveCluster, count: int = 3) -> list[int]:
    return cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(count)])


def trimmed(cluster: LiveCluster, count: int = 1) -> list[int]:
    """Have a broker trim the oldest ledgers, and leave them in BookKeeper."""
    ids = ledgers(cluster, count + 2)[:count]
    cluster.change_list(
        TOPIC, lambda info: replace(info, ledgers=tuple(one for one in info.ledgers if one.ledger_id not in ids))
    )
    return ids


def unnamed(cluster: LiveCluster, ledger_id: int) -> str:
    """Offload a ledger, and have its list as it was before; return the uuid."""
    path = managed_ledger_path(NAME)
    before = cluster.nodes[path]
    uuid = cluster.offload(TOPIC, ledger_id)
    cluster.zookeeper.set(path, before)
    return uuid


def test_ledgers_that_nothing_names_are_deleted_with_their_records(cluster: LiveCluster, marked: Marked) -> None:
    ids = trimmed(cluster, 2)
    version = marked.version()
    outcomes = marked.delete(*map(marked.orphan, ids))
    assert (done(outcomes), left(outcomes), remarks(outcomes)) == (ids, {}, [])
    assert not any(map(marked.in_bookkeeper, ids))
    assert (marked.records(), marked.version()) == ([], version)


def test_what_is_not_as_it_was_marked_stays(cluster: LiveCluster, marked: Marked) -> None:
    ids = trimmed(cluster, 4)
    changed, named, later, other = ids
    marked.mark(marked.orphan(changed, ledger_version=7), marked.orphan(named), marked.orphan(other, size=1))
    hour_ms = 3_600_000
    early_ms = cluster.created_ms[later] - hour_ms
    marked.mark(marked.orphan(later, noted_ms=early_ms, due_ms=early_ms))
    # A list was restored under another name.
    cluster.write_ledgers("public/default/other", [messages(1), messages(1)])
    cluster.change_list(
        "public/default/other", lambda info: replace(info, ledgers=(LedgerInfo(named, 20, 1, 1), *info.ledgers))
    )
    outcomes = marked.carry_out(ActionKind.DELETE)
    assert done(outcomes) in ([], [later])
    assert {changed, named, other} <= set(left(outcomes))
    assert all(map(marked.in_bookkeeper, (changed, named, other)))


def test_an_orphan_that_a_list_names_since_it_was_planned_again_stays(cluster: LiveCluster, marked: Marked) -> None:
    """One check serves all orphans for a while, and an operator restores a list meanwhile."""
    whole = ledgers(cluster)
    path = managed_ledger_path(NAME)
    before = cluster.nodes[path]
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))

    def restore() -> None:
        cluster.zookeeper.set(path, before)

    marked.edited = restore
    outcomes = marked.delete(marked.orphan(whole[0]))
    assert (done(outcomes), list(left(outcomes))) == ([], [whole[0]])
    assert marked.in_bookkeeper(whole[0])
    assert len(marked.records()) == 1


def test_what_was_not_begun_is_left_to_the_next_service(cluster: LiveCluster, marked: Marked) -> None:
    ids = trimmed(cluster, 2)

    def stop() -> None:
        raise StoppedError("the service is stopping")

    marked.going = stop
    assert marked.delete(*map(marked.orphan, ids)) == []
    marked.going = lambda: None
    assert done(marked.carry_out(ActionKind.DELETE)) == ids


def test_a_record_that_may_not_be_read_keeps_no_other_back(cluster: LiveCluster, marked: Marked) -> None:
    first, second = trimmed(cluster, 2)
    marked.mark(marked.orphan(first), marked.orphan(second))
    seen = marked.seen()
    cluster.zookeeper.no_auth(f"{ROOT}/orphan-{first}")
    outcomes = marked.carry_out(ActionKind.DELETE, seen)
    assert (done(outcomes), list(left(outcomes))) == ([second], [first])


# Objects.


def test_objects_that_no_list_names_are_deleted(cluster: LiveCluster, marked: Marked) -> None:
    first, second, _ = ledgers(cluster)
    named, free = cluster.offload(TOPIC, second), unnamed(cluster, first)
    outcomes = marked.delete(marked.objects(first, free), marked.objects(second, named))
    assert (done(outcomes), list(left(outcomes))) == ([first], [second])
    assert marked.in_bucket() == {f"{named}-ledger-{second}", f"{named}-ledger-{second}-index"}


@pytest.mark.parametrize("state", ["in BookKeeper", "gone", "collected", "trimmed", "set back"])
def test_objects_that_may_be_the_only_copy_stay(cluster: LiveCluster, marked: Marked, state: str) -> None:
    """A list was restored from a dump: since then the offload was completed, and BookKeeper's copy deleted."""
    first, second, _ = ledgers(cluster)
    one = second if state == "set back" else first
    record = marked.objects(one, unnamed(cluster, one))
    match state:
        case "gone":
            cluster.delete_from_bookkeeper(first, flag=False)
        case "collected":
            cluster.collect(first)
        case "trimmed" | "set back":
            kept = {"trimmed": (second,), "set back": (first,)}[state]
            last = cluster.list_of(TOPIC).ledgers[-1].ledger_id
            cluster.change_list(
                TOPIC,
                lambda info: replace(
                    info, ledgers=tuple(each for each in info.ledgers if each.ledger_id in {*kept, last})
                ),
            )
    outcomes = marked.delete(record)
    if state in {"in BookKeeper", "trimmed"}:
        assert (done(outcomes), marked.in_bucket()) == ([one], set())
    else:
        assert (done(outcomes), list(left(outcomes)), len(marked.in_bucket())) == ([], [one], 2)


@pytest.mark.parametrize("has_others", [True, False], ids=["whole", "lost"])
def test_objects_go_if_those_that_the_list_names_are_there(
    cluster: LiveCluster, marked: Marked, has_others: bool
) -> None:
    """An attempt that failed has left its objects, and then the ledger was offloaded; BookKeeper's copy is deleted."""
    first, *_ = ledgers(cluster)
    uuid = unnamed(cluster, first)
    theirs = marked.in_bucket()
    cluster.offload(TOPIC, first)
    cluster.delete_from_bookkeeper(first)
    if not has_others:
        for name in marked.in_bucket() - theirs:
            (cluster.bucket() / name).unlink()
    outcomes = marked.delete(marked.objects(first, uuid))
    if has_others:
        assert (done(outcomes), marked.in_bucket() & theirs) == ([first], set())
    else:
        assert "these objects may be the only copy" in left(outcomes)[first]
        assert marked.in_bucket() == theirs


# Attempts.


@pytest.mark.parametrize("is_gone", [False, True], ids=["in BookKeeper", "gone"])
def test_objects_of_an_attempt_go_in_two_times_unless_they_are_the_only_copy(
    cluster: LiveCluster, marked: Marked, is_gone: bool
) -> None:
    """ZooKeeper was put back from a backup of a moment when offloads went on."""
    first, *_ = ledgers(cluster)
    attempt = JournalRecord.attempt(NAME, first, marked.url, 1, unnamed(cluster, first))
    # A folder without anything may be what a share is to be mounted on.
    (cluster.bucket() / "another").write_bytes(b"x")
    marked.lock.commit([attempt.made()])
    marked.in_flight.add(attempt.key.uuid)
    assert marked.carry_out(ActionKind.CLEAN) == []
    marked.in_flight.clear()
    if is_gone:
        cluster.delete_from_bookkeeper(first, flag=False)
        (outcome,) = marked.carry_out(ActionKind.CLEAN)
        assert ("may be the only copy" in outcome.message, len(marked.in_bucket())) == (True, 3)
        return
    for _ in range(2):
        assert marked.carry_out(ActionKind.CLEAN) == []
        assert marked.in_bucket() == {"another"}
    survey, situation = marked.seen()
    late = replace(situation, now_ms=situation.now_ms + LONG_AFTER_MS)
    assert done(marked.carry_out(ActionKind.CLEAN, (survey, late))) == [first]
    assert marked.records() == []


# A bucket that cannot be reached.


@pytest.fixture(name="away")
def _away(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Marked]:
    """The port of its S3 is taken, and not listened at."""
    without_pauses(monkeypatch)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        options = {"endpoint_url": f"http://127.0.0.1:{taken.getsockname()[1]}", "key": "k", "secret": "s"}
        made = Marked(cluster, "s3://tier", options)
        yield made
        made.close()


@pytest.mark.parametrize("kind", [ActionKind.DELETE, ActionKind.CLEAN])
def test_a_bucket_that_is_away_is_waited_for_once_a_pass(cluster: LiveCluster, away: Marked, kind: ActionKind) -> None:
    ids = ledgers(cluster, 4)[:-1]
    for number, one in enumerate(ids):
        if kind is ActionKind.DELETE:
            away.mark(away.objects(one, str(UUID(int=number))))
        else:
            away.lock.commit([JournalRecord.attempt(NAME, one, "s3://tier", time.time_ns() // 1_000_000).made()])
    # In each pass, the first one asks.
    for _ in range(2):
        outcomes = away.carry_out(kind)
        assert (done(outcomes), len(remarks(outcomes))) == ([], 3)
        assert sum("skipped for the rest of this pass" in one for one in remarks(outcomes)) == 2
    assert len(away.records()) == 3

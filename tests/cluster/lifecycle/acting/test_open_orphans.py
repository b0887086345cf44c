"""Ledgers that nothing names, and that no broker closed, go where no broker can name them any more, and stay everywhere else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind
from ledgerfs_cluster.offload.outcomes import Outcome
from ledgerfs_cluster.snapshot.bundles import Owner
from tests.cluster.lifecycle.acting.test_deletions import ledgers
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.marked import Marked
from tests.cluster.support.outcomes import done, left, remarks
from tests.cluster.support.told_owners import NAME


def never_listed(cluster: LiveCluster, payloads: Sequence[bytes] = (), **custom: bytes) -> int:
    """Write a ledger as a broker makes it before it lists it."""
    told = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": NAME.encode(), **custom}
    return cluster.write_unlisted(payloads, list(told.items()))


def test_empty_ledgers_that_were_never_listed_go_and_can_be_listed_no_more(
    cluster: LiveCluster, marked: Marked
) -> None:
    ledgers(cluster)
    orphans = [never_listed(cluster) for _ in range(3)]
    before, version = marked.listed(), marked.version()
    outcomes = delete(marked, *orphans)
    assert (done(outcomes), left(outcomes), remarks(outcomes)) == (orphans, {}, [])
    assert not any(map(marked.in_bookkeeper, orphans))
    assert marked.records() == []
    # A broker that made one, and lives on, sets the list at the version that it knows.
    assert (marked.listed(), marked.version()) == (before, version + 3)


def test_a_ledger_that_is_not_closed_stays_where_a_writer_may_live(cluster: LiveCluster, marked: Marked) -> None:
    ledgers(cluster)
    version, filled = marked.version(), never_listed(cluster, messages(3))
    assert "has entries" in left(delete(marked, filled))[filled]
    others = [
        cluster.write_unlisted((), [("component", b"managed-ledger")]),
        never_listed(cluster, component=b"schema"),
        never_listed(cluster, **{"pulsar/managed-ledger": b"t/ns/persistent/another"}),
    ]
    outcomes = delete(marked, *others)
    assert (done(outcomes), set(left(outcomes))) == ([], {filled, *others})
    assert all(map(marked.in_bookkeeper, others))
    assert marked.version() == version


def test_a_ledger_that_is_not_closed_stays_while_a_broker_has_its_topic_or_lists_it(
    cluster: LiveCluster, marked: Marked
) -> None:
    ledgers(cluster)
    orphan = never_listed(cluster)
    marked.mark(marked.orphan(orphan))
    for owner in (Owner.SOME, Owner.UNKNOWN):
        marked.owners.owner = owner
        outcomes = marked.carry_out(ActionKind.DELETE)
        assert "a broker has the topic, or it is not known" in left(outcomes)[orphan]
    marked.owners.owner = Owner.NONE

    def list_it() -> None:
        # A broker comes, lists it, and goes, between our looks at the list and at its owner.
        marked.owners.when_asked = lambda: None
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(*info.ledgers, LedgerInfo(orphan, 0, 0, 0))))

    marked.owners.when_asked = list_it
    for why in ("changed", "names it now"):
        outcomes = marked.carry_out(ActionKind.DELETE)
        assert why in left(outcomes)[orphan]
    assert marked.in_bookkeeper(orphan)


def test_a_ledger_whose_bookies_are_silent_is_not_called_empty(cluster: LiveCluster, marked: Marked) -> None:
    ledgers(cluster)
    orphan = never_listed(cluster)
    marked.mark(marked.orphan(orphan))
    # One is enough: it may have the only entry that is left.
    bookies = [one for one in cluster.bookies if one.address in cluster.written[orphan].node.ensembles[0].bookies]
    bookies[0].kill()
    outcomes = marked.carry_out(ActionKind.DELETE)
    assert "not known whether it has entries" in left(outcomes)[orphan]
    assert marked.in_bookkeeper(orphan)


def test_a_ledger_of_which_one_bookie_has_an_entry_is_not_empty(cluster: LiveCluster, marked: Marked) -> None:
    ledgers(cluster)
    lost, lone = never_listed(cluster, messages(1)), never_listed(cluster)
    cluster.append(lone, messages(1), only_on=1)
    # A bookie that has a new disk knows nothing of the ledger.
    next(one for one in cluster.bookies if lost in one.ledgers).remove_ledger(lost)
    outcomes = delete(marked, lost, lone)
    for orphan in (lost, lone):
        assert "has entries" in left(outcomes)[orphan]
        assert marked.in_bookkeeper(orphan)


def delete(marked: Marked, *orphans: int) -> list[Outcome]:
    """Mark and delete orphans."""
    return marked.delete(*map(marked.orphan, orphans))


def trimmed(cluster: LiveCluster) -> int:
    """Have a broker fail to close a ledger with entries, list the next one, and trim it later."""
    ledgers(cluster)
    open_one = never_listed(cluster, messages(3))
    later = ledgers(cluster)
    cluster.change_list(
        TOPIC, lambda info: replace(info, ledgers=tuple(one for one in info.ledgers if one.ledger_id in later))
    )
    return open_one


def test_a_ledger_that_was_trimmed_and_not_closed_goes_once_its_list_begins_behind_it(
    cluster: LiveCluster, marked: Marked
) -> None:
    orphan = trimmed(cluster)
    before, version = marked.listed(), marked.version()
    outcomes = delete(marked, orphan)
    assert (done(outcomes), left(outcomes), remarks(outcomes)) == ([orphan], {}, [])
    assert not marked.in_bookkeeper(orphan)
    assert (marked.listed(), marked.version()) == (before, version + 1)


@pytest.mark.parametrize("lost", ["set back", "made anew"])
def test_a_ledger_with_entries_that_its_topic_may_have_lost_stays(
    cluster: LiveCluster, marked: Marked, lost: str
) -> None:
    """A list is restored from an older dump, or lost, and a broker has loaded the topic since."""
    path = managed_ledger_path(NAME)
    if lost == "set back":
        ledgers(cluster)
        orphan = never_listed(cluster, messages(3))
        why = "does not name the ledger: it was set back"
    else:
        orphan = trimmed(cluster)
        anew = cluster.nodes[path]
        cluster.zookeeper.delete(path)
        cluster.zookeeper.set(path, anew, created_ms=cluster.created_ms[orphan] + 1)
        why = "whose list was made later"
    version = marked.version()
    outcomes = delete(marked, orphan)
    assert done(outcomes) == []
    assert why in left(outcomes)[orphan]
    assert marked.in_bookkeeper(orphan)
    assert marked.version() == version


def of_subscription(cluster: LiveCluster, name: str = "s") -> int:
    """Write a ledger as a broker makes it before its subscription names it, or leaves it once that names another one."""
    return never_listed(cluster, messages(2), **{"pulsar/cursor": encode_topic(name).encode()})


@pytest.mark.parametrize("names", ["nothing", "another one", "no such subscription"])
@pytest.mark.parametrize("name", ["s", "a/b c"])
def test_what_a_subscription_left_open_goes_and_can_be_named_no_more(
    cluster: LiveCluster, marked: Marked, names: str, name: str
) -> None:
    first, *_ = ledgers(cluster)
    if names != "no such subscription":
        cluster.add_cursor(TOPIC, name, (first, 3), stale=(first, 1) if names == "another one" else None)
    orphans = [of_subscription(cluster, name) for _ in range(3)]
    path = cursor_path(NAME, name)
    before, listed, version = cluster.nodes.get(path), marked.listed(), marked.version()
    outcomes = delete(marked, *orphans)
    assert (done(outcomes), left(outcomes), remarks(outcomes)) == (orphans, {}, [])
    assert not any(map(marked.in_bookkeeper, orphans))
    # Both are set: a broker that made one of them, and goes on, knows versions that are no more.
    assert (marked.listed(), marked.version()) == (listed, version + 3)
    assert cluster.nodes.get(path) == before
    if before is not None:
        assert marked.living.nodes.get(path).version == 3


def test_what_subscriptions_left_open_goes_together_with_what_the_topic_left(
    cluster: LiveCluster, marked: Marked
) -> None:
    orphans = [trimmed(cluster)]
    for name in ("s", "t"):
        cluster.add_cursor(TOPIC, name, (orphans[0] + 1, 1))
        orphans += [of_subscription(cluster, name), of_subscription(cluster, name)]
    orphans.append(never_listed(cluster))
    outcomes = delete(marked, *orphans)
    assert (sorted(done(outcomes)), left(outcomes)) == (orphans, {})


def test_what_a_subscription_names_by_now_stays(cluster: LiveCluster, marked: Marked) -> None:
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan, path = of_subscription(cluster), cursor_path(NAME, "s")
    named = build_cursor_info(CursorInfo(orphan, Position(first, 3)))

    def name_it() -> None:
        # A broker that was stopped goes on, and sets the node that it knows, between our looks at it and at the topic's owner.
        marked.owners.when_asked = lambda: None
        cluster.zookeeper.set(path, named)

    marked.owners.when_asked = name_it
    outcomes = delete(marked, orphan)
    assert "its subscription names it now" in left(outcomes)[orphan]
    assert marked.in_bookkeeper(orphan)
    assert cluster.nodes[path] == named


def test_what_a_subscription_comes_to_name_before_the_commit_stays(cluster: LiveCluster, marked: Marked) -> None:
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan, path = of_subscription(cluster), cursor_path(NAME, "s")
    named = build_cursor_info(CursorInfo(orphan, Position(first, 3)))
    asked = iter(range(100))

    def name_it() -> str | None:
        # Asked first, and then right before the commit.
        if next(asked) == 1:
            cluster.zookeeper.set(path, named)
        return None

    marked.edited, version = name_it, marked.version()
    outcomes = delete(marked, orphan)
    assert (done(outcomes), list(left(outcomes)), marked.version()) == ([], [orphan], version)
    assert (marked.in_bookkeeper(orphan), cluster.nodes[path]) == (True, named)


def test_what_a_damaged_subscription_may_name_stays(cluster: LiveCluster, marked: Marked) -> None:
    ledgers(cluster)
    orphan = of_subscription(cluster)
    cluster.zookeeper.set(cursor_path(NAME, "s"), b"\xff\xff\xff")
    outcomes = delete(marked, orphan)
    assert list(left(outcomes)) == [orphan]
    assert marked.in_bookkeeper(orphan)


@pytest.mark.parametrize("remade", ["list", "subscription"])
@pytest.mark.parametrize("kind", ["of a subscription", "empty"])
def test_what_is_older_than_the_node_that_could_name_it_stays(
    cluster: LiveCluster, marked: Marked, kind: str, remade: str
) -> None:
    """Versions begin anew with a node: setting it as it is could make it one that a broker of before knows."""
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan = of_subscription(cluster) if kind == "of a subscription" else never_listed(cluster)
    path = managed_ledger_path(NAME) if remade == "list" else cursor_path(NAME, "s")
    data = cluster.nodes[path]
    cluster.zookeeper.delete(path)
    cluster.zookeeper.set(path, data, created_ms=cluster.created_ms[orphan] + 1)
    outcomes = delete(marked, orphan)
    stays = remade == "list" or kind == "of a subscription"
    assert marked.in_bookkeeper(orphan) is stays
    assert marked.living.nodes.get(path).version == 0 or not stays
    assert ("made later" in left(outcomes).get(orphan, "")) is stays


def test_a_bookie_that_does_not_answer_is_asked_once_a_pass(cluster: LiveCluster, marked: Marked) -> None:
    ledgers(cluster)
    orphans = [never_listed(cluster) for _ in range(6)]
    asked: list[frozenset[str]] = []
    bookies = marked.bookies
    silent = cluster.written[orphans[0]].node.ensembles[0].bookies[0]
    next(one for one in cluster.bookies if one.address == silent).kill()

    class Watched:
        def none_has_any(self, node: LedgerNode, known: set[str]) -> bool | LedgerfsError:
            asked.append(frozenset(known))
            return bookies.none_has_any(node, known)

    marked.context = replace(marked.context, bookies=Watched())  # type: ignore[arg-type]
    outcomes = delete(marked, *orphans)
    held = [one for one in orphans if silent in cluster.written[one].node.ensembles[0].bookies]
    assert sorted(left(outcomes)) == held
    assert asked[0] == frozenset()
    assert set(asked[1:]) == {frozenset({silent})}
    # Another pass asks it again.
    next(one for one in cluster.bookies if one.address == silent).start()
    assert done(marked.carry_out(ActionKind.DELETE)) == held


@pytest.mark.parametrize("name", [b"..", b"a/b", b"\xff"])
def test_what_was_made_for_a_subscription_that_none_is_called_holds_up_nothing(
    cluster: LiveCluster, marked: Marked, name: bytes
) -> None:
    ledgers(cluster)
    odd, other = never_listed(cluster, **{"pulsar/cursor": name}), of_subscription(cluster)
    outcomes = delete(marked, odd, other)
    assert other in done(outcomes)
    if name != b"\xff":
        assert "which no subscription is called" in left(outcomes)[odd]

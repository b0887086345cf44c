"""Ledgers that nothing names, and that no broker closed, go where no broker can name them any more, and stay everywhere else."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from ledgerfs.clusters.bundles import Owner
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from tests.lifecycle.acting.test_deletions import Trash, ledgers
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.told_owners import NAME


@pytest.fixture
def trash(cluster: LiveCluster) -> Iterator[Trash]:
    made = Trash(cluster)
    yield made
    made.close()


def never_listed(cluster: LiveCluster, payloads: Sequence[bytes] = (), **custom: bytes) -> int:
    """Write a ledger as a broker makes it before it lists it."""
    told = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": NAME.encode(), **custom}
    return cluster.write_unlisted(payloads, list(told.items()))


def test_empty_ledgers_that_were_never_listed_go_and_can_be_listed_no_more(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    orphans = [never_listed(cluster) for _ in range(3)]
    before, version = trash.listed(), trash.version()
    lines = trash.marked(*(trash.line(TrashKind.ORPHAN, one) for one in orphans))
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done)
    assert (done.ledger_ids, done.postponed, done.remarks) == (orphans, {}, [])
    assert not any(map(trash.in_bookkeeper, orphans))
    assert set(trash.states().values()) == {TrashState.DELETED}
    # A broker that made one, and lives on, sets the list at the version that it knows. It is set once for all of them.
    assert (trash.listed(), trash.version()) == (before, version + 1)


def test_a_ledger_that_is_not_closed_stays_where_a_writer_may_live(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    made = {
        "has entries": never_listed(cluster, messages(3)),
        "a writer may live": never_listed(cluster, **{"pulsar/managed-ledger": b"t/ns/persistent/another"}),
        "not closed": cluster.write_unlisted((), [("component", b"managed-ledger")]),
        "not closed:": never_listed(cluster, component=b"schema"),
    }
    version = trash.version()
    trash.marked(*(trash.line(TrashKind.ORPHAN, one) for one in made.values()))
    done = Done()
    trash.deletions.delete_orphans(NAME, trash.journal(), done)
    assert done.ledger_ids == []
    for why, orphan in made.items():
        assert why in done.postponed[orphan]
        assert trash.in_bookkeeper(orphan)
    assert trash.version() == version


def test_a_ledger_that_is_not_closed_stays_while_a_broker_has_its_topic_or_lists_it(
    cluster: LiveCluster, trash: Trash
) -> None:
    ledgers(cluster)
    orphan = never_listed(cluster)
    (noted,) = trash.marked(trash.line(TrashKind.ORPHAN, orphan))
    for owner, why in ((Owner.SOME, "a broker has the topic"), (Owner.UNKNOWN, "not known which broker")):
        trash.owners.owner = owner
        done = Done()
        trash.deletions.delete_orphans(NAME, [noted], done)
        assert why in done.postponed[orphan]
    trash.owners.owner = Owner.NONE

    def list_it() -> None:
        # A broker comes, lists it, and goes, between our looks at the list and at its owner.
        trash.owners.when_asked = lambda: None
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(*info.ledgers, LedgerInfo(orphan, 0, 0, 0))))

    trash.owners.when_asked = list_it
    for why in ("changed", "names it now"):
        done = Done()
        trash.deletions.delete_orphans(NAME, [noted], done)
        assert why in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


def test_a_ledger_whose_bookies_are_silent_is_not_called_empty(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    orphan = never_listed(cluster)
    (noted,) = trash.marked(trash.line(TrashKind.ORPHAN, orphan))
    # One is enough: it may have the only entry that is left.
    bookies = [one for one in cluster.bookies if one.address in cluster.written[orphan].node.ensembles[0].bookies]
    bookies[0].kill()
    done = Done()
    trash.deletions.delete_orphans(NAME, [noted], done)
    assert "not known whether it has entries" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


def test_a_ledger_of_which_one_bookie_has_an_entry_is_not_empty(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    lost, lone = never_listed(cluster, messages(1)), never_listed(cluster)
    cluster.append(lone, messages(1), only_on=1)
    # A bookie that has a new disk knows nothing of the ledger.
    next(one for one in cluster.bookies if lost in one.ledgers).remove_ledger(lost)
    trash.marked(*(trash.line(TrashKind.ORPHAN, one) for one in (lost, lone)))
    done = Done()
    trash.deletions.delete_orphans(NAME, trash.journal(), done)
    for orphan in (lost, lone):
        assert "has entries" in done.postponed[orphan]
        assert trash.in_bookkeeper(orphan)


def delete(trash: Trash, *orphans: int) -> Done:
    """Delete orphans that are marked by now."""
    trash.marked(*(trash.line(TrashKind.ORPHAN, one) for one in orphans))
    done = Done()
    trash.deletions.delete_orphans(NAME, trash.journal(), done)
    return done


def delete_marked(trash: Trash) -> list[int]:
    """Delete orphans that were marked and are not deleted; return which went."""
    done = Done()
    marked = [one for one in trash.journal() if one.line.state is TrashState.MARKED]
    trash.deletions.delete_orphans(NAME, marked, done)
    return done.ledger_ids


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
    cluster: LiveCluster, trash: Trash
) -> None:
    orphan = trimmed(cluster)
    before, version = trash.listed(), trash.version()
    done = delete(trash, orphan)
    assert (done.ledger_ids, done.postponed, done.remarks) == ([orphan], {}, [])
    assert not trash.in_bookkeeper(orphan)
    assert (trash.listed(), trash.version()) == (before, version + 1)


@pytest.mark.parametrize("lost", ["set back", "made anew"])
def test_a_ledger_with_entries_that_its_topic_may_have_lost_stays(
    cluster: LiveCluster, trash: Trash, lost: str
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
        why = "its topic's list was made later"
    version = trash.version()
    done = delete(trash, orphan)
    assert done.ledger_ids == []
    assert why in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)
    assert trash.version() == version


def of_subscription(cluster: LiveCluster, name: str = "s") -> int:
    """Write a ledger as a broker makes it before its subscription names it, or leaves it once that names another one."""
    return never_listed(cluster, messages(2), **{"pulsar/cursor": encode_topic(name).encode()})


@pytest.mark.parametrize("names", ["nothing", "another one", "no such subscription"])
@pytest.mark.parametrize("name", ["s", "a/b c"])
def test_what_a_subscription_left_open_goes_and_can_be_named_no_more(
    cluster: LiveCluster, trash: Trash, names: str, name: str
) -> None:
    first, *_ = ledgers(cluster)
    if names != "no such subscription":
        cluster.add_cursor(TOPIC, name, (first, 3), stale=(first, 1) if names == "another one" else None)
    orphans = [of_subscription(cluster, name) for _ in range(3)]
    path = cursor_path(NAME, name)
    before, listed, version = cluster.nodes.get(path), trash.listed(), trash.version()
    done = delete(trash, *orphans)
    assert (done.ledger_ids, done.postponed, done.remarks) == (orphans, {}, [])
    assert not any(map(trash.in_bookkeeper, orphans))
    # Both are set once: a broker that made one of them, and goes on, knows versions that are no more.
    assert (trash.listed(), trash.version()) == (listed, version + 1)
    assert cluster.nodes.get(path) == before
    if before is not None:
        assert trash.living.nodes.get(path).version == 1


def test_what_subscriptions_left_open_goes_together_with_what_the_topic_left(
    cluster: LiveCluster, trash: Trash
) -> None:
    orphans = [trimmed(cluster)]
    for name in ("s", "t"):
        cluster.add_cursor(TOPIC, name, (orphans[0] + 1, 1))
        orphans += [of_subscription(cluster, name), of_subscription(cluster, name)]
    orphans.append(never_listed(cluster))
    version = trash.version()
    done = delete(trash, *orphans)
    assert (sorted(done.ledger_ids), done.postponed, trash.version()) == (orphans, {}, version + 1)


def test_what_a_subscription_names_by_now_stays(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan, path = of_subscription(cluster), cursor_path(NAME, "s")
    named = build_cursor_info(CursorInfo(orphan, Position(first, 3)))

    def name_it() -> None:
        # A broker that was stopped goes on, and sets the node that it knows, between our looks at it and at the topic's owner.
        trash.owners.when_asked = lambda: None
        cluster.zookeeper.set(path, named)

    trash.owners.when_asked = name_it
    done = delete(trash, orphan)
    assert "its subscription names it now" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)
    assert cluster.nodes[path] == named


def test_what_a_subscription_comes_to_name_before_the_commit_stays(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan, other = of_subscription(cluster), never_listed(cluster)
    path = cursor_path(NAME, "s")
    named = build_cursor_info(CursorInfo(orphan, Position(first, 3)))
    asked = iter(range(100))

    def name_it() -> str | None:
        # Asked for each line, and then right before the commit.
        if next(asked) == 2:
            cluster.zookeeper.set(path, named)
        return None

    lines = trash.marked(*(trash.line(TrashKind.ORPHAN, one) for one in (orphan, other)))
    version, done = trash.version(), Done()
    trash.deletions.delete_orphans(NAME, lines, done, name_it)
    assert (done.ledger_ids, sorted(done.postponed), trash.version()) == ([], [orphan, other], version)
    assert (trash.in_bookkeeper(orphan), cluster.nodes[path]) == (True, named)


def test_what_a_damaged_subscription_may_name_stays(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    orphan = of_subscription(cluster)
    cluster.zookeeper.set(cursor_path(NAME, "s"), b"\xff\xff\xff")
    done = delete(trash, orphan)
    assert "is damaged" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


@pytest.mark.parametrize("remade", ["list", "subscription"])
@pytest.mark.parametrize("kind", ["of a subscription", "empty"])
def test_what_is_older_than_the_node_that_could_name_it_stays(
    cluster: LiveCluster, trash: Trash, kind: str, remade: str
) -> None:
    """Versions begin anew with a node: setting it as it is could make it one that a broker of before knows."""
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "s", (first, 3))
    orphan = of_subscription(cluster) if kind == "of a subscription" else never_listed(cluster)
    path = managed_ledger_path(NAME) if remade == "list" else cursor_path(NAME, "s")
    data = cluster.nodes[path]
    cluster.zookeeper.delete(path)
    cluster.zookeeper.set(path, data, created_ms=cluster.created_ms[orphan] + 1)
    done = delete(trash, orphan)
    stays = remade == "list" or kind == "of a subscription"
    assert trash.in_bookkeeper(orphan) is stays
    assert trash.living.nodes.get(path).version == 0 or not stays
    assert ("made later" in done.postponed.get(orphan, "")) is stays


def test_an_open_ledger_that_was_made_after_its_line_stays(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    orphan = cluster.write_unlisted(
        (),
        [("component", b"managed-ledger"), ("pulsar/managed-ledger", NAME.encode())],
        created_ms=time.time_ns() // 1_000_000 + 3_600_000,
    )
    done = delete(trash, orphan)
    assert "made after it was marked" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


def test_a_bookie_that_does_not_answer_is_asked_once_a_pass(cluster: LiveCluster, trash: Trash) -> None:
    ledgers(cluster)
    orphans = [never_listed(cluster) for _ in range(6)]
    asked: list[frozenset[str]] = []
    bookies = NewestEntries(trash.living.reading)
    silent = cluster.written[orphans[0]].node.ensembles[0].bookies[0]
    next(one for one in cluster.bookies if one.address == silent).kill()

    class Watched:
        def none_has_any(self, node: LedgerNode, known: set[str]) -> bool | LedgerfsError:
            asked.append(frozenset(known))
            return bookies.none_has_any(node, known)

    trash.deletions._open_orphans._bookies = Watched()  # type: ignore[assignment]
    done = delete(trash, *orphans)
    held = [one for one in orphans if silent in cluster.written[one].node.ensembles[0].bookies]
    assert sorted(done.postponed) == held
    assert asked[0] == frozenset()
    assert set(asked[1:]) == {frozenset({silent})}
    # Another pass asks it again.
    trash.deletions.forget()
    next(one for one in cluster.bookies if one.address == silent).start()
    assert delete_marked(trash) == held


@pytest.mark.parametrize("name", [b"..", b"a/b", b"\xff"])
def test_what_was_made_for_a_subscription_that_none_is_called_holds_up_nothing(
    cluster: LiveCluster, trash: Trash, name: bytes
) -> None:
    ledgers(cluster)
    odd, other = never_listed(cluster, **{"pulsar/cursor": name}), of_subscription(cluster)
    done = delete(trash, odd, other)
    assert other in done.ledger_ids
    if name != b"\xff":
        assert "which no subscription is called" in done.postponed[odd]


@pytest.mark.parametrize("owner", [Owner.SOME, Owner.UNKNOWN])
def test_what_a_subscription_left_open_stays_while_a_broker_may_have_the_topic(
    cluster: LiveCluster, trash: Trash, owner: Owner
) -> None:
    ledgers(cluster)
    orphan = of_subscription(cluster)
    trash.owners.owner = owner
    done = delete(trash, orphan)
    assert (done.ledger_ids, list(done.postponed)) == ([], [orphan])
    assert trash.in_bookkeeper(orphan)


def test_orphans_that_no_commit_has_room_for_together_go_by_several(cluster: LiveCluster, trash: Trash) -> None:
    """Nodes of subscriptions are set as they are, and have many bytes where these have many holes."""
    first, *_ = ledgers(cluster)
    orphans = []
    for name in ("s", "t", "u", "v"):
        large = CursorInfo(IN_THE_NODE, Position(first, 3), properties=(("x" * 400_000, 1),))
        cluster.zookeeper.set(cursor_path(NAME, name), build_cursor_info(large))
        orphans.append(of_subscription(cluster, name))
    version = trash.version()
    done = delete(trash, *orphans)
    assert (done.ledger_ids, done.postponed, trash.version()) == (orphans, {}, version + 2)

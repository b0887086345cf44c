"""After a deletion no broker keeps a list that names what is gone: it is asked to let the topic go until it has, also after a restart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledgerfs.clusters.bundles import Owner
from ledgerfs.errors import (
    AccessDeniedError,
    AdminApiUnreachableError,
    LedgerfsError,
    TooSoonError,
    UncertainRequestError,
)
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.lifecycle.acting import deletions
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.acting.comparing import require_same
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.storage.zookeeper.changes import DropNode
from tests.lifecycle.acting.test_deletions import Trash, ledgers, trim
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.told_owners import NAME

MINUTE = 60_000


@dataclass
class Unloads:
    """What is unloaded, and fails as long as there are errors."""

    errors: list[LedgerfsError] = field(default_factory=list)
    asked: int = 0
    done: int = 0

    def __call__(self, managed_ledger: str) -> None:
        assert managed_ledger == NAME
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        self.done += 1


@pytest.fixture(name="trash")
def _trash(cluster: LiveCluster) -> Iterator[Trash]:
    made = Trash(cluster)
    yield made
    made.close()


@pytest.fixture(name="unloads")
def _unloads(trash: Trash, monkeypatch: pytest.MonkeyPatch) -> Unloads:
    made = Unloads()
    monkeypatch.setattr(trash.owners, "unload", made)
    return made


def comes_after(trash: Trash, often: int) -> None:
    """Have a broker take the topic once it was asked so often who has it."""
    asked = iter(range(1000))

    def come() -> None:
        trash.owners.owner = Owner.SOME if next(asked) >= often else Owner.NONE

    trash.owners.when_asked = come


def deleted(trash: Trash, cluster: LiveCluster, count: int = 1) -> Done:
    """Trim the oldest ledgers."""
    ids = ledgers(cluster, count + 1)[:count]
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in ids))
    done = trim(trash, lines, trash.version())
    assert done.ledger_ids == ids
    return done


def closed(trash: Trash, hands: CarryingOut, minutes: int = 0) -> Done:
    """Close all lines, so many minutes after they were deleted."""
    lines = trash.journal()
    now_ms = max(one.line.changed_ms for one in lines) + minutes * MINUTE
    ids = tuple(one.line.ledger_id for one in lines)
    told = tuple(one.line for one in lines)
    action = Action(ActionKind.CLEAN, NAME, ids, 0, Via.DIRECT, None, "a test", lines=told)
    return hands.carry_out(action, Seen({one.line.path: one for one in lines}, {}, {}, {}, now_ms, now_ms))


def are_let_go(trash: Trash) -> list[bool]:
    """Tell of all lines whether what deleted them knows that no broker has the list of before."""
    lines = [one.line for one in trash.journal()]
    return [trash.deletions.is_let_go(one, one.changed_ms, Done()) for one in lines]


def another_service(trash: Trash) -> CarryingOut:
    return CarryingOut(trash.living, trash.means, None, None, frozenset)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        TooSoonError("a minute"),
        AdminApiUnreachableError("away"),
        AccessDeniedError("no"),
        UncertainRequestError("perhaps"),
    ],
)
def test_an_unload_that_failed_is_tried_again_until_it_was_done(
    cluster: LiveCluster, trash: Trash, unloads: Unloads, error: LedgerfsError, is_restarted: bool
) -> None:
    comes_after(trash, 2)
    unloads.errors += [error] * 3
    assert len(deleted(trash, cluster).remarks) == 1
    # However long ago it was, as long as a broker has the topic.
    for minutes in (1, 1000):
        hands = another_service(trash) if is_restarted else trash.hands
        done = closed(trash, hands, minutes)
        assert (done.ledger_ids, len(done.remarks), set(trash.states().values())) == ([], 1, {TrashState.DELETED})
    assert unloads.done == 0
    done = closed(trash, trash.hands, 2000)
    assert (len(done.ledger_ids), done.remarks, trash.states(), unloads.done) == (1, [], {}, 1)


def test_a_broker_that_comes_back_later_lets_the_topic_go(cluster: LiveCluster, trash: Trash, unloads: Unloads) -> None:
    deleted(trash, cluster, 2)
    for minutes in (0, 9):
        assert closed(trash, trash.hands, minutes).ledger_ids == []
    assert (len(trash.states()), unloads.asked) == (2, 0)
    trash.owners.owner = Owner.SOME
    assert len(closed(trash, another_service(trash), 9).ledger_ids) == 2
    assert (trash.states(), unloads.done) == ({}, 1)


def test_nobody_waits_for_ever_for_a_broker_that_comes_back(
    cluster: LiveCluster, trash: Trash, unloads: Unloads
) -> None:
    deleted(trash, cluster)
    assert len(closed(trash, trash.hands, 10).ledger_ids) == 1
    assert (trash.states(), unloads.asked) == ({}, 0)


def test_a_topic_that_was_let_go_once_is_not_asked_for_again(
    cluster: LiveCluster, trash: Trash, unloads: Unloads
) -> None:
    comes_after(trash, 2)
    deleted(trash, cluster)
    assert unloads.done == 1
    assert are_let_go(trash) == [True]
    assert unloads.asked == 1


def test_each_deletion_has_its_own_letting_go(cluster: LiveCluster, trash: Trash, unloads: Unloads) -> None:
    first, second, _ = ledgers(cluster)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    comes_after(trash, 2)
    assert trim(trash, lines, trash.version()).ledger_ids == [first]
    assert unloads.done == 1
    trash.owners.when_asked = lambda: None
    trash.owners.owner = Owner.NONE
    lines = [one for one in trash.marked(trash.line(TrashKind.TRIMMED, second)) if one.line.ledger_id == second]
    assert trim(trash, lines, trash.version()).ledger_ids == [second]
    assert are_let_go(trash) == [False, False]
    trash.owners.owner = Owner.SOME
    assert are_let_go(trash) == [True, True]
    assert unloads.done == 2


def test_a_topic_that_is_gone_is_not_let_go(cluster: LiveCluster, trash: Trash, unloads: Unloads) -> None:
    deleted(trash, cluster)
    trash.lock.commit([DropNode(managed_ledger_path(NAME), trash.version())])
    trash.owners.owner = Owner.SOME
    assert len(closed(trash, trash.hands).ledger_ids) == 1
    assert unloads.asked == 0


def test_without_a_broker_to_ask_somebody_is_told(cluster: LiveCluster, trash: Trash) -> None:
    deleted(trash, cluster)
    trash.owners.can_unload = False
    trash.owners.owner = Owner.SOME
    done = closed(trash, trash.hands)
    assert (len(done.ledger_ids), len(done.remarks)) == (1, 1)
    assert "unload the topic" in done.remarks[0]


@pytest.mark.parametrize("error", [AdminApiUnreachableError("away"), AccessDeniedError("no")])
def test_a_topic_that_cannot_be_unloaded_is_asked_for_once_a_pass(
    cluster: LiveCluster, trash: Trash, unloads: Unloads, error: LedgerfsError
) -> None:
    deleted(trash, cluster, 3)
    trash.owners.owner = Owner.SOME
    unloads.errors += [error] * 2
    for passes in (1, 2):
        done = closed(trash, trash.hands)
        assert (done.ledger_ids, len(done.remarks), unloads.asked) == ([], 1, passes)
    assert len(closed(trash, trash.hands).ledger_ids) == 3


def unlisted(cluster: LiveCluster, trash: Trash, ledger_id: int) -> list[NotedLine]:
    """Return the line of a deletion that began: its list does not name the ledger any more."""
    line = trash.line(TrashKind.TRIMMED, ledger_id, state=TrashState.UNLISTED)
    cluster.change_list(
        TOPIC, lambda info: replace(info, ledgers=tuple(one for one in info.ledgers if one.ledger_id != ledger_id))
    )
    return [one for one in trash.marked(line) if one.line.ledger_id == ledger_id]


def test_a_deletion_that_is_gone_on_with_has_its_own_letting_go(
    cluster: LiveCluster, trash: Trash, unloads: Unloads
) -> None:
    first, second, _ = ledgers(cluster)
    done = Done()
    trash.owners.owner = Owner.SOME
    trash.deletions.finish(unlisted(cluster, trash, first), done)
    trash.owners.owner = Owner.NONE
    trash.deletions.finish(unlisted(cluster, trash, second), done)
    assert (done.ledger_ids, unloads.done) == ([first, second], 1)
    trash.owners.owner = Owner.SOME
    assert len(closed(trash, trash.hands, 3).ledger_ids) == 2
    assert unloads.done == 2


def test_without_a_broker_to_ask_all_lines_of_a_topic_are_closed_at_once(cluster: LiveCluster, trash: Trash) -> None:
    deleted(trash, cluster, 3)
    trash.owners.can_unload = False
    trash.owners.owner = Owner.SOME
    done = closed(trash, trash.hands)
    assert (len(done.ledger_ids), len(done.remarks), trash.states()) == (3, 1, {})


@dataclass
class Brokers:
    """Topics, each with a line of a deletion, and the brokers that have them; some do not answer."""

    trash: Trash
    silent: set[str]
    free: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    unloaded: set[str] = field(default_factory=set)

    def owner_of(self, managed_ledger: str) -> Owner:
        return Owner.NONE if managed_ledger in self.free else Owner.SOME

    def unload(self, managed_ledger: str) -> None:
        self.asked.append(managed_ledger)
        if managed_ledger in self.silent:
            raise UncertainRequestError("no answer", key=managed_ledger)
        self.unloaded.add(managed_ledger)

    def close(self, minutes: int = 0) -> list[str]:
        """Close all lines in a pass; return which topics were asked for."""
        noted = self.trash.journal()
        now_ms = max((one.line.changed_ms for one in noted), default=0) + minutes * MINUTE
        seen = Seen({one.line.path: one for one in noted}, {}, {}, {}, now_ms, now_ms)
        self.asked.clear()
        for one in noted:
            about = one.line.managed_ledger, (one.line.ledger_id,), 0, Via.DIRECT, None
            self.trash.hands.carry_out(Action(ActionKind.CLEAN, *about, "a test", lines=(one.line,)), seen)
        return list(self.asked)


def brokers(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch, count: int, silent: set[int]
) -> tuple[Brokers, list[str]]:
    topics = [f"public/default/t{number:02}" for number in range(count)]
    names = [managed_ledger_of(one) for one in topics]
    for topic, name in zip(topics, names, strict=True):
        ledger_id, _ = cluster.write_ledgers(topic, [messages(2)] * 2)
        line = replace(trash.line(TrashKind.TRIMMED, ledger_id), managed_ledger=name, state=TrashState.DELETED)
        trash.marked(line)
    made = Brokers(trash, {names[number] for number in silent})
    monkeypatch.setattr(trash.owners, "owner_of", made.owner_of)
    monkeypatch.setattr(trash.owners, "unload", made.unload)
    return made, names


def test_topics_whose_broker_answers_do_not_wait_for_those_whose_does_not(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, names = brokers(cluster, trash, monkeypatch, 8, {0, 1, 2, 3})
    assert made.close() == names[:3]
    # One of those, in turn, and all that were not asked yet.
    assert made.close() == [names[0], *names[3:]]
    assert made.unloaded == {*names[4:]}
    turns = [name for _ in range(4) for name in made.close()]
    assert sorted(turns) == sorted(made.silent)
    # Once one answers, all are asked again.
    made.silent.clear()
    assert len(made.close()) + len(made.close()) == 4
    assert trash.states() == {}


def test_topics_that_no_broker_has_are_closed_whoever_is_silent(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, names = brokers(cluster, trash, monkeypatch, 6, {0, 1, 2, 3, 4})
    made.free.add(names[5])
    made.close(9)
    assert len(trash.states()) == 6
    made.close(1000)
    assert len(trash.states()) == 5


# Ledgers that their list calls deleted, and that are there.


@pytest.fixture(name="flagged")
def _flagged(cluster: LiveCluster, trash: Trash) -> NotedLine:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    cluster.delete_from_bookkeeper(first, node=False, collected=False)
    return trash.marked(trash.line(TrashKind.FLAGGED, first))[0]


def while_compared(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have something happen once the copies are compared."""

    def compare(*arguments: Any, **options: Any) -> None:
        require_same(*arguments, **options)
        act()

    monkeypatch.setattr(deletions, "require_same", compare)


def test_a_flagged_ledger_stays_if_a_broker_takes_the_topic_while_it_is_compared(
    trash: Trash, flagged: NotedLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_compared(monkeypatch, lambda: setattr(trash.owners, "owner", Owner.SOME))
    done = Done()
    trash.deletions.delete_flagged(NAME, flagged, done)
    assert (done.ledger_ids, done.postponed) == ([], {flagged.line.ledger_id: "a broker has the topic"})
    assert trash.in_bookkeeper(flagged.line.ledger_id)
    assert trash.owners.unloaded == []


def test_a_flagged_ledger_stays_if_its_list_changes_while_it_is_compared(
    cluster: LiveCluster, trash: Trash, flagged: NotedLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_compared(monkeypatch, lambda: cluster.change_list(TOPIC, lambda info: info))
    done = Done()
    trash.deletions.delete_flagged(NAME, flagged, done)
    assert (done.ledger_ids, list(done.postponed)) == ([], [flagged.line.ledger_id])
    assert trash.in_bookkeeper(flagged.line.ledger_id)
    assert trash.states() == {flagged.line.ledger_id: TrashState.MARKED}


def test_a_broker_that_takes_the_topic_of_a_flagged_ledger_lets_it_go(trash: Trash, flagged: NotedLine) -> None:
    comes_after(trash, 2)
    done = Done()
    trash.deletions.delete_flagged(NAME, flagged, done)
    assert (done.ledger_ids, trash.owners.unloaded) == ([flagged.line.ledger_id], [NAME])

"""What reads much acts upon what it has read after a turn, and leaves the rest; once a service is to end, nothing more is begun."""

from collections.abc import Callable
from itertools import count

import pytest

from ledgerfs.clusters.policies import NOTHING_SET
from ledgerfs.clusters.policies_now import SetPolicies
from ledgerfs.errors import ListFullError, StoppedError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.lifecycle.acting.carrying_out import Seen
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from tests.lifecycle.acting.test_deletions import Trash, flag, trim
from tests.lifecycle.acting.test_open_orphans import never_listed
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.told_owners import NAME


class _Told:
    """Whether a service is to end, as the test says."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self) -> bool:
        return self.is_set


def within_a_turn(is_stopping: Callable[[], bool]) -> Turn:
    """Return a turn that no time ends, on a slow machine either."""
    return Turn(is_stopping, clock=lambda: 0.0)


def offloaded(cluster: LiveCluster) -> list[int]:
    ids = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(4)])[:3]
    for one in ids:
        cluster.offload(TOPIC, one)
    return ids


def called_deleted(cluster: LiveCluster) -> list[int]:
    """Offload ledgers whose list calls BookKeeper's copies deleted, which are there."""
    ids = offloaded(cluster)
    for one in ids:
        cluster.delete_from_bookkeeper(one, node=False, collected=False)
    return ids


def lines_of(trash: Trash, kind: TrashKind, ids: list[int]) -> list[NotedLine]:
    return trash.marked(*(trash.line(kind, one) for one in ids))


def carried_out(trash: Trash, lines: list[NotedLine]) -> Done:
    action = Action(
        ActionKind.DELETE,
        NAME,
        tuple(one.line.ledger_id for one in lines),
        0,
        Via.DIRECT,
        None,
        "a test",
        lines=tuple(one.line for one in lines),
    )
    policies = {NAME: SetPolicies(NOTHING_SET, NOTHING_SET)}
    return trash.hands.carry_out(action, Seen({one.line.path: one for one in lines}, {}, {}, policies, 0, 0))


def test_a_turn_that_has_read_nothing_is_not_over() -> None:
    turn = Turn(most_s=10, clock=count(0, 100).__next__)
    assert not turn.is_over
    assert list(turn.watched(iter(()))) == []
    assert not turn.is_over


def test_what_a_turn_has_read_is_deleted_and_the_rest_is_told(cluster: LiveCluster) -> None:
    ids = offloaded(cluster)
    trash = Trash(cluster, Turn(most_s=0))
    lines = lines_of(trash, TrashKind.OFFLOADED, ids)
    version = trash.version()
    for place, one in enumerate(ids):
        done = carried_out(trash, lines[place:])
        assert (done.ledger_ids, done.later, done.postponed, done.remarks) == ([one], ids[place + 1 :], {}, [])
        assert [trash.in_bookkeeper(other) for other in ids] == [other > one for other in ids]
        assert trash.version() == version + place + 1
    trash.close()


def test_within_a_turn_all_is_set_at_once(cluster: LiveCluster) -> None:
    ids = offloaded(cluster)
    trash = Trash(cluster)
    version = trash.version()
    done = carried_out(trash, lines_of(trash, TrashKind.OFFLOADED, ids))
    assert (done.ledger_ids, done.later, trash.version()) == (ids, [], version + 1)
    trash.close()


def test_ledgers_that_are_called_deleted_take_turns_too(cluster: LiveCluster) -> None:
    ids = called_deleted(cluster)
    trash = Trash(cluster, Turn(most_s=0))
    done = carried_out(trash, lines_of(trash, TrashKind.FLAGGED, ids))
    assert (done.ledger_ids, done.later, done.postponed) == (ids[:1], ids[1:], {})
    trash.close()


def test_deletions_that_began_take_turns_where_objects_are_read_again(cluster: LiveCluster) -> None:
    ids = called_deleted(cluster)
    trash = Trash(cluster, Turn(most_s=0))
    trash.marked(*(trash.line(TrashKind.OFFLOADED, one, state=TrashState.UNLISTED) for one in ids))
    done = carried_out(trash, trash.journal())
    assert (done.ledger_ids, done.later, done.postponed, done.remarks) == (ids[:1], ids[1:], {}, [])
    trash.close()


def test_a_comparison_ends_with_the_service_and_nothing_is_deleted(cluster: LiveCluster) -> None:
    ids, told, asked = offloaded(cluster), _Told(), count()
    trash = Trash(cluster, within_a_turn(lambda: told() and next(asked) > after))
    lines, version = lines_of(trash, TrashKind.OFFLOADED, ids), trash.version()
    told.is_set = True
    for after in range(6):
        asked = count()
        with pytest.raises(StoppedError):
            flag(trash, lines)
        assert all(map(trash.in_bookkeeper, ids)), after
        assert (trash.version(), set(trash.states().values())) == (version, {TrashState.MARKED}), after
        # It is no trouble.
        done = carried_out(trash, lines)
        assert (done.ledger_ids, done.postponed, done.remarks) == ([], {}, []), after
    # The next one compares all of them again.
    told.is_set = False
    assert flag(trash, lines).ledger_ids == ids
    trash.close()


def test_ledgers_that_were_never_listed_stay_if_the_service_is_to_end_while_their_bookies_are_asked(
    cluster: LiveCluster,
) -> None:
    offloaded(cluster)
    orphans, told = [never_listed(cluster) for _ in range(3)], _Told()
    trash = Trash(cluster, within_a_turn(told))
    lines, version = lines_of(trash, TrashKind.ORPHAN, orphans), trash.version()

    def stop() -> None:
        # Who has the topic is asked right before the bookies are.
        told.is_set = True

    trash.owners.when_asked = stop
    asked = sum(len(one.asked) for one in cluster.bookies)
    with pytest.raises(StoppedError):
        trash.deletions.delete_orphans(NAME, lines, Done())
    assert sum(len(one.asked) for one in cluster.bookies) == asked
    assert all(map(trash.in_bookkeeper, orphans))
    assert (trash.version(), set(trash.states().values())) == (version, {TrashState.MARKED})
    trash.owners.when_asked = lambda: None
    told.is_set = False
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done)
    assert done.ledger_ids == orphans
    trash.close()


def test_what_was_compared_before_is_deleted_to_its_end(cluster: LiveCluster) -> None:
    ids, told = offloaded(cluster), _Told()
    trash = Trash(cluster, within_a_turn(told))
    lines = lines_of(trash, TrashKind.OFFLOADED, ids)
    owners_asked = count()

    def stop() -> None:
        # Before the objects are compared, before the list is set, and behind that.
        told.is_set = next(owners_asked) >= 1

    trash.owners.when_asked = stop
    assert flag(trash, lines).ledger_ids == ids
    assert set(trash.states().values()) == {TrashState.DELETED}
    trash.close()


def test_a_deletion_of_objects_ends_with_the_service_and_the_next_one_goes_on(cluster: LiveCluster) -> None:
    ids, told = offloaded(cluster), _Told()
    trash = Trash(cluster, within_a_turn(told))
    lines, version = lines_of(trash, TrashKind.TRIMMED, ids), trash.version()
    asked: list[bool] = []

    def stop() -> None:
        asked.append(told.is_set)
        told.is_set = len(asked) >= 2

    trash.owners.when_asked = stop
    with pytest.raises(StoppedError):
        trim(trash, lines, version)
    assert set(trash.states().values()) == {TrashState.UNLISTED}
    assert len(trash.objects()) == 6
    # Who has the topic is asked behind the list, although it ended there.
    assert len(asked) > 2
    told.is_set = False
    trash.owners.when_asked = lambda: None
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, trash.objects()) == (ids, set())
    trash.close()


def test_nothing_is_read_for_a_list_that_has_no_room(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = offloaded(cluster)
    trash = Trash(cluster)
    lines = lines_of(trash, TrashKind.OFFLOADED, ids)
    data = cluster.nodes[managed_ledger_path(NAME)]
    asked = sum(len(one.asked) for one in cluster.bookies)
    monkeypatch.setattr("ledgerfs.offload.list_bytes.MOST_BYTES", len(data) + 1)
    with pytest.raises(ListFullError):
        flag(trash, lines)
    assert sum(len(one.asked) for one in cluster.bookies) == asked
    assert len(parse_managed_ledger_info(cluster.nodes[managed_ledger_path(NAME)], key="").ledgers) == 4
    trash.close()

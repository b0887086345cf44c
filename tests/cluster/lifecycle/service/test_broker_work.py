"""Brokers' trims wait for no offload, and what waits is done as it was planned last."""

from collections.abc import Iterator
from threading import Event

import pytest

from ledgerfs.errors import StoreUnreachableError
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.lifecycle.service.broker_work import BrokerWork
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from tests.support.waiting import wait_until

OFFLOAD, TRIM = ActionKind.OFFLOAD, ActionKind.TRIM


def action(kind: ActionKind, topic: int, ledger_id: int = 1) -> Action:
    return Action(kind, f"t/ns/persistent/{topic}", (ledger_id,), 10, Via.BROKER, None, "a test")


class _Brokers:
    """Offload until the test lets them, and trim at once."""

    def __init__(self) -> None:
        self.let = Event()
        self.asked: list[Action] = []
        self.events = Events()
        self.work = BrokerWork(self.do, self.events, lambda: False)

    def do(self, one: Action) -> list[Outcome]:
        self.asked.append(one)
        if one.kind is OFFLOAD:
            self.let.wait(300)
        if one.ledger_ids == (13,):
            raise StoreUnreachableError("no answer")
        if one.ledger_ids == (14,):
            return [Outcome(Status.SKIPPED, "not-trimmed", one.managed_ledger or "", "left", one.ledger_ids)]
        code = {OFFLOAD: "offloaded", TRIM: "trimmed"}[one.kind]
        return [Outcome(Status.OK, code, one.managed_ledger or "", ledger_ids=one.ledger_ids, size=one.size)]


@pytest.fixture(name="brokers")
def _brokers() -> Iterator[_Brokers]:
    made = _Brokers()
    yield made
    made.let.set()
    made.work.stop()


def test_four_offloads_go_on_at_once_and_trims_wait_for_none(brokers: _Brokers) -> None:
    work = brokers.work
    for topic in range(6):
        work.begin(action(OFFLOAD, topic))
    wait_until(lambda: len(brokers.asked) == 4)
    work.begin(action(TRIM, 0))
    wait_until(lambda: brokers.events.counts().get("trimmed_ledgers") == 1)
    assert (len(brokers.asked), work.is_idle) == (5, False)
    brokers.let.set()
    wait_until(lambda: work.is_idle)
    assert brokers.events.counts()["offloaded_ledgers"] == 6


def test_what_waits_is_done_as_it_was_planned_last_and_once(brokers: _Brokers) -> None:
    for topic in range(5):
        brokers.work.begin(action(OFFLOAD, topic))
    wait_until(lambda: len(brokers.asked) == 4)
    for ledger_id in (2, 3):
        for topic in (0, 4):
            brokers.work.begin(action(OFFLOAD, topic, ledger_id))
    brokers.let.set()
    wait_until(lambda: brokers.work.is_idle)
    assert sorted(one.ledger_ids for one in brokers.asked) == [(1,)] * 4 + [(3,)]


def test_work_that_fails_is_reported_and_may_be_begun_again(brokers: _Brokers) -> None:
    brokers.work.begin(action(TRIM, 1, 13))
    wait_until(lambda: brokers.work.is_idle)
    assert [one.text for one in brokers.events.troubles()] == [
        "trim of t/ns/persistent/1 by its broker failed: no answer"
    ]
    brokers.work.begin(action(TRIM, 1))
    wait_until(lambda: brokers.work.is_idle)
    assert brokers.events.counts()["trimmed_ledgers"] == 1


def test_a_topic_whose_broker_left_what_is_due_is_not_loaded_again_in_each_pass(brokers: _Brokers) -> None:
    for _ in range(3):
        for topic in (1, 2):
            brokers.work.begin(action(TRIM, topic, 14 if topic == 1 else 1))
        wait_until(lambda: brokers.work.is_idle)
    assert [one.managed_ledger for one in brokers.asked].count("t/ns/persistent/1") == 1
    assert len(brokers.asked) == 4
    assert [one.text for one in brokers.events.troubles()] == ["left"]

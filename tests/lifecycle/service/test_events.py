"""What the service has done is counted as it was done, and what goes wrong in each pass is logged once."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.service.events import Events
from ledgerfs.lifecycle.service.service import Service
from ledgerfs.offload.remarks import Remark

NAME = "public/default/persistent/orders"


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ledgerfs.lifecycle")


def test_a_trouble_whose_numbers_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    for seconds in range(100):
        events.trouble(Remark("not-compared", 7, f"ledger 7: no answer for {seconds} s"))
    assert [one.getMessage() for one in caplog.records] == ["ledger 7: no answer for 0 s"]
    (trouble,) = events.troubles()
    assert (trouble.text, trouble.times) == ("ledger 7: no answer for 99 s", 100)


def test_troubles_of_another_object_or_kind_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    for code, subject in (("not-whole", 7), ("not-whole", 8), ("not-compared", 7)):
        events.trouble(Remark(code, subject, "the same text"))
    assert (len(caplog.records), len(events.troubles())) == (3, 3)


def test_more_troubles_than_are_kept_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    for _ in range(5):
        for number in range(120):
            events.trouble(Remark("postponed", number, f"ledger {number}: not now"))
    assert (len(caplog.records), len(events.troubles())) == (120, 50)


@pytest.mark.parametrize("kind", [ActionKind.DELETE, ActionKind.CLEAN])
def test_only_bytes_that_were_freed_are_counted(kind: ActionKind) -> None:
    events = Events()
    service: Any = SimpleNamespace(_parts=SimpleNamespace(events=events))
    action = Action(kind, NAME, (1, 2), 1000, Via.DIRECT, None, "a test")
    Service._tell(service, action, Done([1], 0))
    Service._tell(service, action, Done([2], 300))
    name = {ActionKind.DELETE: "deleted", ActionKind.CLEAN: "cleaned"}[kind]
    assert events.counts() == {f"{name}_ledgers": 2, f"{name}_bytes": 300}

"""What the service has done is counted as it was done, and what goes wrong in each pass is logged once."""

import logging

import pytest

from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed

NAME = "public/default/persistent/orders"


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ledgerfs.lifecycle")


def test_a_trouble_whose_numbers_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    for seconds in range(100):
        events.note(failed("not-compared", 7, f"ledger 7: no answer for {seconds} s"))
    assert [one.getMessage() for one in caplog.records] == ["ledger 7: no answer for 0 s"]
    (trouble,) = events.troubles()
    assert (trouble.text, trouble.times) == ("ledger 7: no answer for 99 s", 100)
    for code, subject in (("not-whole", 7), ("not-compared", 8)):
        events.note(failed(code, subject, trouble.text))
    assert (len(caplog.records), len(events.troubles())) == (3, 3)


def test_more_troubles_than_are_kept_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    for _ in range(5):
        for number in range(120):
            events.note(failed("postponed", number, f"ledger {number}: not now"))
    assert (len(caplog.records), len(events.troubles())) == (120, 50)


def test_what_was_done_is_counted_and_only_bytes_that_were_freed() -> None:
    events = Events()
    for ids, size in (((1,), 0), ((2,), 300), ((), 7)):
        events.note(Outcome(Status.OK, "deleted", NAME, ledger_ids=ids, size=size))
    assert (events.counts(), events.troubles()) == ({"deleted_ledgers": 2, "deleted_bytes": 300}, [])

"""Offloads that a broker is asked for: what it does, what it says, and what the list then has."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import AdminApiError, BrokerOffloadError, OffloadRunningError, UncertainRequestError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, offload_and_compare
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from tests.cluster.support.live_broker import LiveBroker, done_and_lost
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.admin_api import send
from tests.support.each import for_each
from tests.support.tries import without_pauses

NAME = managed_ledger_of(TOPIC)
END = Position(153, 0)


def look_soon(_: float) -> None:
    """Stand for the pauses between two looks at a broker."""
    time.sleep(0.01)


def api(broker: LiveBroker, **options: Any) -> BrokerApi:
    return BrokerApi(AdminRequests(broker.url), **{"sleep": look_soon, **options})


def offloaded(live: LiveCluster) -> list[int]:
    return [one.ledger_id for one in live.list_of(TOPIC).ledgers if one.is_offloaded]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_all_closed_ledgers_are_offloaded(
    live: LiveCluster, broker: LiveBroker, listed: ListReader, is_loaded: bool
) -> None:
    if is_loaded:
        broker.load(TOPIC)
    report = offload_and_compare(api(broker), NAME, END, listed)
    size = sum(one.size for one in live.list_of(TOPIC).ledgers if one.ledger_id <= 152)
    assert (report.ledger_ids, report.size) == ((150, 151, 152), size)
    assert offloaded(live) == [150, 151, 152]
    position = {"ledgerId": 153, "entryId": 0, "partitionIndex": -1}
    assert broker.admin.asked == [("PUT", f"/admin/v2/persistent/{TOPIC}/offload", position)]


def test_only_what_is_before_the_position_is_offloaded(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    assert offload_and_compare(api(broker), NAME, Position(151, 4), listed).ledger_ids == (150,)
    assert offloaded(live) == [150]


def test_a_broker_is_not_asked_for_nothing(live: LiveCluster, broker: LiveBroker, listed: ListReader) -> None:
    for ledger_id in (150, 151, 152):
        live.offload(TOPIC, ledger_id)
    # Never the last one of the list, whatever position is given.
    assert offload_and_compare(api(broker), NAME, Position(10**9, 0), listed).ledger_ids == ()
    assert (broker.admin.seen, broker.loads) == ([], [])


def test_an_error_of_the_broker_is_reported_with_its_reason(broker: LiveBroker, listed: ListReader) -> None:
    broker.fails_with = "org.jclouds.http.HttpResponseException: 503"
    with pytest.raises(BrokerOffloadError, match=r"jclouds.*503"):
        offload_and_compare(api(broker), NAME, END, listed)


def test_a_success_that_left_ledgers_out_is_an_error_that_names_them(broker: LiveBroker, listed: ListReader) -> None:
    broker.skips = {151}
    with pytest.raises(BrokerOffloadError, match=r"by the ledger list 1 of 3 ledgers are not offloaded: 151$"):
        offload_and_compare(api(broker), NAME, END, listed)


def test_ledgers_that_are_trimmed_meanwhile_are_no_error(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    broker.before_ledger = lambda ledger_id: live.trim(TOPIC, 150) if ledger_id == 152 else None
    report = offload_and_compare(api(broker), NAME, END, listed)
    assert report.ledger_ids == (151, 152)
    # What was trimmed is not counted.
    assert report.size == sum(one.size for one in live.list_of(TOPIC).ledgers if one.ledger_id <= 152)


def test_one_that_runs_is_waited_for_and_then_the_rest_is_asked_for(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    goes_on = threading.Event()
    broker.before_ledger = lambda _: goes_on.wait(300) and None
    assert api(broker).begin_offload(NAME, Position(151, 0)) is True
    assert api(broker).begin_offload(NAME, END) is False

    def look(_: float) -> None:
        goes_on.set()

    report = offload_and_compare(api(broker, sleep=look), NAME, END, listed)
    assert report.ledger_ids == (150, 151, 152)
    assert [method for method, *_ in broker.admin.asked].count("PUT") == 4


def test_the_failure_of_an_earlier_one_is_not_ours(live: LiveCluster, broker: LiveBroker, listed: ListReader) -> None:
    goes_on = threading.Event()
    broker.before_ledger = lambda _: goes_on.wait(300) and None
    broker.fails_with = "the earlier one"
    assert api(broker).begin_offload(NAME, END)

    def look(_: float) -> None:
        goes_on.set()
        broker.wait()
        broker.fails_with = None

    assert offload_and_compare(api(broker, sleep=look), NAME, END, listed).ledger_ids == (150, 151, 152)


def test_waiting_is_bounded_and_ends_when_nobody_wants_it(broker: LiveBroker) -> None:
    goes_on = threading.Event()
    broker.before_ledger = lambda _: goes_on.wait(300) and None
    now = [0.0]

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(OffloadRunningError, match=r"longer than the time limit; it continues"):
        api(broker, clock=lambda: now[0], sleep=pass_time).offload(NAME, END, longest_s=30)
    assert 30 <= now[0] <= 35
    with pytest.raises(OffloadRunningError, match="if one is running, it continues"):
        api(broker, is_stopping=lambda: True).offload(NAME, END)
    goes_on.set()


@for_each("state", ["NOT_RUN", "SUCCESS", "ERROR"])
def test_a_broker_that_refuses_because_of_an_offload_that_it_does_not_know_is_not_asked_for_ever(
    broker: LiveBroker, state: str
) -> None:
    def refuse(handler: BaseHTTPRequestHandler) -> None:
        is_status = handler.command == "GET"
        reported = {"status": state, "lastError": ""} if is_status else {"reason": "Offload already in progress"}
        send(handler, 200 if is_status else 409, json.dumps(reported))

    broker.admin.faults = [refuse] * 50
    broker.admin.asked.clear()
    pauses: list[float] = []
    with pytest.raises(BrokerOffloadError, match="reports no running offload"):
        api(broker, sleep=pauses.append).offload(NAME, END)
    assert pauses == sorted(pauses)
    assert 3 < sum(pauses) < 20
    assert len(broker.admin.asked) <= len(pauses) + 1
    with pytest.raises(OffloadRunningError):
        api(broker, sleep=pauses.append, is_stopping=lambda: True).offload(NAME, END)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_broker_that_has_forgotten_the_offload_is_not_believed_but_the_list(
    live: LiveCluster, broker: LiveBroker, listed: ListReader, is_whole: bool
) -> None:
    """The topic is unloaded while it is offloaded: the status is that of none, and only the list tells what was done."""
    stop = threading.Event()
    broker.before_ledger = lambda ledger_id: stop.wait(300) and None if ledger_id == 152 and not is_whole else None

    def look(_: float) -> None:
        if is_whole:
            broker.wait()
        broker.forget(TOPIC)

    found = api(broker, sleep=look)
    if is_whole:
        assert offload_and_compare(found, NAME, END, listed).ledger_ids == (150, 151, 152)
    else:
        with pytest.raises(BrokerOffloadError, match="152"):
            offload_and_compare(found, NAME, END, listed)
    stop.set()


def test_an_offload_whose_answer_was_lost_is_waited_for_as_ours(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    goes_on = threading.Event()
    broker.before_ledger = lambda _: goes_on.wait(300) and None
    broker.admin.faults = [done_and_lost(broker)]
    report = offload_and_compare(api(broker, sleep=lambda _: goes_on.set()), NAME, END, listed)
    assert report.ledger_ids == (150, 151, 152)
    assert len(broker.admin.asked) == 2


def test_a_paused_broker_leaves_it_unknown_and_may_still_do_it(
    live: LiveCluster, broker: LiveBroker, listed: ListReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.pause()
    with monkeypatch.context() as patch:
        without_pauses(patch, bound_s=0.2, patience_s=0.2)
        with pytest.raises(UncertainRequestError, match="in time"):
            offload_and_compare(api(broker), NAME, END, listed)
    broker.resume()
    report = offload_and_compare(api(broker), NAME, END, listed)
    assert set(report.ledger_ids) <= {150, 151, 152}
    assert offloaded(live)[:3] == [150, 151, 152]


def test_a_status_that_is_none_is_reported(broker: LiveBroker) -> None:
    for body in ("[]", "{}", '{"status":"DONE"}', "<html>", ""):
        broker.admin.answers[f"/admin/v2/persistent/{TOPIC}/offload"] = (200, body)
        with pytest.raises(AdminApiError, match=r"no status of an offload|not JSON"):
            api(broker).offload_status(NAME)
    broker.admin.answers[f"/admin/v2/persistent/{TOPIC}/offload"] = (200, '{"status":"NOT_RUN","lastError":null}')
    assert api(broker).offload_status(NAME) == ("NOT_RUN", "")
    del broker.admin.answers[f"/admin/v2/persistent/{TOPIC}/offload"]


def test_a_topic_that_is_deleted_meanwhile_is_an_error_by_name(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    def delete(ledger_id: int) -> None:
        if ledger_id == 150:
            live.zookeeper.delete(f"/managed-ledgers/{NAME}")

    broker.before_ledger = delete
    broker.skips = {150, 151, 152}
    with pytest.raises(BrokerOffloadError, match="deleted during the offload"):
        offload_and_compare(api(broker), NAME, END, listed)


def test_topics_of_old_names_and_partitions_are_offloaded_by_their_own_paths(
    live: LiveCluster, broker: LiveBroker, listed: ListReader
) -> None:
    for topic in ("persistent://old/here/ns/a b", "persistent://public/default/b+ö%2F-partition-1"):
        name = managed_ledger_of(topic)
        ledgers = live.write_ledgers(topic, [messages(3), messages(3)])
        report = offload_and_compare(api(broker), name, Position(ledgers[-1], 0), listed)
        assert report.ledger_ids == (ledgers[0],)
    assert [path for _, path, _ in broker.admin.asked] == [
        "/admin/persistent/old/here/ns/a%20b/offload",
        "/admin/v2/persistent/public/default/b%2B%C3%B6%252F-partition-1/offload",
    ]

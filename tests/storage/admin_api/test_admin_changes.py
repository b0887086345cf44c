"""Requests that change something: sent once where that matters, and what is not known of them is said."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    AdminApiError,
    AdminApiUnreachableError,
    AuthenticationError,
    InvalidNameError,
    NotFoundError,
    UncertainRequestError,
)
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from tests.support.admin_api import AdminServer, send, serving
from tests.support.each import for_each
from tests.support.tries import without_pauses

PATH = "/admin/v2/persistent/public/default/orders/offload"
BODY = {"ledgerId": 7, "entryId": 0, "partitionIndex": -1}


@pytest.fixture
def broker() -> Iterator[AdminServer]:
    with serving({}, does=lambda *_: (204, "")) as admin:
        yield admin


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


def put(admin: AdminServer, *, is_repeatable: bool = False, token: str | None = None) -> Any:
    return AdminRequests(admin.url, token).change("PUT", PATH, BODY, is_repeatable=is_repeatable)


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def cut(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, "{", claimed=100)
    handler.close_connection = True


def bad_gateway(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 502, "")


def busy(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 503, "try later")


def hang(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.settimeout(300)
    handler.connection.recv(1)  # until the client has gone
    hang_up(handler)


LOST = [reset, hang_up, cut, bad_gateway]


def test_method_path_and_body_are_sent_as_json(broker: AdminServer) -> None:
    answer = put(broker)
    assert (answer.require_ok().status, answer.is_repeated) == (204, False)
    assert broker.asked == [("PUT", PATH, BODY)]
    assert broker.seen[0][1]["Content-Type"] == "application/json"
    AdminRequests(broker.url).change("POST", "/trim", is_repeatable=True).require_ok()
    assert broker.asked[1] == ("POST", "/trim", None)
    assert broker.seen[1][1]["Content-Length"] == "0"


@for_each("fault", LOST)
def test_what_may_be_done_is_not_done_twice(broker: AdminServer, fault: Any) -> None:
    broker.faults = [fault]
    broker.asked.clear()
    with pytest.raises(UncertainRequestError, match="not known whether the broker has done it") as caught:
        put(broker)
    assert len(broker.asked) == 1
    assert broker.url in str(caught.value)


@for_each("fault", LOST)
def test_what_may_be_done_twice_is_sent_again_and_that_is_told(broker: AdminServer, fault: Any) -> None:
    broker.faults = [fault, fault]
    broker.asked.clear()
    answer = put(broker, is_repeatable=True)
    assert (answer.status, answer.is_repeated) == (204, True)
    assert broker.asked == [("PUT", PATH, BODY)] * 3


@for_each("is_repeatable", [False, True])
def test_a_broker_that_stays_silent_leaves_it_unknown(
    broker: AdminServer, is_repeatable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pauses(monkeypatch, patience_s=0.1)
    broker.faults = [hang] * 100
    broker.seen.clear()
    with pytest.raises(UncertainRequestError, match="did not answer in time"):
        put(broker, is_repeatable=is_repeatable)
    assert (len(broker.seen) > 1) is is_repeatable


def test_what_was_refused_is_tried_again_whatever_it_is(broker: AdminServer) -> None:
    broker.faults = [busy, busy]
    assert put(broker).is_repeated is False
    assert len(broker.asked) == 3


def test_what_was_never_sent_is_not_done() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        for is_repeatable in (False, True):
            with pytest.raises(AdminApiUnreachableError, match="cannot be reached"):
                AdminRequests(address).change("PUT", PATH, is_repeatable=is_repeatable)


def test_a_busy_broker_that_stays_so_has_not_done_it(broker: AdminServer) -> None:
    broker.faults = [busy] * 100
    with pytest.raises(AdminApiError, match="status 503") as caught:
        put(broker)
    assert type(caught.value) is AdminApiError


@for_each("status", [307, 308])
def test_another_broker_gets_method_body_and_token(broker: AdminServer, status: int) -> None:
    broker.asked.clear()
    broker.seen.clear()
    with serving({}) as first:
        first.faults = [lambda handler: send(handler, status, "", Location=f"{broker.url}{PATH}?authoritative=true")]
        assert put(first, token="mine").status == 204
    assert broker.asked == [("PUT", f"{PATH}?authoritative=true", BODY)]
    assert broker.seen[0][1]["Authorization"] == "Bearer mine"


@for_each("status", [301, 302, 303])
def test_what_would_make_it_a_get_is_not_followed(broker: AdminServer, status: int) -> None:
    with serving({}) as first:
        first.faults = [lambda handler: send(handler, status, "", Location=f"{broker.url}{PATH}")]
        with pytest.raises(AdminApiError, match=f"leads to .* with status {status}") as caught:
            put(first)
    assert type(caught.value) is AdminApiError
    assert broker.seen == []


@for_each(
    ("status", "body", "error", "text"),
    [
        (401, '{"reason":"Unauthenticated"}', AuthenticationError, "Unauthenticated"),
        (403, '{"reason":"no admin"}', AccessDeniedError, "no admin.*may not do this"),
        (404, '{"reason":"Topic not found"}', NotFoundError, "Topic not found"),
        (404, "<html>", AdminApiError, "status 404"),
        (409, '{"reason":"busy"}', AdminApiError, "status 409: busy"),
        (412, '{"reason":"Topic name is not valid"}', InvalidNameError, "not valid"),
        (500, '{"reason":"fenced"}', AdminApiError, "status 500: fenced"),
    ],
)
def test_refusals_have_their_names_and_are_final(
    broker: AdminServer, status: int, body: str, error: type[Exception], text: str
) -> None:
    broker.asked.clear()
    broker.faults = [lambda handler: send(handler, status, body)]
    with pytest.raises(error, match=text) as caught:
        put(broker, is_repeatable=True).require_ok()
    assert type(caught.value) is error
    assert len(broker.asked) == 1


def test_somebody_else_there_has_done_nothing() -> None:
    with serving({}) as admin:

        def garbage(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"\0\0\0\5hello\n")
            handler.close_connection = True

        admin.faults = [garbage]
        with pytest.raises(AdminApiError, match="no answer of HTTP") as caught:
            put(admin)
        assert type(caught.value) is AdminApiError

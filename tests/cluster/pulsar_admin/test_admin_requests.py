"""Requests to a broker: how it is reached, what is sent again and what only once, and what is said of what is not known."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import AccessDeniedError, AuthenticationError, InvalidNameError, InvalidOptionError, NotFoundError
from ledgerfs_cluster.errors import AdminApiError, AdminApiUnreachableError, UncertainRequestError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, tls_context
from tests.support.admin_api import AdminServer, Certificates, make_certificates, send, serving
from tests.support.each import for_each
from tests.support.tries import tries_on, without_pauses

PATH = "/admin/v2/persistent/public/default/orders/offload"
BODY = {"ledgerId": 7, "entryId": 0, "partitionIndex": -1}
SAID = {"status": "RUNNING"}
ANSWERS = {PATH: (200, '{"status": "RUNNING"}')}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def broker() -> Iterator[AdminServer]:
    with serving(ANSWERS, does=lambda *_: (204, "")) as admin:
        yield admin


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


def put(admin: AdminServer, *, is_repeatable: bool = False, token: str | None = None) -> Any:
    return AdminRequests(admin.url, token).change("PUT", PATH, BODY, is_repeatable=is_repeatable)


def reported(admin: AdminServer, token: str | None = None) -> Any:
    return AdminRequests(admin.url, token).reported(PATH)


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
    with pytest.raises(UncertainRequestError, match="unknown whether the broker carried out the request") as caught:
        put(broker)
    assert len(broker.asked) == 1
    assert broker.url in str(caught.value)


@for_each("fault", LOST)
def test_what_may_be_done_twice_is_sent_again_and_that_is_reported(broker: AdminServer, fault: Any) -> None:
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


@for_each(("ask", "fault"), [(reported, busy), (put, busy), (reported, cut), (reported, reset)])
def test_what_was_refused_and_a_lost_answer_to_a_question_are_tried_again(
    broker: AdminServer, ask: Any, fault: Any
) -> None:
    broker.faults = [fault, fault]
    broker.seen.clear()
    ask(broker)
    assert len(broker.seen) == 3


@for_each(
    ("ask", "fault", "error", "text"),
    [(reported, cut, AdminApiError, "cut off: 99 bytes are missing"), (reported, busy, AdminApiError, "busy or fails: status 503"),
     (reported, reset, AdminApiUnreachableError, "cannot be reached"), (put, busy, AdminApiError, "status 503")],
)  # fmt: skip
def test_what_does_not_pass_is_an_error_in_bounded_time(
    broker: AdminServer, ask: Any, fault: Any, error: type[Exception], text: str
) -> None:
    broker.faults = [fault] * 100
    broker.seen.clear()
    with pytest.raises(error, match=text) as caught:
        ask(broker)
    assert type(caught.value) is error
    assert 4 <= len(broker.seen) <= 8


def test_a_broker_that_drips_is_given_up(broker: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After four minutes, on a clock by which it sends a byte a minute."""
    monkeypatch.undo()
    now = [0.0]
    tries_on(lambda: now[0], monkeypatch)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, "", claimed=1000)
        with suppress(OSError):
            for _ in range(999):
                now[0] += 60
                handler.wfile.write(b" ")
            hang(handler)

    broker.faults = [drip] * 20
    with pytest.raises(AdminApiUnreachableError, match="in time"):
        reported(broker)
    assert len(broker.seen) == 1


def test_an_answer_is_bounded(broker: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs_cluster.pulsar_admin.admin_requests.MOST_BYTES", 1000)
    broker.faults = [lambda handler: send(handler, 200, " " * 2000)]
    with pytest.raises(AdminApiError, match="more than 1000 bytes"):
        reported(broker)


def test_what_was_never_sent_is_not_done() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        requests = AdminRequests(f"http://127.0.0.1:{port}")
        for ask in (
            lambda: requests.reported(PATH),
            lambda: requests.change("PUT", PATH, is_repeatable=False),
            lambda: requests.change("PUT", PATH, is_repeatable=True),
        ):
            with pytest.raises(AdminApiUnreachableError, match=rf"127\.0\.0\.1:{port}: the broker cannot be reached"):
                ask()


@for_each("ask", [reported, put])
def test_somebody_else_there_has_done_nothing(ask: Any) -> None:
    def garbage(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\0\0\0\5hello\n")
        handler.close_connection = True

    with serving({}) as admin:
        admin.faults = [garbage]
        with pytest.raises(AdminApiError, match=r"does not answer with HTTP.*pulsar://host:6650") as caught:
            ask(admin)
        assert type(caught.value) is AdminApiError


@for_each(("ask", "status"), [(reported, 307), (put, 307), (put, 308)])
def test_another_broker_gets_method_body_and_token(broker: AdminServer, ask: Any, status: int) -> None:
    broker.asked.clear()
    broker.seen.clear()
    there = f"{PATH}?authoritative=true"
    broker.answers = {there: ANSWERS[PATH]}
    with serving({}) as first:
        first.faults = [lambda handler: send(handler, status, "", Location=f"{broker.url}{there}")]
        ask(first, token="mine")
    assert broker.asked == ([("PUT", there, BODY)] if ask is put else [])
    assert [path for path, _ in broker.seen] == [there]
    assert broker.seen[0][1]["Authorization"] == "Bearer mine"


@for_each("status", [301, 302, 303])
def test_what_would_make_it_a_get_is_not_followed(broker: AdminServer, status: int) -> None:
    broker.seen.clear()
    with serving({}) as first:
        first.faults = [lambda handler: send(handler, status, "", Location=f"{broker.url}{PATH}")]
        with pytest.raises(AdminApiError, match=f"redirects to .* with status {status}") as caught:
            put(first)
    assert type(caught.value) is AdminApiError
    assert broker.seen == []


def test_redirects_in_a_circle_and_to_other_schemes_are_errors(broker: AdminServer) -> None:
    broker.faults = [lambda handler: send(handler, 307, "", Location=handler.path)] * 20
    with pytest.raises(AdminApiError, match="more than 10 times"):
        reported(broker)
    broker.faults = [lambda handler: send(handler, 302, "", Location="file:///etc/passwd")]
    with pytest.raises(AdminApiError, match="does not follow"):
        reported(broker)


@for_each("ask", [reported, lambda admin: put(admin, is_repeatable=True).require_ok()])
@for_each(
    ("status", "body", "error", "text"),
    [
        (401, '{"reason":"Unauthenticated"}', AuthenticationError, "Unauthenticated"),
        (403, '{"reason":"no admin"}', AccessDeniedError, "no admin.*has no permission"),
        (404, '{"reason":"Topic not found"}', NotFoundError, "Topic not found"),
        (404, "<html>", AdminApiError, "status 404; this is not the web service"),
        (409, '{"reason":"busy"}', AdminApiError, "status 409: busy"),
        (412, '{"reason":"Topic name is not valid"}', InvalidNameError, "not valid"),
        (418, "", AdminApiError, "status 418"),
        (500, '{"reason":"fenced"}', AdminApiError, "status 500: fenced"),
    ],
)
def test_refusals_have_their_names_and_are_final(
    broker: AdminServer, ask: Any, status: int, body: str, error: type[Exception], text: str
) -> None:
    broker.seen.clear()
    broker.faults = [lambda handler: send(handler, status, body)]
    with pytest.raises(error, match=text) as caught:
        ask(broker)
    assert type(caught.value) is error
    assert broker.url in str(caught.value)
    assert len(broker.seen) == 1


def test_a_token_is_sent_and_refusals_say_what_is_wrong(broker: AdminServer) -> None:
    broker.token = "s3cret"
    assert reported(broker, "token:s3cret\n") == SAID
    for token in (None, "other"):
        with pytest.raises(AuthenticationError, match=r"Unable to authenticate.*--token-file") as caught:
            reported(broker, token)
        assert "other" not in str(caught.value)
    for token in ("", " ", "a b", "a\r\nHost: x", "é"):
        with pytest.raises(InvalidOptionError, match="token"):
            AdminRequests("http://x", token)


def test_tls_with_an_authority_of_ones_own(certificates: Certificates) -> None:
    with serving(ANSWERS, certificates.server_context()) as admin, serving(ANSWERS) as plain:
        trusted = AdminRequests(admin.url, "mine", tls_context(certificates.ca))
        assert trusted.reported(PATH) == SAID
        with pytest.raises(AdminApiUnreachableError, match=r"certificate verify failed.*--tls-ca"):
            reported(admin)
        with pytest.raises(AdminApiError):
            AdminRequests(admin.url.replace("https", "http")).reported(PATH)
        with pytest.raises(AdminApiUnreachableError, match="TLS"):
            AdminRequests(plain.url.replace("http", "https")).reported(PATH)
        # With TLS on the way there, the token is not sent on without it.
        admin.faults = [lambda handler: send(handler, 307, "", Location=f"{plain.url}{handler.path}")]
        with pytest.raises(AdminApiError, match="does not follow"):
            trusted.reported(PATH)
        assert all("Authorization" not in headers for _, headers in plain.seen)


def test_a_broker_that_asks_for_a_certificate(certificates: Certificates) -> None:
    with serving(ANSWERS, certificates.server_context(asks_for_client=True)) as admin:
        known = tls_context(certificates.ca, certificates.client, certificates.client)
        assert AdminRequests(admin.url, tls=known).reported(PATH) == SAID
        with pytest.raises(AdminApiUnreachableError):
            AdminRequests(admin.url, tls=tls_context(certificates.ca)).reported(PATH)


def test_files_for_tls_are_named_when_they_are_none(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for given in (
        (text, None, None),
        (tmp_path / "nothing", None, None),
        (None, text, None),
        (None, certificates.ca, text),
    ):
        with pytest.raises(InvalidOptionError, match=str(next(one for one in given if one is not None))):
            tls_context(*given)
    with pytest.raises(InvalidOptionError, match="certificate of this key is missing"):
        tls_context(None, None, certificates.client)
    assert tls_context() is None


@for_each(
    "address",
    ["", "broker:8080", "pulsar://broker:6650", "http://", "http://:80", "http://a:99999", "http://a,b:8080", "http://a?x=1", "http://a b",
     "ftp://broker", "http://bröker"],
)  # fmt: skip
def test_an_address_is_one_of_a_web_service(address: str) -> None:
    with pytest.raises(InvalidOptionError):
        AdminRequests(address)


def test_an_address_may_have_a_path_and_no_credentials() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        AdminRequests("http://me:hunter2@broker")
    assert "hunter2" not in str(caught.value)
    assert AdminRequests("http://proxy/pulsar/").address == "http://proxy/pulsar"

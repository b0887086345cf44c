"""A broker's admin API: what it tells of schemas, and every way in which it does not."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    AdminApiError,
    AdminApiUnreachableError,
    AuthenticationError,
    InvalidOptionError,
    InvalidSchemaError,
    NotFoundError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion, key_value_schema
from ledgerfs.schemas.admin_api import AdminApi
from ledgerfs.storage.admin_api.access import tls_context
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from tests.support.admin_api import (
    AdminServer,
    Certificates,
    answers_of,
    golden_answers,
    make_certificates,
    schema_json,
    send,
    serving,
)
from tests.support.each import for_each
from tests.support.tries import tries_on, without_pauses

ORDERS = "public/default/orders"


@pytest.fixture
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


@pytest.fixture
def broker(golden_typed: Path) -> Iterator[AdminServer]:
    with serving(golden_answers(golden_typed)) as admin:
        yield admin


@pytest.fixture
def orders() -> Iterator[AdminServer]:
    with serving(answers_of(ORDERS, [schema_json(0, '"long"', 1_700_000_000_000)])) as admin:
        yield admin


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def api(admin: AdminServer, token: str | None = None) -> AdminApi:
    return AdminApi(AdminRequests(admin.url, token))


def numbers(versions: tuple[SchemaVersion, ...]) -> list[int | str]:
    return [f"{one.version} deleted" if one.is_deletion else one.version for one in versions]


def test_every_golden_topic_is_read_as_the_broker_told_it(broker: AdminServer, golden_typed: Path) -> None:
    source = api(broker)
    files = sorted((golden_typed / "schemas").glob("public*.json"))
    assert len(files) == 76
    for file in files:
        told = json.loads(file.read_text())
        body = next(answer["body"] for request, answer in told["responses"].items() if request.endswith("/schemas"))
        wanted = json.loads(body)["getSchemaResponses"]
        found = [one for one in source.versions(told["topic"]) if not one.is_deletion]
        assert [one.version for one in found] == [one["version"] for one in wanted], file.name
        for one, other in zip(found, wanted, strict=True):
            assert (one.schema.type, one.schema.data.decode(), one.timestamp_ms) == (
                other["type"],
                other["data"],
                other["timestamp"],
            )
            assert one.schema.properties == other["properties"]
            assert one.source == broker.url
            assert source.version(told["topic"], one.version) == (one,)


def test_names_are_encoded_twice_and_partitions_have_the_schemas_of_the_whole(broker: AdminServer) -> None:
    assert len(api(broker).versions("persistent://public/typed/avro å b+1")) == 1
    assert len(api(broker).versions("persistent://public/typed/avro söme+name%2F")) == 1
    assert broker.seen[0][0] == "/admin/v2/schemas/public/typed/avro%2520%25C3%25A5%2520b%252B1/schemas"
    whole = api(broker).versions("public/typed/avro-partitioned")
    assert api(broker).versions("public/typed/persistent/avro-partitioned-partition-1") == whole != ()


def test_legacy_names_are_asked_of_the_first_api(broker: AdminServer) -> None:
    assert api(broker).versions("persistent://tenant/cluster/ns/a/b") == ()
    assert broker.seen[0][0] == "/admin/schemas/tenant/cluster/ns/a%252Fb/schemas"


def test_deletions_are_seen_by_the_numbers_that_are_not_told(broker: AdminServer) -> None:
    source = api(broker)
    assert numbers(source.versions("public/typed/avro-deleted")) == ["1 deleted", 2, 3]
    assert numbers(source.versions("public/typed/avro-deleted-last")) == ["1 deleted"]
    # After a forced deletion nothing tells that there was one.
    assert numbers(source.versions("public/typed/avro-deleted-force")) == [0, 1]
    assert source.versions("public/typed/avro-deleted-last-force") == ()
    assert source.version("public/typed/avro-deleted", 0) == ()
    assert source.versions("public/typed/never-was") == ()


def test_pairs_are_taken_in_the_form_of_the_api(broker: AdminServer) -> None:
    (one,) = api(broker).versions("public/typed/kv-inline-int32-avro")
    parts = key_value_schema(one.schema)
    assert (parts.key.type, parts.value.type, parts.is_separated) == ("INT32", "AVRO", False)
    assert json.loads(parts.value.data)["name"] == "Address"


def test_a_version_that_is_registered_meanwhile_is_no_deletion() -> None:
    before = answers_of(ORDERS, [])
    after = answers_of(ORDERS, [schema_json(0, '"long"', 1)])
    path = f"/admin/v2/schemas/{ORDERS}/"
    with serving({**before, f"{path}metadata": after[f"{path}metadata"]}) as admin:

        def change(handler: BaseHTTPRequestHandler) -> None:
            admin.answers = after
            send(handler, *after[handler.path])

        def pass_on(handler: BaseHTTPRequestHandler) -> None:
            send(handler, *admin.answers[handler.path])

        admin.faults = [pass_on, change]
        assert numbers(api(admin).versions(ORDERS)) == [0]


def test_an_api_that_does_not_tell_positions_is_no_error() -> None:
    answers = answers_of(ORDERS, [schema_json(2, '"long"', 1)])
    for status in (404, 405):
        answers[f"/admin/v2/schemas/{ORDERS}/metadata"] = (status, "<html>nothing here</html>")
        with serving(answers) as admin:
            assert numbers(api(admin).versions(ORDERS)) == [2]


def test_a_token_is_sent_and_refusals_say_what_is_wrong() -> None:
    with serving(answers_of(ORDERS, [schema_json(0, '"long"', 1)]), token="s3cret") as admin:
        assert len(api(admin, "token:s3cret\n").versions(ORDERS)) == 1
        for token in (None, "other"):
            with pytest.raises(AuthenticationError, match=r"Unable to authenticate.*--token-file") as caught:
                api(admin, token).versions(ORDERS)
            assert "other" not in str(caught.value)
        admin.token, admin.faults = None, [lambda handler: send(handler, 403, '{"reason":"Unauthorized"}')]
        with pytest.raises(AccessDeniedError, match="Unauthorized"):
            api(admin).versions(ORDERS)
    for token in ("", " ", "a b", "a\r\nHost: x", "é"):
        with pytest.raises(InvalidOptionError, match="token"):
            AdminRequests("http://x", token)


@for_each(
    ("status", "body", "error", "text"),
    [
        (404, '{"reason":"Namespace not found"}', NotFoundError, "Namespace not found"),
        (404, "<html>nginx</html>", AdminApiError, "status 404; this is not the web service"),
        (418, "", AdminApiError, "status 418"),
        (200, "<!DOCTYPE html><html>Log in</html>", AdminApiError, "no JSON .'<!DOCTYPE html.*this is not the web service"),
        (200, "", AdminApiError, "no JSON"),
        (200, "[" * 100_000, AdminApiError, "no JSON"),
        (200, "[]", AdminApiError, "no list of schemas"),
        (200, '{"getSchemaResponses": {}}', AdminApiError, "no list of schemas"),
        (200, '{"getSchemaResponses": [3]}', AdminApiError, "a schema that is no object"),
        (200, '{"getSchemaResponses": [{"version": "0"}]}', AdminApiError, "without version"),
        (200, '{"getSchemaResponses": [{"version": -1, "type": "AVRO", "timestamp": 1, "data": ""}]}', AdminApiError, "without version"),
        (200, json.dumps({"getSchemaResponses": [schema_json(0, "", 1)] * 2}), AdminApiError, "two schemas of one version"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_told_by_name(
    orders: AdminServer, status: int, body: str, error: type[Exception], text: str
) -> None:
    orders.faults = [lambda handler: send(handler, status, body)]
    with pytest.raises(error, match=text) as caught:
        api(orders).versions(ORDERS)
    assert type(caught.value) is error
    assert orders.url in str(caught.value)


def cut(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, '{"getSchemaResponses":[', claimed=1000)
    handler.close_connection = True


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()


def busy(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 503, "try later")


@for_each("fault", [cut, reset, busy])
@pytest.mark.usefixtures("_without_pauses")
def test_what_may_pass_is_tried_again(orders: AdminServer, fault: object) -> None:
    orders.faults = [fault, fault]  # type: ignore[list-item]
    orders.seen.clear()
    assert numbers(api(orders).versions(ORDERS)) == [0]
    assert len(orders.seen) == 4


@for_each(
    ("fault", "error", "text"),
    [(cut, AdminApiError, "ends 977 bytes before its end"), (busy, AdminApiError, "busy or broken: status 503"),
     (reset, AdminApiUnreachableError, "cannot be reached")],
)  # fmt: skip
@pytest.mark.usefixtures("_without_pauses")
def test_what_does_not_pass_is_an_error_in_bounded_time(
    orders: AdminServer, fault: object, error: type[Exception], text: str
) -> None:
    orders.faults = [fault] * 100  # type: ignore[list-item]
    orders.seen.clear()
    with pytest.raises(error, match=text):
        api(orders).versions(ORDERS)
    assert 4 <= len(orders.seen) <= 8


def test_a_broker_that_drips_is_given_up(orders: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After four minutes, on a clock by which it sends a byte a minute."""
    now = [0.0]
    tries_on(lambda: now[0], monkeypatch)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, "", claimed=1000)
        with suppress(OSError):
            for _ in range(999):
                now[0] += 60
                handler.wfile.write(b" ")
            handler.connection.settimeout(300)
            handler.connection.recv(1)  # until the client has gone

    orders.faults = [drip] * 20
    with pytest.raises(AdminApiUnreachableError, match="in time"):
        api(orders).versions(ORDERS)
    assert len(orders.seen) == 1


def test_an_answer_is_bounded(orders: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.storage.admin_api.exchange.MOST_BYTES", 1000)
    orders.faults = [lambda handler: send(handler, 200, " " * 2000)]
    with pytest.raises(AdminApiError, match="more than 1000 bytes"):
        api(orders).versions(ORDERS)


def test_other_brokers_that_it_leads_to_are_asked_with_the_token(orders: AdminServer) -> None:
    with serving({}) as first:
        first.faults = [
            lambda handler: send(handler, 307, "", Location=f"{orders.url}{handler.path}?authoritative=false")
        ]
        orders.answers[f"/admin/v2/schemas/{ORDERS}/schemas?authoritative=false"] = orders.answers[
            f"/admin/v2/schemas/{ORDERS}/schemas"
        ]
        assert numbers(api(first, "mine").versions(ORDERS)) == [0]
        assert orders.seen[0][1]["Authorization"] == "Bearer mine"
        first.faults = [lambda handler: send(handler, 307, "", Location=handler.path)] * 20
        with pytest.raises(AdminApiError, match="more than 10 times"):
            api(first).versions(ORDERS)
        first.faults = [lambda handler: send(handler, 302, "", Location="file:///etc/passwd")]
        with pytest.raises(AdminApiError, match="not followed"):
            api(first).versions(ORDERS)


@pytest.mark.usefixtures("_without_pauses")
def test_tls_with_an_authority_of_ones_own(certificates: Certificates) -> None:
    answers = answers_of(ORDERS, [schema_json(0, '"long"', 1)])
    with serving(answers, certificates.server_context()) as admin, serving(answers) as plain:
        trusted = AdminRequests(admin.url, "mine", tls_context(certificates.ca))
        assert numbers(AdminApi(trusted).versions(ORDERS)) == [0]
        with pytest.raises(AdminApiUnreachableError, match=r"not trusted.*--tls-ca"):
            api(admin).versions(ORDERS)
        with pytest.raises(AdminApiError):
            AdminApi(AdminRequests(admin.url.replace("https", "http"))).versions(ORDERS)
        with pytest.raises(AdminApiUnreachableError, match="TLS"):
            AdminApi(AdminRequests(plain.url.replace("http", "https"))).versions(ORDERS)
        # With TLS on the way there, the token is not sent on without it.
        admin.faults = [lambda handler: send(handler, 307, "", Location=f"{plain.url}{handler.path}")]
        with pytest.raises(AdminApiError, match="not followed"):
            AdminApi(trusted).versions(ORDERS)
        assert all("Authorization" not in headers for _, headers in plain.seen)


@pytest.mark.usefixtures("_without_pauses")
def test_a_broker_that_asks_for_a_certificate(certificates: Certificates) -> None:
    answers = answers_of(ORDERS, [schema_json(0, '"long"', 1)])
    with serving(answers, certificates.server_context(asks_for_client=True)) as admin:
        known = tls_context(certificates.ca, certificates.client, certificates.client)
        assert numbers(AdminApi(AdminRequests(admin.url, tls=known)).versions(ORDERS)) == [0]
        with pytest.raises(AdminApiUnreachableError):
            AdminApi(AdminRequests(admin.url, tls=tls_context(certificates.ca))).versions(ORDERS)


def test_a_schema_is_registered_and_deleted_under_its_name_encoded_twice() -> None:
    with serving(
        {}, does=lambda method, path, value: (200, '{"version":{"version":3}}' if value else '{"version":4}')
    ) as admin:
        made = SchemaInfo("AVRO", b'"long"', {"k": "v"})
        assert api(admin).register("persistent://public/default/a b%-partition-7", made) == 3
        assert api(admin).delete("persistent://public/default/a b%") == 4
    path = "/admin/v2/schemas/public/default/a%2520b%2525/schema"
    assert admin.asked == [
        ("POST", path, {"type": "AVRO", "schema": '"long"', "properties": {"k": "v"}}),
        ("DELETE", f"{path}?force=false", None),
    ]


@for_each(
    ("status", "body", "error", "why"),
    [
        (
            409,
            "<title>Error 409 Incompatible schema: exists schema type AVRO</title>",
            SchemaConflictError,
            "exists schema type AVRO",
        ),
        (409, '{"reason":"no"}', SchemaConflictError, "no"),
        (
            422,
            "<title>Error 422 Invalid schema definition data</title>",
            InvalidSchemaError,
            "Invalid schema definition",
        ),
        (422, "\x1b[2J<title>\x1b[2J</title>", InvalidSchemaError, "takes it for no schema"),
        (422, "", InvalidSchemaError, "status 422"),
        (404, '{"reason":"Namespace not found"}', NotFoundError, "Namespace not found"),
        (500, '{"reason":"Stacktrace"}', AdminApiError, "Stacktrace"),
        (200, '{"version":{"version":-1}}', AdminApiError, "no number"),
        (200, '{"version":true}', AdminApiError, "no number"),
        (200, "[]", AdminApiError, "no number"),
        (200, "<html>", AdminApiError, "no JSON"),
    ],
)
def test_a_schema_that_is_not_registered_is_told_why(status: int, body: str, error: type[Exception], why: str) -> None:
    with (
        serving({}, does=lambda method, path, value: (status, body)) as admin,
        pytest.raises(error, match=why) as caught,
    ):
        api(admin).register(ORDERS, SchemaInfo("STRING"))
    assert "\x1b" not in str(caught.value)


def test_what_cannot_be_said_to_a_broker_is_not_sent() -> None:
    with serving({}) as admin, pytest.raises(InvalidSchemaError):
        api(admin).register(ORDERS, SchemaInfo("NONE", unreadable="lost"))
    assert admin.asked == []

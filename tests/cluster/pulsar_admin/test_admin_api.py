"""A broker's admin API: what it tells of schemas, and every way in which it does not."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ledgerfs.errors import InvalidSchemaError, NotFoundError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from tests.support.admin_api import (
    AdminServer,
    answers_of,
    golden_answers,
    schema_json,
    send,
    serving,
)
from tests.support.each import for_each

ORDERS = "public/default/orders"


@pytest.fixture
def broker(golden_typed: Path) -> Iterator[AdminServer]:
    with serving(golden_answers(golden_typed)) as admin:
        yield admin


@pytest.fixture
def orders() -> Iterator[AdminServer]:
    with serving(answers_of(ORDERS, [schema_json(0, '"long"', 1_700_000_000_000)])) as admin:
        yield admin


def api(admin: AdminServer) -> AdminApi:
    return AdminApi(AdminRequests(admin.url))


def numbers(versions: tuple[SchemaVersion, ...]) -> list[int | str]:
    return [f"{one.version} deleted" if one.is_deletion else one.version for one in versions]


def test_every_golden_topic_is_read_as_the_broker_reported_it(broker: AdminServer, golden_typed: Path) -> None:
    source = api(broker)
    files = sorted((golden_typed / "schemas").glob("public*.json"))
    assert len(files) == 76
    for file in files:
        reported = json.loads(file.read_text())
        body = next(answer["body"] for request, answer in reported["responses"].items() if request.endswith("/schemas"))
        wanted = json.loads(body)["getSchemaResponses"]
        found = [one for one in source.versions(reported["topic"]) if not one.is_deletion]
        assert [one.version for one in found] == [one["version"] for one in wanted], file.name
        for one, other in zip(found, wanted, strict=True):
            assert (one.schema.type, one.schema.data.decode(), one.timestamp_ms) == (
                other["type"],
                other["data"],
                other["timestamp"],
            )
            assert one.schema.properties == other["properties"]
            assert one.source == broker.url
            assert source.version(reported["topic"], one.version) == (one,)


def test_names_are_encoded_twice_and_partitions_have_the_schemas_of_the_whole(broker: AdminServer) -> None:
    assert len(api(broker).versions("persistent://public/typed/avro å b+1")) == 1
    assert len(api(broker).versions("persistent://public/typed/avro söme+name%2F")) == 1
    assert broker.seen[0][0] == "/admin/v2/schemas/public/typed/avro%2520%25C3%25A5%2520b%252B1/schemas"
    whole = api(broker).versions("public/typed/avro-partitioned")
    assert api(broker).versions("public/typed/persistent/avro-partitioned-partition-1") == whole != ()


def test_legacy_names_are_asked_of_the_first_api(broker: AdminServer) -> None:
    assert api(broker).versions("persistent://tenant/cluster/ns/a/b") == ()
    assert broker.seen[0][0] == "/admin/schemas/tenant/cluster/ns/a%252Fb/schemas"


def test_deletions_are_seen_by_the_numbers_that_are_not_reported(broker: AdminServer) -> None:
    source = api(broker)
    assert numbers(source.versions("public/typed/avro-deleted")) == ["1 deleted", 2, 3]
    assert numbers(source.versions("public/typed/avro-deleted-last")) == ["1 deleted"]
    # After a forced deletion nothing tells that there was one.
    assert numbers(source.versions("public/typed/avro-deleted-force")) == [0, 1]
    assert source.versions("public/typed/avro-deleted-last-force") == ()
    assert source.version("public/typed/avro-deleted", 0) == ()
    assert source.versions("public/typed/never-was") == ()


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


@for_each(
    ("status", "body", "error", "text"),
    [
        (404, '{"reason":"Namespace not found"}', NotFoundError, "Namespace not found"),
        (200, "<!DOCTYPE html><html>Log in</html>", AdminApiError, "not JSON .'<!DOCTYPE html.*this is not the web service"),
        (200, "[]", AdminApiError, "no list of schemas"),
        (200, '{"getSchemaResponses": {}}', AdminApiError, "no list of schemas"),
        (200, '{"getSchemaResponses": [3]}', AdminApiError, "a schema that is not a JSON object"),
        (200, '{"getSchemaResponses": [{"version": "0"}]}', AdminApiError, "without a version"),
        (200, '{"getSchemaResponses": [{"version": -1, "type": "AVRO", "timestamp": 1, "data": ""}]}', AdminApiError, "without a version"),
        (200, json.dumps({"getSchemaResponses": [schema_json(0, "", 1)] * 2}), AdminApiError, "two schemas with the same version"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_reported_by_name(
    orders: AdminServer, status: int, body: str, error: type[Exception], text: str
) -> None:
    orders.faults = [lambda handler: send(handler, status, body)]
    with pytest.raises(error, match=text) as caught:
        api(orders).versions(ORDERS)
    assert type(caught.value) is error
    assert orders.url in str(caught.value)


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
        (422, "\x1b[2J<title>\x1b[2J</title>", InvalidSchemaError, "does not accept the schema"),
        (422, "", InvalidSchemaError, "status 422"),
        (404, '{"reason":"Namespace not found"}', NotFoundError, "Namespace not found"),
        (500, '{"reason":"Stacktrace"}', AdminApiError, "Stacktrace"),
        (200, '{"version":{"version":-1}}', AdminApiError, "no version number"),
        (200, '{"version":true}', AdminApiError, "no version number"),
        (200, "[]", AdminApiError, "no version number"),
        (200, "<html>", AdminApiError, "not JSON"),
    ],
)
def test_a_schema_that_is_not_registered_is_reported_why(
    status: int, body: str, error: type[Exception], why: str
) -> None:
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

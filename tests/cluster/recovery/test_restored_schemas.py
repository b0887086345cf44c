"""Schemas set again through brokers: every number as it was, after every end of a run, and never a wrong one."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledgerfs.errors import InvalidSchemaError, LedgerfsError, NotFoundError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.errors import AdminApiError, UncertainRequestError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.settings.schemas import SchemaPlan, plan_schemas, restore_all_schemas, restore_schemas
from tests.cluster.support.pulsar_settings import CutRequests, PulsarSettings, Stored, pulsar_settings
from tests.support.each import for_each

TOPIC = "persistent://shop/eu/or ders"
KEPT = "shop/eu/or ders"


def avro(*fields: str, kind: str = "AVRO") -> SchemaInfo:
    reported = [{"name": name, "type": "string"} for name in fields]
    data = json.dumps({"type": "record", "name": "Row", "fields": reported}).encode()
    return SchemaInfo(kind, data, {"made": "by a test"})


A, B = avro("a"), avro("a", "b")
STRING = SchemaInfo("STRING")
PAIR = SchemaInfo(
    "KEY_VALUE", b'{"key": "", "value": ' + A.data + b"}", {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
)
STEPS = (A, avro("a", kind="JSON"), None, B, STRING, PAIR)
"""A change of type with equal data, a deletion, and what comes after it."""


def known(*schemas: SchemaInfo | None) -> list[SchemaVersion]:
    return [
        SchemaVersion(number, SchemaInfo("NONE") if schema is None else schema, 10 + number, is_deletion=schema is None)
        for number, schema in enumerate(schemas)
    ]


def planned(pulsar: PulsarSettings, topic: str = TOPIC, steps: tuple[SchemaInfo | None, ...] = STEPS) -> SchemaPlan:
    return plan_schemas(topic, known(*steps), AdminApi(pulsar.requests).versions(topic))


def run(pulsar: PulsarSettings, *plans: SchemaPlan, requests: AdminRequests | None = None) -> dict[str, LedgerfsError]:
    return restore_all_schemas(requests or pulsar.requests, plans)


def kinds(pulsar: PulsarSettings, topic: str = KEPT) -> list[str | None]:
    return [one.kind for one in pulsar.schemas.get(topic, [])]


@pytest.fixture
def pulsar() -> Iterator[PulsarSettings]:
    with pulsar_settings() as made:
        made.add_namespace("shop/eu", schema_compatibility_strategy="ALWAYS_COMPATIBLE")
        yield made


WANTED = ["AVRO", "JSON", None, "AVRO", "STRING", "KEY_VALUE"]


def test_every_number_is_as_it_was_and_is_set_once(pulsar: PulsarSettings) -> None:
    behind = planned(pulsar, "persistent://shop/eu/behind", (None, None, A))
    plans = [planned(pulsar), planned(pulsar, "persistent://shop/eu/t"), behind]
    assert run(pulsar, *plans) == {}
    assert kinds(pulsar) == WANTED
    assert kinds(pulsar, "shop/eu/behind") == [None, None, "AVRO"]
    reported = AdminApi(pulsar.requests).versions(TOPIC)
    assert [(one.version, one.is_deletion) for one in reported] == [(2, True), (3, False), (4, False), (5, False)]
    assert reported[1].schema == B
    # What producers registered since stays.
    pulsar.schemas[KEPT].append(Stored("AVRO", avro("c").data.decode()))
    before, plan = len(pulsar.changes()), planned(pulsar)
    assert run(pulsar, plan) == {}
    assert len(pulsar.changes()) == before


@pytest.mark.long
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_run_that_ends_at_any_change_is_gone_on_with(pulsar: PulsarSettings, is_sent: bool) -> None:
    for at in range(20):
        pulsar.schemas.clear()
        cut = CutRequests(pulsar.admin.url, at, is_sent=is_sent)
        try:
            run(pulsar, planned(pulsar), requests=cut)
        except KeyboardInterrupt:
            assert run(pulsar, planned(pulsar)) == {}
        assert kinds(pulsar) == WANTED
        if not cut.was_cut:
            assert at == 6
            return
    raise AssertionError("it never came to its end")


def test_a_namespace_that_lets_nothing_follow_is_left_as_it_is(pulsar: PulsarSettings) -> None:
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = "FULL"
    error = run(pulsar, planned(pulsar))[TOPIC]
    assert isinstance(error, SchemaConflictError)
    assert "Incompatible schema: exists schema type AVRO" in error.reason
    assert not any("Strategy" in path for _, path in pulsar.changes())


def test_a_topic_with_a_trouble_does_not_keep_others_from_theirs(pulsar: PulsarSettings) -> None:
    lost = plan_schemas("persistent://shop/eu/lost", [known(A, B)[1]], [])
    gone = planned(pulsar, "persistent://shop/none/x")
    pulsar.schemas["shop/eu/other"] = [Stored("AVRO", B.data.decode())]
    other = planned(pulsar, "persistent://shop/eu/other")
    failed = run(pulsar, lost, gone, other, planned(pulsar))
    assert isinstance(failed[lost.topic], SchemaConflictError)
    assert "version 0: no dump or saved schema contains it" in str(failed[lost.topic])
    assert "a different schema as version 0" in str(failed[other.topic])
    assert isinstance(failed[gone.topic], NotFoundError)
    assert len(failed) == 3
    assert kinds(pulsar, "shop/eu/lost") == []
    assert kinds(pulsar, "shop/eu/other") == ["AVRO"]


def test_what_somebody_registered_since_the_plan_is_not_followed(pulsar: PulsarSettings) -> None:
    plan = planned(pulsar)
    pulsar.schemas[KEPT] = [Stored("STRING")]
    with pytest.raises(SchemaConflictError, match="a different schema as version 0"):
        restore_schemas(AdminApi(pulsar.requests), plan)
    assert kinds(pulsar) == ["STRING"]


class Meeting(AdminApi):
    """A registry at one of whose changes something else happens first."""

    __slots__ = ("_at", "_happens", "_seen")

    def __init__(self, requests: AdminRequests, at: int, happens: Callable[[], object]) -> None:
        super().__init__(requests)
        self._at, self._happens, self._seen = at, happens, 0

    def _met(self) -> None:
        self._seen += 1
        if self._seen == self._at + 1:
            self._happens()

    def register(self, topic: str, schema: SchemaInfo) -> int:
        self._met()
        return super().register(topic, schema)

    def delete(self, topic: str) -> int:
        self._met()
        return super().delete(topic)


@for_each("at", range(6))
def test_another_run_at_any_change_does_the_rest_or_ends_this_one(pulsar: PulsarSettings, at: int) -> None:
    pulsar.schemas.clear()
    plan = planned(pulsar)
    meeting = Meeting(pulsar.requests, at, lambda: restore_schemas(AdminApi(pulsar.requests), plan))
    try:
        restore_schemas(meeting, plan)
    except SchemaConflictError:
        # What the other did is right, and one more version at most is behind it; a deletion there the next plan tells.
        assert kinds(pulsar)[:6] == WANTED
        assert len(kinds(pulsar)) == 7
        assert (planned(pulsar).conflict is not None) == (kinds(pulsar)[6] is None)
    else:
        assert kinds(pulsar) == WANTED


@for_each(
    ("there", "steps", "why"),
    [
        # What a broker takes for equal is not known for certain: here one that lacks what it calls nothing.
        ([Stored("AVRO", A.data.decode(), dict(A.properties))], (A, B, STRING), "registered version 1 as 0"),
        ([], (A,), "lacks versions that it reported"),
    ],
)
def test_a_broker_that_does_not_register_what_it_says_is_found_out(
    pulsar: PulsarSettings, there: list[Stored], steps: tuple[SchemaInfo, ...], why: str
) -> None:
    class Lying(AdminApi):
        __slots__ = ()

        def register(self, topic: str, schema: SchemaInfo) -> int:
            return 0

    pulsar.schemas[KEPT] = list(there)
    with pytest.raises(SchemaConflictError, match=why):
        restore_schemas(Lying(pulsar.requests), planned(pulsar, steps=steps))
    assert len(pulsar.schemas[KEPT]) == len(there)


@for_each("status", [500, 409, 422])
def test_a_broker_that_refuses_leaves_a_beginning(pulsar: PulsarSettings, status: int) -> None:
    pulsar.schemas.clear()
    plan, api = planned(pulsar), AdminApi(pulsar.requests)
    restore_schemas(api, planned(pulsar, steps=(A,)))

    def refuse(method: str, path: str, value: Any) -> tuple[int, str]:
        return (status, '{"reason":"not now"}') if method == "POST" else pulsar.answer(method, path, value)

    pulsar.admin.does = refuse
    kind = {500: AdminApiError, 409: SchemaConflictError, 422: InvalidSchemaError}[status]
    with pytest.raises(kind, match="not now"):
        restore_schemas(api, plan)
    pulsar.admin.does = pulsar.answer
    assert kinds(pulsar) == ["AVRO"]
    assert restore_schemas(api, plan) == 5
    assert kinds(pulsar) == WANTED


def test_a_deletion_whose_answer_is_lost_is_not_sent_twice(pulsar: PulsarSettings) -> None:
    plan, api = planned(pulsar), AdminApi(pulsar.requests)

    def lose(method: str, path: str, value: Any) -> tuple[int, str]:
        answer = pulsar.answer(method, path, value)
        if method == "DELETE":
            raise ConnectionAbortedError
        return answer

    pulsar.admin.does = lose
    with pytest.raises(UncertainRequestError):
        restore_schemas(api, plan)
    pulsar.admin.does = pulsar.answer
    assert kinds(pulsar) == ["AVRO", "JSON", None]
    assert restore_schemas(api, planned(pulsar)) == 3
    assert kinds(pulsar) == WANTED

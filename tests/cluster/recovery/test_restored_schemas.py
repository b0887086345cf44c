"""Schemas set again through brokers: every number as it was, after every end of a run, and never a wrong one."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from ledgerfs.errors import InvalidSchemaError, LedgerfsError, NotFoundError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.errors import AdminApiError, UncertainRequestError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, plan_schemas
from ledgerfs_cluster.recovery.settings.schemas import (
    PERMISSIVE,
    put_back_strategies,
    restore_all_schemas,
    restore_schemas,
)
from ledgerfs_cluster.zookeeper.changes import MakeNode
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.pulsar_settings import CutRequests, PulsarSettings, Stored, pulsar_settings
from tests.support.each import for_each

TOPIC = "persistent://shop/eu/or ders"
KEPT = "shop/eu/or ders"


def avro(*fields: str, kind: str = "AVRO") -> SchemaInfo:
    told = [{"name": name, "type": "string"} for name in fields]
    data = json.dumps({"type": "record", "name": "Row", "fields": told}).encode()
    return SchemaInfo(kind, data, {"made": "by a test"})


A, B = avro("a"), avro("a", "b")
STRING = SchemaInfo("STRING")
PAIR = SchemaInfo(
    "KEY_VALUE", b'{"key": "", "value": ' + A.data + b"}", {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
)
STEPS = (A, avro("a", kind="JSON"), None, B, STRING, PAIR)
"""A change of type with equal data, a deletion, and what comes after it."""


NOTE = "/ledgerfs/recovery/strategies/shop,eu"


class Notes:
    """The cluster's lock, whose commits of notes are kept in memory."""

    def __init__(self, **kept: str) -> None:
        self.kept = {f"/ledgerfs/recovery/strategies/{name}": value for name, value in kept.items()}

    def newest(self) -> "Notes":
        return self

    def children(self, folder: str) -> list[str]:
        return [path.removeprefix(f"{folder}/") for path in self.kept]

    def get_many(self, paths: Iterable[str]) -> Iterator[Node]:
        yield from (Node(path, self.kept[path].encode(), 0, 0, 0, 0) for path in paths)

    def node(self, path: str) -> Node | None:
        return next(iter(self.get_many([path])), None) if path in self.kept else None

    def commit(self, changes: Sequence[Any]) -> None:
        for one in changes:
            if isinstance(one, MakeNode):
                assert one.path not in self.kept
                self.kept[one.path] = one.data.decode()
            else:
                del self.kept[one.path]


def known(*schemas: SchemaInfo | None) -> list[SchemaVersion]:
    return [
        SchemaVersion(number, SchemaInfo("NONE") if schema is None else schema, 10 + number, is_deletion=schema is None)
        for number, schema in enumerate(schemas)
    ]


def planned(
    pulsar: PulsarSettings, topic: str = TOPIC, steps: tuple[SchemaInfo | None, ...] = STEPS, **told: Any
) -> SchemaPlan:
    return plan_schemas(topic, known(*steps), AdminApi(pulsar.requests).versions(topic), **told)


def run(
    pulsar: PulsarSettings, *plans: SchemaPlan, notes: Any = None, requests: AdminRequests | None = None
) -> dict[str, LedgerfsError]:
    requests = requests or pulsar.requests
    lock: Any = notes or Notes()
    put_back_strategies(requests, lock)
    return restore_all_schemas(requests, lock, plans)


def strategy(pulsar: PulsarSettings) -> str:
    told: str = pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"]
    return told


def kinds(pulsar: PulsarSettings, topic: str = KEPT) -> list[str | None]:
    return [one.kind for one in pulsar.schemas.get(topic, [])]


@pytest.fixture
def pulsar() -> Iterator[PulsarSettings]:
    with pulsar_settings() as made:
        made.add_namespace("shop/eu", schema_compatibility_strategy="FULL")
        yield made


WANTED = ["AVRO", "JSON", None, "AVRO", "STRING", "KEY_VALUE"]


def test_every_number_is_as_it_was_and_is_set_once(pulsar: PulsarSettings) -> None:
    plans = [planned(pulsar), *(planned(pulsar, f"persistent://shop/eu/t{number}") for number in range(2))]
    assert run(pulsar, *plans) == {}
    assert kinds(pulsar) == WANTED
    assert strategy(pulsar) == "FULL"
    # Many topics of a namespace change its strategy once.
    assert len([path for _, path in pulsar.changes() if "Strategy" in path]) == 2
    told = AdminApi(pulsar.requests).versions(TOPIC)
    assert [(one.version, one.is_deletion) for one in told] == [(2, True), (3, False), (4, False), (5, False)]
    assert told[1].schema == B
    # What producers registered since stays.
    pulsar.schemas[KEPT].append(Stored("AVRO", avro("c").data.decode()))
    before, plan = len(pulsar.changes()), planned(pulsar)
    assert (plan.to_do, run(pulsar, plan)) == (0, {})
    assert len(pulsar.changes()) == before


@pytest.mark.long
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_run_that_ends_at_any_change_is_gone_on_with(pulsar: PulsarSettings, is_sent: bool) -> None:
    for at in range(20):
        pulsar.schemas.clear()
        pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = "FULL"
        notes, cut = Notes(), CutRequests(pulsar.admin.url, at, is_sent=is_sent)
        try:
            run(pulsar, planned(pulsar), notes=notes, requests=cut)
        except KeyboardInterrupt:
            # It is put back on the way out, or by the next run, from its note.
            assert strategy(pulsar) == "FULL" or notes.kept == {NOTE: "FULL"}
            assert run(pulsar, planned(pulsar), notes=notes) == {}
        assert kinds(pulsar) == WANTED
        assert strategy(pulsar) == "FULL"
        assert notes.kept == {}
        if not cut.was_cut:
            assert at == 8
            return
    raise AssertionError("it never came to its end")


@for_each(
    ("now", "then"),
    [
        (PERMISSIVE, "FULL"),
        # Another client has set it since the crash.
        ("BACKWARD", "BACKWARD"),
    ],
)
def test_a_run_that_was_killed_left_a_note_by_which_the_next_one_puts_back(
    pulsar: PulsarSettings, now: str, then: str
) -> None:
    pulsar.schemas.clear()
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = now
    notes = Notes(**{"shop,eu": "FULL", "shop,gone": "FULL"})
    put_back_strategies(pulsar.requests, notes)  # type: ignore[arg-type]
    assert (strategy(pulsar), notes.kept) == (then, {})
    assert run(pulsar, planned(pulsar), notes=notes) == {}
    assert (strategy(pulsar), notes.kept) == (then, {})


def test_a_strategy_that_another_client_set_meanwhile_stays(pulsar: PulsarSettings) -> None:
    notes = Notes()

    def answer(method: str, path: str, value: Any) -> Any:
        if method == "POST":
            assert (strategy(pulsar), notes.kept) in ((PERMISSIVE, {NOTE: "FULL"}), ("BACKWARD", {NOTE: "FULL"}))
            pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = "BACKWARD"
        return pulsar.answer(method, path, value)

    pulsar.admin.does = answer
    run(pulsar, planned(pulsar, steps=(A,)), notes=notes)
    assert (strategy(pulsar), notes.kept) == ("BACKWARD", {})


def test_a_permissive_namespace_is_left_as_it_is_and_a_legacy_one_keeps_its_strategy(pulsar: PulsarSettings) -> None:
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = PERMISSIVE
    run(pulsar, planned(pulsar))
    pulsar.add_namespace("shop/new/old", schema_compatibility_strategy="FULL")
    topic = "persistent://shop/new/old/x"
    error = run(pulsar, planned(pulsar, topic, (A, B)))[topic]
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
    assert "version 0: nothing is known of it" in str(failed[lost.topic])
    assert "another schema as version 0" in str(failed[other.topic])
    assert isinstance(failed[gone.topic], NotFoundError)
    assert len(failed) == 3
    assert kinds(pulsar, "shop/eu/lost") == []
    assert kinds(pulsar, "shop/eu/other") == ["AVRO"]


def test_what_somebody_registered_since_the_plan_is_not_followed(pulsar: PulsarSettings) -> None:
    plan = planned(pulsar)
    pulsar.schemas[KEPT] = [Stored("STRING")]
    with pytest.raises(SchemaConflictError, match="another schema as version 0"):
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
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = PERMISSIVE
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
        ([Stored("AVRO", A.data.decode(), dict(A.properties))], (A, B, STRING), "version 1 has the number 0"),
        ([], (A,), "does not have all versions"),
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
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = PERMISSIVE
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
    pulsar.namespaces["shop/eu"]["schema_compatibility_strategy"] = PERMISSIVE
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


def test_hidden_versions_make_numbers_right(pulsar: PulsarSettings) -> None:
    versions = known(A, B, STRING)
    hidden = plan_schemas(TOPIC, [versions[0], versions[2]], [], hides_lost=True)
    first = plan_schemas("persistent://shop/eu/behind", known(None, None, A), [])
    assert run(pulsar, hidden, first) == {}
    assert (kinds(pulsar), kinds(pulsar, "shop/eu/behind")) == (["AVRO", None, "STRING"], [None, None, "AVRO"])

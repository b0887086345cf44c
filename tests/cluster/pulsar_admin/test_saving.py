"""From a living cluster to the bucket: what is gone there stays here, and what fails is named while the rest is saved."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    AuthenticationError,
    BucketNotFoundError,
    CorruptSchemaFileError,
    NotFoundError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas, saved_schemas_at
from ledgerfs_cluster.errors import AdminApiError, AdminApiUnreachableError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.saving import save_schemas
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from tests.support.admin_api import AdminServer, answers_of, golden_answers, schema_json, send, serving
from tests.support.each import for_each
from tests.support.tries import without_pauses

DELETED = ["avro-deleted", "avro-deleted-last", "avro-deleted-force", "avro-deleted-last-force"]
ORDERS = "public/default/orders"


@pytest.fixture
def saved(tmp_path: Path) -> SavedSchemas:
    return saved_schemas_at(str(tmp_path))


@pytest.fixture
def broker() -> Iterator[AdminServer]:
    with serving({}) as admin:
        yield admin


def api(admin: AdminServer) -> AdminApi:
    return AdminApi(AdminRequests(admin.url))


def named(name: str) -> str:
    return f"persistent://public/typed/{name}"


def test_versions_that_the_cluster_deletes_later_are_kept(
    broker: AdminServer, saved: SavedSchemas, golden_typed: Path
) -> None:
    topics = [named(name) for name in DELETED]
    counts = []
    for when in ("before the deletion", "after the deletion", "responses"):
        broker.answers = golden_answers(golden_typed, when)
        done = list(save_schemas(api(broker), saved, topics))
        assert [one.error for one in done] == [None] * 4
        counts.append([(one.versions, one.new) for one in done])
    assert counts[0] == [(1, 1)] * 4
    assert [new for _, new in counts[2]] == [2, 0, 2, 0]
    for topic, wanted in zip(topics, [[0, 1, 2, 3], [0, 1], [0, 0, 1], [0]], strict=True):
        assert [one.version for one in saved.versions(topic)] == wanted
    assert [one.version for one in saved.versions(topics[0]) if one.is_deletion] == [1]


def test_a_topic_that_fails_is_named_and_the_others_are_saved(broker: AdminServer, saved: SavedSchemas) -> None:
    broker.answers = {
        **answers_of("public/default/good", [schema_json(0, '"long"', 1)]),
        "/admin/v2/schemas/public/default/broken/schemas": (500, '{"reason":"no bookies"}'),
        "/admin/v2/schemas/public/default/denied/schemas": (403, '{"reason":"Unauthorized"}'),
        "/admin/v2/schemas/gone/ns/x/schemas": (404, '{"reason":"Namespace not found"}'),
    }
    topics = [
        "gone/ns/x",
        "public/default/broken",
        "public/default/denied",
        "public/default/good",
        "public/default/without",
    ]
    done = list(save_schemas(api(broker), saved, topics))
    assert [one.topic for one in done] == topics
    assert [type(one.error) for one in done] == [
        NotFoundError,
        AdminApiError,
        AccessDeniedError,
        type(None),
        type(None),
    ]
    assert [(one.versions, one.new) for one in done[3:]] == [(1, 1), (0, 0)]
    assert list(saved.all_versions()) == ["persistent://public/default/good"]


def test_what_concerns_all_topics_ends_the_work(
    broker: AdminServer, saved: SavedSchemas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pauses(monkeypatch)
    broker.faults = [lambda handler: send(handler, 401, '{"reason":"Unable to authenticate"}')] * 9
    with pytest.raises(AuthenticationError):
        list(save_schemas(api(broker), saved, [ORDERS, "public/default/x"]))
    with pytest.raises(AdminApiUnreachableError):
        list(save_schemas(AdminApi(AdminRequests("http://127.0.0.1:1")), saved, [ORDERS]))
    broker.faults, broker.answers = [], answers_of(ORDERS, [schema_json(0, '"long"', 1)])
    with pytest.raises(BucketNotFoundError):
        saved_schemas_at(str(tmp_path / "no" / "where")).make_place()


def test_a_damaged_object_is_named_and_what_is_new_is_saved_beside_it(
    broker: AdminServer, saved: SavedSchemas, tmp_path: Path
) -> None:
    broker.answers = answers_of(ORDERS, [schema_json(0, '"long"', 1)])
    list(save_schemas(api(broker), saved, [ORDERS]))
    (file,) = (tmp_path / ORDERS).iterdir()
    file.write_bytes(file.read_bytes()[:50])
    broker.answers = answers_of(ORDERS, [schema_json(0, '"long"', 1), schema_json(1, '"int"', 2)])
    (done,) = save_schemas(api(broker), saved, [ORDERS])
    assert isinstance(done.error, CorruptSchemaFileError)
    assert len(list((tmp_path / ORDERS).iterdir())) == 2
    # As the error says: remove it, and save again.
    file.unlink()
    (done,) = save_schemas(api(broker), saved, [ORDERS])
    assert (done.error, done.new) == (None, 1)
    assert [one.version for one in saved.versions(ORDERS)] == [0, 1]


def reported(*schemas: tuple[int, str, int], hidden: int = 0) -> dict[str, tuple[int, str]]:
    """What a broker answers whose topic has these: number, type, time."""
    return answers_of(ORDERS, [schema_json(number, f'"{kind}"', time) for number, kind, time in schemas], hidden)


def place(folder: Path, number: int) -> SavedSchemas:
    """Return a place for the schemas of one case."""
    (folder / str(number)).mkdir()
    return saved_schemas_at(str(folder / str(number)))


@pytest.fixture
def two_clusters() -> Iterator[tuple[AdminApi, AdminApi, AdminServer]]:
    """One with two versions of a schema, and another one, whose server is the last."""
    with serving(reported((0, "long", 1_000), (1, "int", 2_000))) as mine, serving({}) as foreign:
        yield api(mine), api(foreign), foreign


@for_each(
    ("number", "second"),
    enumerate(
        [
            reported((0, "string", 1_000)),
            reported((0, "string", 500)),
            reported((0, "string", 1_500)),
            reported((0, "string", 1_500), (1, "bytes", 3_000)),
            reported((0, "long", 1_000), (1, "bytes", 3_000)),
            reported((2, "bytes", 1_500)),
        ]
    ),
)
def test_histories_that_are_not_of_one_cluster(
    two_clusters: tuple[AdminApi, AdminApi, AdminServer],
    tmp_path: Path,
    number: int,
    second: dict[str, tuple[int, str]],
) -> None:
    saved, (mine, foreign, server) = place(tmp_path, number), two_clusters
    server.answers = second
    list(save_schemas(mine, saved, [ORDERS]))
    for _ in range(2):
        (done,) = save_schemas(foreign, saved, [ORDERS])
        assert isinstance(done.error, SchemaConflictError)
        assert "two clusters" in str(done.error)


@for_each(
    ("number", "later"),
    enumerate(
        [
            reported((0, "long", 1_000), (1, "int", 2_000), (2, "bytes", 3_000)),
            reported((0, "string", 3_000)),
            reported((5, "string", 3_000)),
            reported((3, "string", 3_000), hidden=3),
            reported(hidden=3),
            reported(),
        ]
    ),
)
def test_what_may_happen_in_one_cluster_is_no_conflict(
    broker: AdminServer, tmp_path: Path, number: int, later: dict[str, tuple[int, str]]
) -> None:
    saved, source = place(tmp_path, number), api(broker)
    for answers in (reported((0, "long", 1_000), (1, "int", 2_000)), later, later):
        broker.answers = answers
        assert [done.error for done in save_schemas(source, saved, [ORDERS])] == [None]


def test_a_version_that_somebody_else_saves_meanwhile_is_no_conflict(broker: AdminServer, saved: SavedSchemas) -> None:
    broker.answers = reported((0, "long", 1_000))

    class Slow:
        """A source after whose answer another version is registered, and saved by somebody else."""

        source = broker.url

        def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
            found = api(broker).versions(topic)
            broker.answers = reported((0, "long", 1_000), (1, "int", 2_000))
            saved.add(topic, api(broker).versions(topic))
            return found

        def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
            return api(broker).version(topic, number)

    assert [done.error for done in save_schemas(Slow(), saved, [ORDERS])] == [None]
    assert [one.version for one in saved.versions(ORDERS)] == [0, 1]

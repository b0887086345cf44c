"""Schemas of a real broker, saved: what it tells, deletes and numbers anew."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from interop.cluster import Cluster
from interop.stages import stage
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.schemas.saved_schemas import SavedSchemas, saved_schemas_at
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.saving import save_schemas
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi

NAMESPACE = "public/schemas"
LEGACY = "public/interop/schemas"


def avro(*fields: str) -> str:
    """Return a record with fields of text, none of which has to be there."""
    reported = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Row", "fields": reported})


@pytest.fixture(scope="module")
def source(cluster: Cluster) -> AdminApi:
    """The broker's admin API, with a namespace for this module."""
    with stage("schemas"):
        cluster.admin.make_namespace(NAMESPACE)
        cluster.admin.call("PUT", f"v2/namespaces/{NAMESPACE}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    return AdminApi(AdminRequests(cluster.admin.address))


@pytest.fixture
def saved(tmp_path: Path) -> SavedSchemas:
    return saved_schemas_at(str(tmp_path))


def twice(name: str) -> str:
    return quote(quote(name, safe=""), safe="")


def upload(cluster: Cluster, name: str, kind: str, schema: str, path: str = f"v2/schemas/{NAMESPACE}") -> None:
    body: dict[str, Any] = {"type": kind, "schema": schema, "properties": {"made": "by interop"}}
    cluster.admin.call("POST", f"{path}/{twice(name)}/schema", body)


def delete(cluster: Cluster, name: str, *, force: bool) -> None:
    cluster.admin.call("DELETE", f"v2/schemas/{NAMESPACE}/{twice(name)}/schema?force={str(force).lower()}")


@pytest.mark.parametrize("name", ["plain", "å b+1%2F", "with:colon~and*star", "dots..", "a-partition-x"])
def test_names_of_all_kinds_are_found(cluster: Cluster, source: AdminApi, saved: SavedSchemas, name: str) -> None:
    topic = f"persistent://{NAMESPACE}/{name}"
    upload(cluster, name, "AVRO", avro("a"))
    upload(cluster, name, "JSON", avro("a", "b"))
    assert [(done.error, done.new) for done in save_schemas(source, saved, [topic])] == [(None, 2)]
    found = saved.versions(topic)
    assert [(one.version, one.schema.type) for one in found] == [(0, "AVRO"), (1, "JSON")]
    assert [json.loads(one.schema.data) for one in found] == [json.loads(avro("a")), json.loads(avro("a", "b"))]
    assert found[0].schema.properties["made"] == "by interop"
    assert abs((found[0].timestamp_ms or 0) - time.time() * 1000) < 60_000
    assert source.version(topic, 1) == source.versions(f"{topic}-partition-3")[1:]


def test_a_legacy_name_is_asked_of_the_first_api(cluster: Cluster, source: AdminApi) -> None:
    cluster.admin.make_namespace(LEGACY)
    upload(cluster, "a/b c", "STRING", "", f"schemas/{LEGACY}")
    assert [one.schema.type for one in source.versions(f"persistent://{LEGACY}/a/b c")] == ["STRING"]


def test_what_is_deleted_there_stays_here(cluster: Cluster, source: AdminApi, saved: SavedSchemas) -> None:
    soft, hard = (f"persistent://{NAMESPACE}/{name}" for name in ("soft", "hard"))
    for name in ("soft", "hard"):
        upload(cluster, name, "AVRO", avro("a"))
    list(save_schemas(source, saved, [soft, hard]))
    delete(cluster, "soft", force=False)
    delete(cluster, "hard", force=True)
    list(save_schemas(source, saved, [soft, hard]))
    for name in ("soft", "hard"):
        upload(cluster, name, "AVRO", avro("b"))
    assert [done.error for done in save_schemas(source, saved, [soft, hard])] == [None, None]
    assert [(one.version, one.is_deletion) for one in saved.versions(soft)] == [(0, False), (1, True), (2, False)]
    first, second = TopicSchemas.of(saved.versions(hard)).numbered(0)
    assert (json.loads(first.schema.data), json.loads(second.schema.data)) == (
        json.loads(avro("a")),
        json.loads(avro("b")),
    )
    assert [one.version for one in source.versions(hard)] == [0]


def test_of_what_it_does_not_know_it_says_that_it_has_no_schema(source: AdminApi) -> None:
    for topic in (f"persistent://{NAMESPACE}/never-was", "persistent://nobody/nowhere/x"):
        assert source.versions(topic) == ()
        assert source.version(topic, 0) == ()

"""Settings and schemas that ledgerfs sets again at a real broker, as a lost cluster had them."""

import json

import pytest

from interop.cluster import Cluster
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.recovery.settings.namespaces import (
    OwnerPlan,
    SettingsPlan,
    broker_settings,
    make_namespaces,
    plan_settings,
    set_strategies,
)
from ledgerfs_cluster.recovery.settings.schemas import plan_schemas, progress, restore_all_schemas

NAMESPACE = "lost/eu"
FORMER = {
    "replication_clusters": ["old"],
    "retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
    "message_ttl_in_seconds": 3600,
    "deduplicationEnabled": True,
    "schema_compatibility_strategy": "FULL",
    "schema_validation_enforced": True,
    "is_allow_auto_update_schema": False,
    "bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2},
    "publishMaxMessageRate": {"old": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1}},
    "offload_policies": {"offloadersDirectory": "./offloaders", "managedLedgerOffloadThresholdInBytes": 5},
}


@pytest.fixture(scope="module")
def requests(cluster: Cluster) -> AdminRequests:
    """Requests to the broker of the new cluster."""
    return AdminRequests(cluster.admin.address)


def avro(*fields: str) -> bytes:
    reported = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Row", "fields": reported}).encode()


def known(*schemas: SchemaInfo | None) -> list[SchemaVersion]:
    """Return versions from 0 on; None for a deletion."""
    return [
        SchemaVersion(number, SchemaInfo("NONE") if one is None else one, 1000 + number, is_deletion=one is None)
        for number, one in enumerate(schemas)
    ]


def test_namespaces_are_made_and_keep_all(requests: AdminRequests) -> None:
    nodes = {
        "/admin/policies/lost": {"adminRoles": ["boss"], "allowedClusters": ["old"]},
        f"/admin/policies/{NAMESPACE}": FORMER,
    }
    settings = DumpedSettings({path: json.dumps(value).encode() for path, value in nodes.items()})
    topics = {f"{NAMESPACE}/persistent/x": f"{NAMESPACE}/persistent/x"}
    cluster, _ = broker_settings(requests)
    assert cluster == "interop"
    planned = plan_settings(requests, topics, settings, cluster)
    assert make_namespaces(requests, planned, {NAMESPACE}) == [NAMESPACE]
    there = plan_settings(requests, topics, settings, cluster)
    assert not any(one.is_new or one.remarks for one in there.namespaces)
    assert there.tenants[0].settings == {"adminRoles": ["boss"], "allowedClusters": ["interop"]}
    assert [(one.name, one.value) for one in there.by_hand if one.owner == f"namespace {NAMESPACE}"] == [
        ("message_ttl_in_seconds", 3600),
        ("offload_policies", {"managedLedgerOffloadThresholdInBytes": 5}),
        ("publishMaxMessageRate", FORMER["publishMaxMessageRate"]),
        ("retention_policies", FORMER["retention_policies"]),
        # Until schemas are set.
        ("schema_compatibility_strategy", "FULL"),
    ]
    # Once they are as they were nothing is left to be told.
    requests.change("POST", f"/admin/v2/namespaces/{NAMESPACE}/messageTTL", 3600, is_repeatable=True).require_ok()
    again = plan_settings(requests, topics, settings, cluster).by_hand
    assert len([one for one in again if one.owner == f"namespace {NAMESPACE}"]) == 4


def test_schemas_have_their_numbers_again(requests: AdminRequests) -> None:
    value = avro("v")
    pair = {"key.schema.type": "INT32", "value.schema.type": "AVRO", "kv.encoding.type": "SEPARATED"}
    steps = (
        SchemaInfo("STRING", b"null"),
        SchemaInfo("JSON", avro("a"), {"__alwaysAllowNull": "true"}),
        SchemaInfo("AVRO", avro("a"), {"made": "by interop"}),
        None,
        SchemaInfo("AVRO", avro("a"), {"made": "by interop"}),
        SchemaInfo("AVRO", json.dumps(json.loads(avro("a", "b")), indent=2).encode()),
        SchemaInfo("KEY_VALUE", b"\0\0\0\0" + len(value).to_bytes(4, "big") + value, pair),
        SchemaInfo("INT64"),
        SchemaInfo("LOCAL_DATE_TIME"),
    )
    api = AdminApi(requests)
    names = [f"persistent://{NAMESPACE}/{name}" for name in ("or ders%2F", "behind-partition-3", "begun")]
    versions = {names[0]: known(*steps), names[1]: known(None, None, *steps), names[2]: known(*steps)}
    api.register(names[2], steps[0])
    plans = [plan_schemas(name, versions[name], api.versions(name)) for name in names]
    assert [(one.trouble, one.there) for one in plans] == [(None, 0), (None, 0), (None, 1)]
    assert restore_all_schemas(requests, plans) == {}
    for plan in plans:
        reported = api.versions(plan.topic)
        assert progress(plan.steps, reported) == (len(plan.steps), None)
        numbers = [one.version for one in reported if not one.is_deletion]
        deleted = max((number for number, step in enumerate(plan.steps) if step is None), default=-1)
        assert numbers == list(range(deleted + 1, len(plan.steps)))
    made = SettingsPlan((), (OwnerPlan(NAMESPACE, True, FORMER),), ())
    set_strategies(requests, made, [NAMESPACE])
    assert requests.reported(f"/admin/v2/namespaces/{NAMESPACE}/schemaCompatibilityStrategy") == "FULL"
    # A second run finds all of it.
    again = [plan_schemas(name, versions[name], api.versions(name)) for name in names]
    assert [len(one.steps) - one.there for one in again] == [0, 0, 0]

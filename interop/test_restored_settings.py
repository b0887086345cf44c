"""Settings that ledgerfs sets again at a real broker, as a lost cluster had them."""

import json

import pytest

from interop.cluster import Cluster
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.recovery.settings.namespaces import broker_settings, make_namespaces, plan_settings

NAMESPACE, LEGACY = "lost/eu", "lost/interop/old"
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


def test_namespaces_are_made_and_keep_all(requests: AdminRequests) -> None:
    nodes = {
        "/admin/policies/lost": {"adminRoles": ["boss"], "allowedClusters": ["old"]},
        f"/admin/policies/{NAMESPACE}": FORMER,
        f"/admin/policies/{LEGACY}": FORMER,
    }
    settings = DumpedSettings({path: json.dumps(value).encode() for path, value in nodes.items()})
    topics = {f"{name}/persistent/x": f"{name}/persistent/x" for name in (NAMESPACE, LEGACY)}
    cluster, _ = broker_settings(requests)
    assert cluster == "interop"
    planned = plan_settings(requests, topics, settings, cluster)
    assert make_namespaces(requests, planned, {NAMESPACE, LEGACY}) == [NAMESPACE, LEGACY]
    there = plan_settings(requests, topics, settings, cluster)
    assert not any(one.is_new or one.remarks for one in there.namespaces)
    assert there.tenants[0].settings == {"adminRoles": ["boss"], "allowedClusters": ["interop"]}
    assert there.namespaces[0].settings["publishMaxMessageRate"]["interop"]["publishThrottlingRateInMsg"] == 5
    assert [(one.name, one.value) for one in there.by_hand if one.owner == f"namespace {NAMESPACE}"] == [
        ("message_ttl_in_seconds", 3600),
        ("offload_policies", {"managedLedgerOffloadThresholdInBytes": 5}),
        ("retention_policies", FORMER["retention_policies"]),
    ]
    # Once they are as they were nothing is left to be told.
    requests.change("POST", f"/admin/v2/namespaces/{NAMESPACE}/messageTTL", 3600, is_repeatable=True).require_ok()
    again = plan_settings(requests, topics, settings, cluster).by_hand
    assert len([one for one in again if one.owner == f"namespace {NAMESPACE}"]) == 2

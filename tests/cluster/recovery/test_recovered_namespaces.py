"""Tenants and namespaces in the new cluster: what they get of the lost one's, and what is never touched."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ledgerfs.errors import InvalidNameError
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.recovery.settings.namespaces import (
    FormerSetting,
    SettingsPlan,
    broker_settings,
    carried_policies,
    plan_settings,
    set_strategies,
)
from ledgerfs_cluster.recovery.settings.namespaces import make_namespaces as make_wanted
from ledgerfs_cluster.snapshot.answers import TopicPoliciesAnswer
from tests.cluster.support.pulsar_settings import CutRequests, PulsarSettings, pulsar_settings
from tests.support.each import for_each

FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
NEW = "new"
FORMER: dict[str, Any] = {
    "auth_policies": {
        "namespace_auth": {"app": ["produce", "consume"]},
        "destination_auth": {"persistent://shop/eu/orders": {"auditor": ["consume"]}},
        "subscription_auth_roles": {},
    },
    "replication_clusters": ["old", "backup"],
    "bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2},
    "backlog_quota_map": {
        "destination_storage": {"limitSize": 1000, "limitTime": -1, "policy": "consumer_backlog_eviction"},
        "message_age": {"limitSize": -1, "limitTime": 60, "policy": "producer_request_hold"},
    },
    "topicDispatchRate": {
        "old": {
            "dispatchThrottlingRateInMsg": 9,
            "dispatchThrottlingRateInByte": -1,
            "ratePeriodInSecond": 1,
            "relativeToPublishRate": False,
        }
    },
    "retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
    "message_ttl_in_seconds": 3600,
    "deduplicationEnabled": True,
    "max_producers_per_topic": 5,
    "schema_compatibility_strategy": "FORWARD",
    "deleted": False,
    "offload_threshold": -1,
    "properties": {"team": "a b"},
    "resource_group_name": "gold",
}


def dumped(namespaces: dict[str, Any] | None = None, **tenants: Any) -> DumpedSettings:
    reported = {"shop/eu": FORMER} if namespaces is None else namespaces
    nodes = {f"/admin/policies/{name}": value for name, value in {**tenants, **reported}.items()}
    return DumpedSettings(
        {path: value if isinstance(value, bytes) else json.dumps(value).encode() for path, value in nodes.items()}
    )


def same(*topics: str) -> dict[str, str]:
    return {name: name for name in topics}


ORDERS = same("shop/eu/persistent/orders")


@pytest.fixture
def pulsar() -> Iterator[PulsarSettings]:
    with pulsar_settings() as made:
        yield made


def planned(pulsar: PulsarSettings, settings: DumpedSettings, topics: dict[str, str] = ORDERS) -> SettingsPlan:
    return plan_settings(pulsar.requests, topics, settings, NEW)


def make_namespaces(requests: AdminRequests, plan: SettingsPlan) -> list[str]:
    return make_wanted(requests, plan, {one.name for one in plan.namespaces})


def test_what_deletes_is_held_back(pulsar: PulsarSettings) -> None:
    assert broker_settings(pulsar.requests) == (NEW, True)
    made = planned(pulsar, dumped(shop={"adminRoles": ["boss"], "allowedClusters": ["old"]}))
    assert [(one.name, one.is_new) for one in (*made.tenants, *made.namespaces)] == [("shop", True), ("shop/eu", True)]
    assert pulsar.changes() == []
    assert make_namespaces(pulsar.requests, made) == ["shop/eu"]
    assert pulsar.tenants == {"shop": {"adminRoles": ["boss"], "allowedClusters": ["new"]}}
    there = pulsar.namespaces["shop/eu"]
    assert there.items() >= held().items()
    assert there["backlog_quota_map"] == {"message_age": FORMER["backlog_quota_map"]["message_age"]}
    assert there["replication_clusters"] == ["new"]
    for name in ("auth_policies", "deduplicationEnabled", "bundles", "max_producers_per_topic", "properties"):
        assert there[name] == FORMER[name]
    # Until schemas are set.
    assert there["schema_compatibility_strategy"] == "ALWAYS_COMPATIBLE"
    set_strategies(pulsar.requests, made, ["shop/eu"])
    assert there["schema_compatibility_strategy"] == "FORWARD"


def test_what_is_held_back_is_reported_until_it_is_set(pulsar: PulsarSettings) -> None:
    settings = dumped(shop={"adminRoles": ["boss"]})
    made = planned(pulsar, settings)
    before = made.by_hand
    set_strategies(pulsar.requests, made, make_namespaces(pulsar.requests, made))
    found = planned(pulsar, settings).by_hand
    # The plan has what then is, and the reasons, which only it knows.
    assert [replace(one, reason=None) for one in before] == [replace(one, reason=None) for one in found]
    held_back = "not set yet, since it could delete restored messages"
    assert str(before[1]) == f"namespace shop/eu: message_ttl_in_seconds was 3600: set it by hand ({held_back})"
    clusters = ["backup", "old"]
    assert [(one.owner, one.name, one.value) for one in found] == [
        ("namespace shop/eu", name, clusters if name == "replication_clusters" else FORMER[name])
        for name in (
            "backlog_quota_map",
            "message_ttl_in_seconds",
            "replication_clusters",
            "resource_group_name",
            "retention_policies",
            "topicDispatchRate",
        )
    ]
    pulsar.namespaces["shop/eu"].update(
        {name: FORMER[name] for name in ("backlog_quota_map", "message_ttl_in_seconds", "retention_policies")}
    )
    left = [one.name for one in planned(pulsar, settings).by_hand]
    assert left == ["replication_clusters", "resource_group_name", "topicDispatchRate"]


def test_a_namespace_that_nothing_is_known_of_keeps_all(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, DumpedSettings())
    make_namespaces(pulsar.requests, made)
    assert pulsar.namespaces["shop/eu"]["retention_policies"] == FOREVER
    assert "its former policies are unknown" in made.namespaces[0].remarks
    assert made.by_hand == ()


def test_damaged_policies_are_those_of_nobody(pulsar: PulsarSettings) -> None:
    for damaged in (b"{", b"[]", {"auth_policies": [1]}):
        settings = dumped({"shop/eu": damaged}, shop=b"\xff")
        made = planned(pulsar, settings)
        assert any("damaged" in one for one in made.namespaces[0].remarks), damaged
        assert made.namespaces[0].settings["retention_policies"] == FOREVER
        reported = {one.owner: one.reason for one in made.by_hand if one.value is None}
        assert "/admin/policies/shop: " in str(reported["tenant shop"])
        if isinstance(damaged, bytes):
            assert "/admin/policies/shop/eu: " in str(reported["namespace shop/eu"])


def test_a_namespace_that_is_there_is_never_changed(pulsar: PulsarSettings) -> None:
    pulsar.add_namespace("shop/eu", message_ttl_in_seconds=7)
    before = json.dumps(pulsar.namespaces)
    made = planned(pulsar, dumped(shop={"adminRoles": ["boss"]}))
    assert make_namespaces(pulsar.requests, made) == []
    assert pulsar.changes() == []
    assert json.dumps(pulsar.namespaces) == before
    found = made.by_hand
    assert found[0] == FormerSetting("tenant shop", "adminRoles", ["boss"])
    for name in ("auth_policies", "deduplicationEnabled", "properties"):
        assert FormerSetting("namespace shop/eu", name, FORMER[name]) in found


def test_a_tenant_of_other_clusters_is_reported(pulsar: PulsarSettings) -> None:
    pulsar.tenants["shop"] = {"adminRoles": [], "allowedClusters": ["elsewhere"]}
    made = planned(pulsar, dumped())
    assert "no permission to use cluster new" in str(made.namespaces[0].trouble)
    assert make_namespaces(pulsar.requests, made) == []
    assert pulsar.changes() == []


def test_a_new_name_gets_the_policies_of_the_one_that_it_stands_for(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, dumped(), {"public/restored/persistent/orders": "shop/eu/persistent/orders"})
    policies = made.namespaces[0].settings
    assert policies["deduplicationEnabled"] is True
    assert policies["auth_policies"] == {"namespace_auth": {"app": ["produce", "consume"]}}
    rights = next(one for one in made.by_hand if one.name == "auth_policies")
    assert (rights.owner, rights.value) == ("namespace public/restored", FORMER["auth_policies"])
    assert "use the former names" in str(rights.reason)
    several = {
        "public/restored/persistent/a": "shop/eu/persistent/a",
        "public/restored/persistent/b": "shop/us/persistent/b",
    }
    made = planned(pulsar, dumped(), several)
    assert made.namespaces[0].settings == {"replication_clusters": ["new"], **held()}
    assert [str(one) for one in made.by_hand] == [
        "namespace public/restored: policies unknown: it replaces several namespaces (shop/eu, shop/us), whose policies are not compared"
    ]


def held() -> dict[str, Any]:
    return {"retention_policies": FOREVER, "message_ttl_in_seconds": 0, "subscription_expiration_time_minutes": 0}


def test_names_of_pulsar_1_are_refused(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, dumped({"shop/new/eu": FORMER}), same("shop/new/eu/persistent/orders"))
    assert "--as" in str(made.namespaces[0].trouble)
    assert make_namespaces(pulsar.requests, made) == []


def test_only_what_is_wanted_is_made(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, dumped(), same("shop/eu/persistent/a", "other/x/persistent/b"))
    assert make_wanted(pulsar.requests, made, ["other/x"]) == ["other/x"]
    assert set(pulsar.tenants) == {"other"}


def test_no_name_leads_anywhere_else(pulsar: PulsarSettings) -> None:
    with pytest.raises(InvalidNameError):
        planned(pulsar, dumped(), same("shop/e u?/persistent/a"))


@for_each("is_sent", [False, True])
def test_a_run_that_ends_at_any_change_is_gone_on_with(pulsar: PulsarSettings, is_sent: bool) -> None:
    def made_by(requests: AdminRequests) -> None:
        plan = planned(pulsar, settings)
        set_strategies(requests, plan, make_namespaces(requests, plan))

    settings = dumped()
    for at in range(4):
        pulsar.tenants.clear()
        pulsar.namespaces.clear()
        cut = CutRequests(pulsar.admin.url, at, is_sent=is_sent)
        try:
            made_by(cut)
        except KeyboardInterrupt:
            made_by(pulsar.requests)
        there = pulsar.namespaces["shop/eu"]
        assert there.items() >= held().items()
        # What is not set again is reported.
        left = [str(one) for one in planned(pulsar, settings).by_hand if "strategy" in one.name]
        assert (there["schema_compatibility_strategy"] == "FORWARD") == (not left), at
    assert not cut.was_cut


def test_without_a_dump_a_strategy_that_a_cut_run_left_is_reported(pulsar: PulsarSettings) -> None:
    make_namespaces(pulsar.requests, planned(pulsar, DumpedSettings()))
    assert "set the right strategy" in planned(pulsar, DumpedSettings()).namespaces[0].remarks[0]


def test_one_that_somebody_else_made_meanwhile_stays(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, dumped())
    pulsar.add_namespace("shop/eu", message_ttl_in_seconds=1)
    make_namespaces(pulsar.requests, made)
    assert pulsar.namespaces["shop/eu"]["message_ttl_in_seconds"] == 1


def test_a_broker_that_does_not_know_a_policy_is_no_failure_but_reported(pulsar: PulsarSettings) -> None:
    settings = dumped({"shop/eu": {"retention_policies": FOREVER, "a_policy_of_tomorrow": 3}})
    plan = planned(pulsar, settings)
    set_strategies(pulsar.requests, plan, make_namespaces(pulsar.requests, plan))
    assert [str(one) for one in planned(pulsar, settings).by_hand] == [
        "namespace shop/eu: a_policy_of_tomorrow was 3: set it by hand"
    ]


OFFLOAD = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "tier",
    "managedLedgerOffloadServiceEndpoint": "http://s3",
    "managedLedgerOffloadThresholdInBytes": 10,
    "s3ManagedLedgerOffloadCredentialSecret": "geheim",
}
OFFLOAD_REASON = "if you set driver and bucket, use those of the restored topics: brokers cannot read them with others"


def test_no_setting_has_credentials(pulsar: PulsarSettings) -> None:
    pulsar.add_namespace("shop/eu")
    for offload in ({**OFFLOAD, "managedLedgerOffloadBucket": 3}, "geheim"):
        settings = dumped({"shop/eu": {"offload_policies": offload}})
        assert [str(one) for one in planned(pulsar, settings).by_hand] == [
            "namespace shop/eu: offload_policies unknown: it is damaged"
        ]
    settings = dumped({"shop/eu": {"offload_policies": OFFLOAD}})
    (found,) = planned(pulsar, settings).by_hand
    assert found.as_json() == {
        "owner": "namespace shop/eu",
        "name": "offload_policies",
        "value": {
            "managedLedgerOffloadThresholdInBytes": 10,
            "managedLedgerOffloadDriver": "aws-s3",
            "managedLedgerOffloadBucket": "tier",
            "managedLedgerOffloadServiceEndpoint": "http://s3",
        },
        "why": OFFLOAD_REASON,
    }


def test_no_name_of_the_dump_breaks_out_of_its_line(pulsar: PulsarSettings) -> None:
    settings = dumped(
        {
            "shop/eu": {
                "evil\nrm -rf x": "y",
                "replication_clusters": ["a\x1b[2J", "b"],
                "resource_group_name": "\x9b;rm",
            }
        }
    )
    pulsar.add_namespace("shop/eu")
    found = planned(pulsar, settings).by_hand
    assert [str(one) for one in found] == [
        'namespace shop/eu: evil\\nrm -rf x was "y": set it by hand',
        (
            'namespace shop/eu: replication_clusters was ["a\\u001b[2J", "b"]: set it by hand '
            "(namespaces are only in the new cluster)"
        ),
        'namespace shop/eu: resource_group_name was "\\u009b;rm": set it by hand',
    ]


@for_each(
    ("name", "former", "there", "reason"),
    [
        ("topicDispatchRate", {"a": {"dispatchThrottlingRateInMsg": 1}}, None, "chosen for the lost cluster"),
        ("offload_threshold", 5, None, "override the brokers' own"),
        ("offload_policies", {"managedLedgerOffloadBucket": "tier"}, None, "override the brokers' own"),
        # Older brokers wrote it for none.
        ("message_ttl_in_seconds", -1, 0, None),
    ],
)
def test_what_a_policy_becomes(name: str, former: object, there: object, reason: str | None) -> None:
    policies, reasons = carried_policies({name: former}, NEW, key="node", is_renamed=False)
    assert policies.get(name) == there
    assert (reason is None) == (name not in reasons)
    assert reason is None or reason in reasons[name]


def test_policies_of_topics_have_their_new_names(pulsar: PulsarSettings) -> None:
    reported = {
        "shop/eu/persistent/orders": {"retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": -1}},
        "shop/eu/persistent/orders global": {"message_ttl_in_seconds": 9},
        "shop/eu/persistent/parts": {"offload_policies": {"managedLedgerOffloadThresholdInBytes": 3}},
        "shop/eu/persistent/others": {"message_ttl_in_seconds": 1},
    }
    settings = DumpedSettings(
        topic_policies={"shop/eu": TopicPoliciesAnswer("shop/eu", reported, "one ledger is lost")}
    )
    topics = {
        "public/r/persistent/orders": "shop/eu/persistent/orders",
        "public/r/persistent/parts-partition-1": "shop/eu/persistent/parts-partition-1",
    }
    assert list(planned(pulsar, settings, topics).by_hand) == [
        FormerSetting("topics of shop/eu", "policies", None, "one ledger is lost"),
        FormerSetting(
            "topic persistent://public/r/orders",
            "retention_policies",
            {"retentionTimeInMinutes": 5, "retentionSizeInMB": -1},
        ),
        FormerSetting("topic persistent://public/r/orders (global)", "message_ttl_in_seconds", 9),
        FormerSetting(
            "topic persistent://public/r/parts",
            "offload_policies",
            {"managedLedgerOffloadThresholdInBytes": 3},
            OFFLOAD_REASON,
        ),
    ]


def test_settings_that_a_broker_does_not_take_are_reported_as_such(pulsar: PulsarSettings) -> None:
    made = planned(pulsar, dumped())
    pulsar.admin.does = lambda method, path, value: (412, '{"reason":"Invalid persistence"}')
    with pytest.raises(AdminApiError, match="does not accept these settings: Invalid persistence"):
        make_namespaces(pulsar.requests, made)

"""The rule of a topic: the cluster's own policies, and what the first pattern that matches sets over them."""

from pathlib import Path

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, Via, parse_policy_file
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule, TopicRules, bucket_of, wishes_for
from ledgerfs_cluster.snapshot.answers import TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.policies import NO_LIMIT, OffloadTarget, OffloadThresholds, Retention
from tests.cluster.support.made_surveys import HOUR, MadeCluster, current
from tests.support.each import for_each

TOPIC = "public/orders/persistent/new"
BUCKETS = """
[buckets.tier]
url = "s3://tier"
endpoint = "http://a:9000"
[buckets.same]
url = "s3://elsewhere"
bucket = "tier"
endpoint = "http://b:9000"
[buckets.other]
url = "s3://other"
"""


def file(text: str) -> PolicyFile:
    return parse_policy_file((BUCKETS + text).encode(), Path("policy.toml"))


def rule(text: str, cluster: MadeCluster | None = None, name: str = TOPIC) -> TopicRule:
    return TopicRules(file(text), (cluster or MadeCluster()).survey()).of(name)


def test_without_any_policy_a_topic_has_the_brokers() -> None:
    found = rule("[broker]\nretention_minutes = 1\noffload_bytes = 7\ndeletion_lag = '1s'")
    assert found.thresholds == OffloadThresholds(7, NO_LIMIT)
    assert (found.retention, found.retention_from) == (Retention.of(1, 0), "broker")
    assert (found.deletion_lag_ms, found.is_lag_reported) == (1000, True)
    assert (found.via, found.trash_grace_ms, found.bucket) == (Via.AUTO, HOUR, None)
    assert not found.are_thresholds_the_files


def test_a_namespace_comes_before_brokers_a_topic_before_it_and_the_file_before_all() -> None:
    cluster = MadeCluster()
    cluster.topic("public/orders/persistent/__change_events", [current(9)])
    cluster.policies(
        "public/orders",
        retention_policies={"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
        offload_policies={
            "managedLedgerOffloadThresholdInBytes": 100,
            "managedLedgerOffloadThresholdInSeconds": 50,
            "managedLedgerOffloadDeletionLagInMillis": 30,
        },
    )
    own = {"offload_policies": {"managedLedgerOffloadThresholdInBytes": 200}}
    cluster.answers.append(TopicPoliciesAnswer("public/orders", {TOPIC: own}))
    found = rule("", cluster)
    assert found.thresholds == OffloadThresholds(200, 50_000)
    assert (found.retention, found.retention_from) == (Retention.of(5, 6), "namespace")
    assert (found.deletion_lag_ms, found.is_size_the_files, found.is_time_the_files) == (30, False, False)
    text = "[[topics]]\nmatch = 'public/orders/.*'\noffload_after = '1h'"
    found = rule(text, cluster)
    assert found.thresholds == OffloadThresholds(200, HOUR)
    assert (found.is_size_the_files, found.is_time_the_files, found.are_thresholds_the_files) == (False, True, False)


def test_the_first_pattern_that_matches_the_whole_name_holds() -> None:
    text = """
[[topics]]
match = 'public/orders'
via = "broker"
[[topics]]
match = 'public/orders/new'
via = "direct"
[[topics]]
match = 'public/.*'
trim = false
"""
    assert rule(text).via is Via.DIRECT
    # A partition has what its topic has, and may be meant alone.
    assert rule(text, name=f"{TOPIC}-partition-3").via is Via.DIRECT
    assert rule(text, name="public/orders/persistent/newer").trim is False
    assert rule(text, name="private/orders/persistent/new").trim is True
    alone = "[[topics]]\nmatch = '.*-partition-3'\ntrim = false"
    assert [rule(alone, name=f"{TOPIC}-partition-{one}").trim for one in (3, 4)] == [False, True]
    names = file("[[topics]]\nmatch = 'public/orders/a b'")
    assert wishes_for(names, "public/orders/persistent/a+b") is not None


@for_each(
    ("target", "name"),
    [
        (OffloadTarget("aws-s3", "tier", None, "http://a:9000"), "tier"),
        (OffloadTarget("AWS-S3", "tier", None, "http://b:9000"), "same"),
        (OffloadTarget(None, "other"), "other"),
        (OffloadTarget("aws-s3", "tier"), None),
        (OffloadTarget("aws-s3", "tier", None, "http://c:9000"), None),
        (OffloadTarget("azureblob", "other"), None),
        (OffloadTarget("aws-s3", "unknown"), None),
        (OffloadTarget("aws-s3"), None),
    ],
)
def test_a_bucket_of_the_cluster_is_one_of_the_file_or_none(target: OffloadTarget, name: str | None) -> None:
    found = bucket_of(file(""), target)
    assert (None if found is None else found.name) == name


def test_a_pattern_names_the_bucket_or_the_cluster_does_or_the_defaults() -> None:
    defaults = "[defaults]\nbucket = 'tier'\n"

    def name_of(text: str, cluster: MadeCluster | None = None) -> str | None:
        found = rule(text, cluster).bucket
        return None if found is None else found.name

    reported = MadeCluster()
    reported.policies("public/orders", offload_policies={"managedLedgerOffloadBucket": "other"})
    assert name_of(defaults) == "tier"
    assert name_of(defaults, reported) == "other"
    assert name_of(f"{defaults}[[topics]]\nmatch = '.*'\nbucket = 'same'", reported) == "same"
    # What the cluster names and the file does not know is nowhere, and not in the default's bucket.
    unknown = MadeCluster()
    unknown.policies("public/orders", offload_policies={"managedLedgerOffloadBucket": "unknown"})
    assert name_of(defaults, unknown) is None


@for_each("character", [chr(one) for one in (*range(32), 0x85, 0x2028, 0x2029)])
def test_a_pattern_of_all_topics_matches_any_name(character: str) -> None:
    name = managed_ledger_of(f"persistent://public/orders/a{character}b")
    assert wishes_for(file("[[topics]]\nmatch = 'public/.*'\ntrim = false"), name) is not None

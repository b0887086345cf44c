"""Policies and owners as ZooKeeper has them."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.snapshot.bundles import BundleOwners, Owner, hash_of, namespace_of
from ledgerfs_cluster.snapshot.policies import NO_LIMIT, NamespacePolicies, OffloadTarget, Retention, parse_policies
from tests.support.each import for_each


def parsed(**policies: object) -> NamespacePolicies:
    return parse_policies(json.dumps(policies).encode(), key="/admin/policies/t/ns")


def test_what_is_absent_is_the_brokers() -> None:
    assert parsed(deleted=False, offload_threshold=-1) == NamespacePolicies()
    assert parsed(retention_policies=None, offload_policies=None, message_ttl_in_seconds=None) == NamespacePolicies()


def test_older_numbers_of_offloading_hold_where_its_policies_do_not_tell() -> None:
    assert parsed(offload_threshold=7, offload_deletion_lag_ms=5) == NamespacePolicies(
        offload_size=7, deletion_lag_ms=5
    )
    newer = {"managedLedgerOffloadThresholdInBytes": 8, "managedLedgerOffloadDeletionLagInMillis": -1}
    found = parsed(offload_threshold=7, offload_deletion_lag_ms=5, offload_policies=newer)
    assert found == NamespacePolicies(offload_size=8, deletion_lag_ms=NO_LIMIT)
    assert parsed(offload_threshold=-1, offload_deletion_lag_ms=0) == NamespacePolicies(deletion_lag_ms=0)


def test_numbers_have_the_units_of_ours() -> None:
    found = parsed(
        retention_policies={"retentionTimeInMinutes": 3, "retentionSizeInMB": -1},
        offload_policies={
            "managedLedgerOffloadThresholdInBytes": 7,
            "managedLedgerOffloadThresholdInSeconds": 2,
            "managedLedgerOffloadDeletionLagInMillis": 5,
        },
        deleted=True,
    )
    assert found == NamespacePolicies(Retention(180_000, NO_LIMIT), 7, 2000, 5, True)
    assert Retention.of(1, 1) == Retention(60_000, 1 << 20)
    assert Retention.of(-5, -1) == Retention(-1, -1)


def test_a_lag_below_zero_keeps_copies_for_ever() -> None:
    assert parsed(offload_policies={"managedLedgerOffloadDeletionLagInMillis": -7}).deletion_lag_ms == NO_LIMIT
    assert parsed(offload_policies={"managedLedgerOffloadDeletionLagInMillis": 0}).deletion_lag_ms == 0
    assert parsed(offload_policies={"managedLedgerOffloadDeletionLagInMillis": None}).deletion_lag_ms is None


def test_where_to_offload_is_reported_by_the_drivers_own_keys_or_else_by_those_of_all() -> None:
    both = {"managedLedgerOffloadBucket": "tier", "s3ManagedLedgerOffloadBucket": "old"}
    buckets = {None: "old", "aws-s3": "old", "google-cloud-storage": "tier", "S3": "tier", "azureblob": "tier"}
    for driver, bucket in buckets.items():
        reported = both if driver is None else {**both, "managedLedgerOffloadDriver": driver}
        assert parsed(offload_policies=reported).target == OffloadTarget(driver, bucket)
    older = {
        "managedLedgerOffloadDriver": "aws-s3",
        "s3ManagedLedgerOffloadBucket": "old",
        "s3ManagedLedgerOffloadRegion": "",
        "s3ManagedLedgerOffloadServiceEndpoint": "http://minio:9000",
        "gcsManagedLedgerOffloadBucket": "other",
        "s3ManagedLedgerOffloadCredentialSecret": "secret",
    }
    found = parsed(offload_policies=older)
    assert found.target == OffloadTarget("aws-s3", "old", None, "http://minio:9000")
    assert "secret" not in repr(found)
    google = {"managedLedgerOffloadDriver": "google-cloud-storage", "gcsManagedLedgerOffloadBucket": "g"}
    assert parsed(offload_policies=google).target.bucket == "g"
    assert not parsed(offload_policies={"managedLedgerOffloadDriver": "aws-s3"}).target.is_set


def test_a_topics_target_comes_before_its_namespaces_each_part_for_itself() -> None:
    topic = NamespacePolicies(target=OffloadTarget(bucket="own"))
    namespace = NamespacePolicies(deletion_lag_ms=5, target=OffloadTarget("aws-s3", "tier", "r", "e"))
    found = topic.over(namespace)
    assert (found.target, found.deletion_lag_ms) == (OffloadTarget("aws-s3", "own", "r", "e"), 5)


@for_each(
    "data",
    [
        *(b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"retention_policies": 3}'),
        b'{"retention_policies": {"retentionSizeInMB": "3"}}',
        b'{"offload_policies": {"managedLedgerOffloadThresholdInBytes": 1e400}}',
        b'{"offload_policies": {"managedLedgerOffloadBucket": 3}}',
    ],
)
def test_what_is_no_policy_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError, match="/admin/policies/t/ns"):
        parse_policies(data, key="/admin/policies/t/ns")


@given(st.binary(max_size=64))
def test_any_bytes_are_policies_or_damage(data: bytes) -> None:
    with contextlib.suppress(CorruptMetadataError):
        parse_policies(data, key="k")


def test_a_bundle_has_its_first_hash_and_not_its_end() -> None:
    name = "public/default/persistent/x"
    place = hash_of(name)
    for low, high, owner in (
        (place, place + 1, Owner.SOME),
        (place - 1, place, Owner.NONE),
        (place + 1, 0xFFFFFFFF, Owner.NONE),
        (0, 0xFFFFFFFF, Owner.SOME),
    ):
        owners = BundleOwners()
        owners.own("/namespace/public/default")
        owners.own(f"/namespace/public/default/0x{low:08x}_0x{high:08x}")
        assert owners.of(name) is owner
        assert owners.of("public/other/persistent/x") is Owner.NONE


def test_hashes_are_those_of_the_topics_name() -> None:
    # CRC-32 of persistent://public/default/a b, whose managed ledger encodes the space.
    assert hash_of("public/default/persistent/a+b") == 0xD6452015
    assert namespace_of("pulsar/c/b:8080/persistent/healthcheck") == "pulsar/c/b:8080"

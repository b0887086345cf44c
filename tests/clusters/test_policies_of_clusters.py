"""Policies and owners as ZooKeeper has them."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.clusters.bundles import BundleOwners, Owner, hash_of, namespace_of
from ledgerfs.clusters.policies import NO_LIMIT, NamespacePolicies, Retention, parse_policies
from ledgerfs.errors import CorruptMetadataError


def parsed(**policies: object) -> NamespacePolicies:
    return parse_policies(json.dumps(policies).encode(), key="/admin/policies/t/ns")


def test_what_is_absent_is_the_brokers() -> None:
    assert parsed(deleted=False, offload_threshold=-1) == NamespacePolicies()
    assert parsed(retention_policies=None, offload_policies=None, message_ttl_in_seconds=None) == NamespacePolicies()


def test_numbers_have_the_units_of_ours() -> None:
    found = parsed(
        retention_policies={"retentionTimeInMinutes": 3, "retentionSizeInMB": -1},
        offload_policies={
            "managedLedgerOffloadThresholdInBytes": 7,
            "managedLedgerOffloadThresholdInSeconds": 2,
            "managedLedgerOffloadDeletionLagInMillis": 5,
        },
        message_ttl_in_seconds=9,
        deleted=True,
    )
    assert found == NamespacePolicies(Retention(180_000, NO_LIMIT), 7, 2000, 5, 9000, True)
    assert Retention.of(1, 1) == Retention(60_000, 1 << 20)
    assert Retention.of(-5, -1).keeps_all
    assert not Retention().keeps_all


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"retention_policies": 3}', b'{"retention_policies": {"retentionSizeInMB": "3"}}',
             b'{"offload_policies": {"managedLedgerOffloadThresholdInBytes": 1e400}}', b"\xff", b"[" * 100_000]
)  # fmt: skip
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


def test_the_extensible_load_manager_tells_no_owners() -> None:
    owners = BundleOwners()
    owners.load_managers["b:8080"] = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
    assert owners.of("t/ns/persistent/x") is Owner.NONE
    owners.load_managers["c:8080"] = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    assert owners.of("t/ns/persistent/x") is Owner.UNKNOWN

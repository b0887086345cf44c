"""Policies of single topics from the events of a real broker (4.0.7): set, set again, taken back, and of a topic that was deleted.

In ``global.json`` two topics have policies of their own and global ones, then one of them is deleted.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.errors import CorruptMetadataError, UnknownSchemaError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs_cluster.formats.stored_schema import parse_stored_schema
from ledgerfs_cluster.live_source.policy_events import LastEvents, without_ids
from ledgerfs_cluster.rules.retention import retention_of
from ledgerfs_cluster.snapshot.answers import TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.policies import (
    BrokerDefaults,
    NamespacePolicies,
    OffloadTarget,
    OffloadThresholds,
    Retention,
    answer_of,
    policies_in,
)
from tests.support.each import for_each

DATA = Path(__file__).parent.parent.parent / "data" / "topic_policies"
REAL = json.loads((DATA / "events.json").read_text())
GLOBAL = json.loads((DATA / "global.json").read_text())
X, Y = "public/default/persistent/x", "public/default/persistent/y"


def batch(entries: list[str]) -> EntryBatch:
    parts = [base64.b64decode(one) for one in entries]
    sizes = np.array([len(one) for one in parts], np.int64)
    return EntryBatch(0, memoryview(b"".join(parts)), np.cumsum(sizes) - sizes, sizes)


def last_events(schemas: dict[int, SchemaInfo]) -> LastEvents:
    last = LastEvents(REAL["topic"], schemas)
    if REAL["compacted"]:
        last.take(1, [without_ids(batch(REAL["compacted"]))])
    if REAL["entries"]:
        last.take(2, [batch(REAL["entries"])])
    return last


def test_the_last_event_of_each_topic_holds() -> None:
    answer = answer_of("public/default", last_events(schemas_of_events()).values())
    assert policies_in(answer) == {
        "public/default/persistent/a": NamespacePolicies(Retention.of(61, -1)),
        "public/default/persistent/p": NamespacePolicies(offload_size=1234, target=OffloadTarget("aws-s3", "x", "r")),
    }


def schemas_of_events() -> dict[int, SchemaInfo]:
    ((number, data),) = REAL["schemas"]
    return {number: parse_stored_schema(base64.b64decode(data), key="k", version=number).schema}


def retentions(entries: list[str]) -> dict[str, dict[str, Any]]:
    last = LastEvents(REAL["topic"], schemas_of_events())
    last.take(1, [batch(entries)])
    policies = answer_of("public/default", last.values()).policies
    return {name: reported["retention_policies"]["retentionTimeInMinutes"] for name, reported in policies.items()}


def with_older_key(entry: str) -> str:
    """Return an event with the key that brokers gave it before global ones had a prefix: that of the topic. Without a checksum."""
    data = base64.b64decode(entry)
    head = 6 + int.from_bytes(data[2:6], "big")
    start = head + 6
    size = int.from_bytes(data[start : start + 4], "big")
    metadata = data[start + 4 : start + 4 + size]
    topic = metadata[metadata.index(b"persistent://") :][:29]
    shorter = metadata.replace(b'2"__G__' + topic, b"2\x1d" + topic)
    return base64.b64encode(data[:head] + len(shorter).to_bytes(4, "big") + shorter + data[start + 4 + size :]).decode()


@for_each("is_older", [False, True])
@for_each("order", [(0, 1, 2, 3), (1, 0, 3, 2)])
def test_policies_of_a_topic_and_global_ones_do_not_hide_each_other(*, is_older: bool, order: tuple[int, ...]) -> None:
    entries = [GLOBAL["entries"][one] for one in order]
    if is_older:
        entries = [with_older_key(one) for one in entries]
        assert not any(b"__G__" in base64.b64decode(one) for one in entries)
    assert retentions(entries) == {X: -1, f"{X} global": 5, Y: 9, f"{Y} global": 7}
    # The other way round a global one would be taken for the topic's.
    assert retentions([*entries, entries[0]]) == retentions(entries)


def test_a_deletion_is_of_one_of_the_two() -> None:
    own, of_all = GLOBAL["deletions"]
    assert retentions([*GLOBAL["entries"], own]) == {f"{X} global": 5, Y: 9, f"{Y} global": 7}
    assert retentions([*GLOBAL["entries"], of_all]) == {X: -1, Y: 9, f"{Y} global": 7}
    assert retentions([*GLOBAL["entries"], own, of_all]) == {Y: 9, f"{Y} global": 7}
    older = [with_older_key(one) for one in GLOBAL["entries"]]
    assert retentions([*older, own]) == {f"{X} global": 5, Y: 9, f"{Y} global": 7}


def test_an_event_without_its_schema_is_an_error() -> None:
    with pytest.raises(UnknownSchemaError):
        last_events({}).values()


def test_a_topic_comes_before_what_is_global_and_that_before_the_namespace() -> None:
    answer = TopicPoliciesAnswer(
        "t/ns",
        {
            "t/ns/persistent/x global": {
                "offload_policies": {"managedLedgerOffloadThresholdInBytes": 5},
                "retention_policies": {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1},
            },
            "t/ns/persistent/x": {"offload_policies": {"managedLedgerOffloadThresholdInBytes": 9}},
        },
    )
    own = policies_in(answer)["t/ns/persistent/x"]
    assert (own.offload_size, own.retention) == (9, Retention.of(1, 1))
    namespace = NamespacePolicies(Retention.of(7, 7), offload_size=3)
    assert retention_of("t/ns/persistent/x", namespace, BrokerDefaults(), own) == (Retention.of(1, 1), "topic")
    assert own.over(namespace).offload(OffloadThresholds(1, 2)) == OffloadThresholds(9, 2)
    with pytest.raises(CorruptMetadataError, match="t/ns/persistent/x"):
        policies_in(TopicPoliciesAnswer("t/ns", {"t/ns/persistent/x": {"offload_threshold": "9"}}))


def test_an_event_reports_where_to_offload_and_its_credentials_are_not_kept() -> None:
    offload = {
        "managedLedgerOffloadDriver": "aws-s3",
        "managedLedgerOffloadBucket": "own",
        "managedLedgerOffloadDeletionLagInMillis": 9,
        "s3ManagedLedgerOffloadCredentialSecret": "secret",
    }
    event = {
        "eventType": "TOPIC_POLICY",
        "topicPoliciesEvent": {
            "tenant": "t",
            "namespace": "ns",
            "topic": "x",
            "policies": {"offloadPolicies": offload},
        },
    }
    answer = answer_of("t/ns", [("key", event)])
    assert "secret" not in repr(answer)
    found = policies_in(answer)["t/ns/persistent/x"]
    assert (found.target, found.deletion_lag_ms) == (OffloadTarget("aws-s3", "own"), 9)


@for_each(
    "event",
    [
        "a text",
        {"eventType": "TOPIC_POLICY", "topicPoliciesEvent": 7},
        {"eventType": "TOPIC_POLICY", "topicPoliciesEvent": {"policies": "all"}},
        {"eventType": "TOPIC_POLICY", "topicPoliciesEvent": {"topic": "x", "policies": {"offloadPolicies": 3}}},
        {"eventType": "TOPIC_POLICY", "topicPoliciesEvent": {"topic": "", "policies": {}}},
    ],
)
def test_what_another_schema_made_of_an_event_is_damage(event: Any) -> None:
    with pytest.raises(CorruptMetadataError):
        answer_of("public/default", [("key", event)])

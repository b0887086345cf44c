"""Policies of single topics from the events of a real broker (4.0.7): set, set again, taken back, and of a topic that was deleted."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.clusters.answers import TopicPoliciesAnswer
from ledgerfs.clusters.policies import BrokerDefaults, NamespacePolicies, OffloadTarget, OffloadThresholds, Retention
from ledgerfs.clusters.retention import retention_of
from ledgerfs.clusters.topic_policies import answer_of, policies_in
from ledgerfs.dialects.policy_events import LastEvents, without_ids
from ledgerfs.errors import CorruptMetadataError, UnknownSchemaError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.schemas.stored_schema import parse_stored_schema

REAL = json.loads((Path(__file__).parent.parent / "data" / "topic_policies" / "events.json").read_text())


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
    schemas = {
        number: parse_stored_schema(base64.b64decode(data), key="k", version=number).schema
        for number, data in REAL["schemas"]
    }
    answer = answer_of("public/default", last_events(schemas).values())
    assert policies_in(answer) == {
        "public/default/persistent/a": NamespacePolicies(Retention.of(61, -1)),
        "public/default/persistent/p": NamespacePolicies(offload_size=1234, target=OffloadTarget("aws-s3", "x", "r")),
    }


def test_an_event_without_its_schema_is_an_error() -> None:
    with pytest.raises(UnknownSchemaError):
        last_events({}).values()


def test_a_topic_comes_before_what_is_global_and_that_before_the_namespace() -> None:
    answer = TopicPoliciesAnswer(
        "t/ns",
        {
            "t/ns/persistent/x global": {
                "message_ttl_in_seconds": 5,
                "retention_policies": {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1},
            },
            "t/ns/persistent/x": {"message_ttl_in_seconds": 9},
        },
    )
    own = policies_in(answer)["t/ns/persistent/x"]
    assert (own.ttl_ms, own.retention) == (9000, Retention.of(1, 1))
    namespace = NamespacePolicies(Retention.of(7, 7), offload_size=3)
    assert retention_of("t/ns/persistent/x", namespace, BrokerDefaults(), own) == (Retention.of(1, 1), "topic")
    assert own.over(namespace).offload(OffloadThresholds(1, 2)) == OffloadThresholds(3, 2)
    with pytest.raises(CorruptMetadataError, match="t/ns/persistent/x"):
        policies_in(TopicPoliciesAnswer("t/ns", {"t/ns/persistent/x": {"message_ttl_in_seconds": "9"}}))


def test_an_event_tells_where_to_offload_and_its_credentials_are_not_kept() -> None:
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
    answer = answer_of("t/ns", {"key": event})
    assert "secret" not in repr(answer)
    found = policies_in(answer)["t/ns/persistent/x"]
    assert (found.target, found.deletion_lag_ms) == (OffloadTarget("aws-s3", "own"), 9)


@pytest.mark.parametrize(
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
        answer_of("public/default", {"key": event})

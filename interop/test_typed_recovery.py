"""The typed golden cluster, lost: a new one decodes all values as it did, however often the recovery dies, at each of its steps."""

import base64
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from interop.keys import KeyPair
from interop.recover_command import into
from interop.recovered_golden import Recovered, lent_recovered
from interop.stages import stage
from tests.support import typed_golden

MORE = ("--yes",)
FIRST = ("--topics", "public/typed/(avro-(deleted|evolved|part|txn|random).*|type-changed|kv-inline.*)")
"""What dying runs are asked for, so that they come to their step soon."""
STEPS = (
    "a strategy is lifted",
    "some schemas are set",
    "schemas are set, and the strategies are not",
    "the first topic is about to be made",
    "some topics are made",
    "partitions are counted",
    "the bucket was listed again",
)
"""`test_golden_recovery` has the others."""


@pytest.fixture(scope="module")
def typed(folder: Path, classes: Path, keys: KeyPair) -> Iterator[Recovered]:
    """The golden topics with schemas, restored by a run that had died at some steps before."""
    with lent_recovered("pulsar-typed", folder / "typed", classes, keys) as made:
        for step in STEPS:
            made.dies_at(step, *FIRST, *MORE)
        yield made


@pytest.fixture(scope="module")
def run_of_typed(typed: Recovered) -> dict[str, Any]:
    """What a run says that ends."""
    with stage("pulsar-typed: run"):
        found: dict[str, Any] = typed.lost.recover("run", *into(typed.cluster), *MORE)
    return found


def test_all_values_are_decoded_as_java_decoded_them_before(typed: Recovered, run_of_typed: dict[str, Any]) -> None:
    golden = typed.lost.golden
    topics = [f"persistent://{name}" for name in typed_golden.topics(golden)]
    assert len(topics) == 77
    assert {one["topic"] for one in run_of_typed["topics"]} == set(topics)
    with stage("pulsar-typed: Pulsar's reader"):
        found = typed.java.read_values(topics)
    different = {
        topic: one for topic in topics if (one := _first_that_differs(golden, topic, found[topic])) is not None
    }
    assert different == {}


def _first_that_differs(golden: Path, topic: str, found: list[dict[str, Any]]) -> object:
    """Return the first line of a topic that is not as it was; errors have reasons in words of their own."""
    name = topic.removeprefix("persistent://")
    expected = list(map(_without_reason, typed_golden.topic(golden, name).expected))
    if name == "public/typed/proto":
        # Its values need classes that nobody has here: the bytes are compared, with those that decoding is tested with.
        values = typed_golden.topic(golden, name).rows["value"].to_pylist()
        expected = [
            {key: reported for key, reported in line.items() if key not in {"schema_type", "value"}}
            | {"encoded": None if value is None else base64.b64encode(value).decode()}
            for line, value in zip(expected, values, strict=True)
        ]
    lines = zip_longest(map(_without_reason, found), expected)
    return next((pair for pair in lines if pair[0] != pair[1]), None)


def _without_reason(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "error": True} if "error" in line else line

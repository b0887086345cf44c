"""The golden cluster, lost: a new one serves its topics as it did, however often the recovery dies, at each of its steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import killed_recovery, test_typed_recovery
from interop.comparison import differences, in_the_same_words
from interop.filling import fill
from interop.live_producer import connected
from interop.recover_command import into
from interop.recovered_golden import Recovered, lent_recovered
from interop.stages import stage
from tests.support import typed_golden
from tests.support.golden_rows import expected_of, wanted

WANTED = ("--topics", "public/golden/[^/]+", "--no-schemas")
MORE = ("--yes",)
OTHER = "persistent://public/others/there-before"
FIRST = ("--topics", "public/golden/(txn|part|plain|encrypted).*", "--no-schemas")
"""What dying runs are asked for, so that they come to their step soon."""
STEPS = (
    "nothing is changed",
    "ids are advanced",
    "ids of transactions are advanced",
    "namespaces are made",
    "a snapshot is published",
    "partitions are not counted",
)
"""`test_typed_recovery` has the others."""


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest, folder: Path, classes: Path) -> Iterator[Recovered]:
    """The golden topics, whose schemas the set does not have, restored by a run that had died at some steps before.

    Once ids are advanced somebody makes another topic. In the smoke test no run dies and nobody makes a topic: that takes half the time.
    """
    is_smoke_test = request.config.getoption("markexpr") == "smoke"
    with lent_recovered("pulsar-s3", folder / "golden", classes, None) as made:
        for step in () if is_smoke_test else STEPS:
            made.dies_at(step, *FIRST, *MORE)
            if step == "namespaces are made":
                made.cluster.admin.make_namespace("public/others")
                with connected(made.cluster.service_url) as client:
                    fill(client, OTHER, 20, 10)
        yield made


@pytest.fixture(scope="module")
def run_of_golden(golden: Recovered) -> dict[str, Any]:
    """What a run says that ends."""
    with stage("pulsar-s3: run"):
        found: dict[str, Any] = golden.lost.recover("run", *into(golden.cluster), *WANTED, *MORE)
    return found


@pytest.mark.smoke
def test_all_golden_topics_are_served_as_java_read_them_before(
    golden: Recovered, run_of_golden: dict[str, Any]
) -> None:
    topics = [f"persistent://{name}" for name in typed_golden.topics(golden.lost.golden, "expected")]
    assert len(topics) == 35
    assert {one["topic"]: one["state"] for one in run_of_golden["topics"]}.keys() == set(topics)
    with stage("pulsar-s3: Pulsar's reader"):
        found = in_the_same_words(golden.java.read(topics))
    expected = {
        topic: wanted(
            expected_of(golden.lost.golden, topic, "expected-decrypted" if "encrypted" in topic else "expected")
        )
        for topic in topics
    }
    assert sum(map(len, expected.values())) == 13_040
    assert differences(found, expected) == []


def test_a_topic_of_the_new_cluster_is_read_as_before(golden: Recovered, run_of_golden: dict[str, Any]) -> None:
    assert golden.java.read([OTHER])[OTHER][-1]["value"] is not None


@pytest.mark.smoke
def test_the_check_of_golden_topics_reads_all_of_it(golden: Recovered, run_of_golden: dict[str, Any]) -> None:
    with stage("pulsar-s3: check"):
        found = golden.lost.recover("check", *into(golden.cluster))
    compared = [one["compared"] for one in found["topics"]]
    assert len(compared) == 35
    assert all(one["same"] == one["expected"] > 0 for one in compared)


def test_run_twice_changes_nothing(golden: Recovered, run_of_golden: dict[str, Any]) -> None:
    before = golden.lost.s3.objects()
    again = golden.lost.recover("run", *into(golden.cluster), *WANTED, *MORE)
    assert {one["state"] for one in again["topics"]} == {"there before"}
    assert golden.lost.s3.objects() == before


def test_a_run_has_died_at_each_step() -> None:
    assert {*STEPS, *test_typed_recovery.STEPS} == killed_recovery.STEPS.keys()


def test_partitions_are_one_topic_again(golden: Recovered, run_of_golden: dict[str, Any]) -> None:
    assert golden.cluster.admin.call("GET", "v2/persistent/public/golden/partitioned/partitions")["partitions"] == 3
    with connected(golden.cluster.service_url) as client:
        # As an operator makes subscriptions that no dump has.
        consumer = client.subscribe("persistent://public/golden/partitioned", "audit")
        producer = client.create_producer("persistent://public/golden/partitioned")
        assert 2**32 <= producer.send(b"again").ledger_id() < 2**35
        assert consumer.receive(30_000).data() == b"again"
        producer.close()
        consumer.close()

"""The golden cluster, lost, and a new one in use: ids that its topics have are refused by name, or ledgers are copied under others."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.comparison import differences, in_the_same_words
from interop.filling import fill, for_each
from interop.java_client import Lines
from interop.live_producer import connected
from interop.recover_command import into
from interop.recovered_golden import Recovered, lent_recovered
from interop.stages import stage
from tests.support import typed_golden
from tests.support.golden_rows import expected_of, wanted

OTHERS = [f"persistent://public/others/there-{number}" for number in range(40)]
_ALWAYS = ("--no-schemas", "--yes")
_SENT = 20


@pytest.fixture(scope="module")
def golden(folder: Path, classes: Path) -> Iterator[Recovered]:
    """What is left of the golden topics, and a cluster whose topics have got ids of theirs."""
    with lent_recovered("pulsar-s3", folder / "beside", classes, None) as made:
        made.cluster.admin.make_namespace("public/others")
        with stage("beside: topics of the new cluster"), connected(made.cluster.service_url) as client:
            for_each(OTHERS, lambda topic: fill(client, topic, _SENT, 10))
        yield made


@pytest.fixture(scope="module")
def others_before(golden: Recovered) -> Lines:
    """What its own topics have."""
    return in_the_same_words(golden.java.read(OTHERS))


@pytest.fixture(scope="module")
def by_state(golden: Recovered, others_before: Lines) -> dict[str, dict[str, Any]]:
    """What a run says of each topic."""
    with stage("beside: run"):
        report = golden.lost.recover("run", *into(golden.cluster), "--topics", "public/golden/[^/]+", *_ALWAYS, code=1)
    return {one["topic"]: one for one in report["topics"]}


def _expected(golden: Recovered, topics: list[str]) -> Lines:
    return {
        topic: wanted(
            expected_of(golden.lost.golden, topic, "expected-decrypted" if "encrypted" in topic else "expected")
        )
        for topic in topics
    }


def _without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ledger_id"} for row in rows]


def test_topics_whose_ids_are_free_are_served_and_the_others_refused_by_name(
    golden: Recovered, by_state: dict[str, dict[str, Any]]
) -> None:
    topics = [f"persistent://{name}" for name in typed_golden.topics(golden.lost.golden, "expected")]
    assert sorted(by_state) == sorted(topics)
    refused = [one for one in topics if by_state[one]["state"] == "not restored"]
    restored = [one for one in topics if by_state[one]["state"] == "restored"]
    assert len(refused) + len(restored) == 35
    assert len(refused) > 3
    assert len(restored) > 3
    taken = re.compile(r"of its ids are taken in the new cluster, such as \d+ \((\S+)\)|another partition cannot be")
    found = {one: taken.search(by_state[one]["why"]) for one in refused}
    assert [one for one in refused if not found[one]] == []
    assert sum(one is not None and one[1] in OTHERS for one in found.values()) > 2
    with stage("beside: Pulsar's reader"):
        read = in_the_same_words(golden.java.read(restored))
    assert differences(read, _expected(golden, restored)) == []


def test_ledgers_whose_ids_are_taken_are_served_under_new_ones(
    golden: Recovered, by_state: dict[str, dict[str, Any]], others_before: Lines
) -> None:
    refused = [one for one in by_state if by_state[one]["state"] == "not restored"]
    names = [re.escape(one.removeprefix("persistent://")) for one in refused]
    chosen = [argument for name in names for argument in ("--topics", name)]
    placed = ("--as", "public/again/{topic}", "--new-ids")
    with stage("beside: run under new ids"):
        report = golden.lost.recover("run", *into(golden.cluster), *chosen, *placed, *_ALWAYS)
    assert {one["state"] for one in report["topics"]} == {"restored"}
    made = {one["topic"]: one["target"] for one in report["topics"]}
    assert sorted(made) == sorted(refused)
    with stage("beside: Pulsar's reader"):
        found = in_the_same_words(golden.java.read([*made.values()]))
        others = in_the_same_words(golden.java.read(OTHERS))
    expected = _expected(golden, refused)
    for topic, target in made.items():
        rows, before = found[target], expected[topic]
        assert _without_ids(rows) == _without_ids(before), topic
        assert {row["ledger_id"] for row in rows} & {row["ledger_id"] for row in before} == set()
        assert 2**31 <= min(row["ledger_id"] for row in rows) <= max(row["ledger_id"] for row in rows) < 2**32
    # The cluster's own topics are what they were.
    assert differences(others, others_before) == []
    assert all(len(rows) == _SENT for rows in others.values())


def test_the_check_reads_all_of_both(golden: Recovered, by_state: dict[str, dict[str, Any]]) -> None:
    restored = [one for one in by_state if by_state[one]["state"] == "restored"]
    chosen = [argument for one in restored for argument in ("--topics", re.escape(one.removeprefix("persistent://")))]
    with stage("beside: check"):
        found = golden.lost.recover("check", *into(golden.cluster), *chosen)
    assert len(found["topics"]) == len(restored)
    assert all(one["compared"]["same"] == one["compared"]["expected"] > 0 for one in found["topics"])

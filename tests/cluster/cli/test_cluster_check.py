"""`ledgerfs cluster check` as a user runs it: every state is named, and nothing else, with its exit code."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.sick_clusters import (
    Made,
    about,
    make_crash_in_trim,
    make_half_offloads,
    make_orphans,
    prepared,
    topic_of_ledgers,
)
from tests.support.commands import output as output_of_process
from tests.support.invoked import output, run

QUICK = ("--grace", "1s", "--pass-seconds", "0")
HEALTHY = "persistent://public/default/healthy"


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveCluster, Made]]:
    with LiveCluster(tmp_path_factory.mktemp("sick")) as made:
        prepared(made.bucket())
        ids = topic_of_ledgers(made, HEALTHY)
        made.add_cursor(HEALTHY, "reader", (ids[1], 3), stale=(ids[0], 0))
        made.offload(HEALTHY, ids[0])
        made.offload(HEALTHY, ids[1])
        made.delete_from_bookkeeper(ids[1])
        named = Made(make_orphans(made).named | make_crash_in_trim(made).named | make_half_offloads(made).named)
        time.sleep(1.1)
        before = made.nodes
        yield made, named
        assert made.nodes == before
        assert made.not_reads() == []


def test_every_state_is_named_and_nothing_else(cluster: tuple[LiveCluster, Made]) -> None:
    made, named = cluster
    reported = json.loads(output("cluster", "check", made.url, "--bucket", made.bucket_url(), *QUICK, "--json", code=1))
    assert about(reported["findings"]) == named.named
    assert (reported["looks"], reported["damaged_nodes"]) == (2, [])
    losses = [one["loss"] for one in reported["findings"]]
    assert losses == sorted(losses, reverse=True)
    for loss in (True, False):
        sizes = [one["bytes"] or -1 for one in reported["findings"] if one["loss"] is loss]
        assert sizes == sorted(sizes, reverse=True)
    only_copy = [one for one in reported["findings"] if one["kind"] == "flagged-deleted"]
    assert [one["mend"].startswith("do not delete") for one in only_copy] == [True]
    text = output_of_process("cluster", "check", made.url, "--bucket", made.bucket_url(), *QUICK, code=1)
    assert "LOSS lost-ledger" in text
    assert HEALTHY not in text


def test_without_a_bucket_objects_are_not_judged_and_that_is_said(cluster: tuple[LiveCluster, Made]) -> None:
    made, named = cluster
    done = run("cluster", "check", made.url, *QUICK, "--json", code=1)
    objects = {"orphan-object", "lost-objects", "truncated-offload"}
    assert about(json.loads(done.stdout)["findings"]) == {one for one in named.named if one[0] not in objects}
    assert b"4 offloaded ledgers are in buckets without a --bucket option" in done.stderr
    other = run("cluster", "check", made.url, *QUICK, "--bucket", str(prepared(made.bucket("other"))), code=1)
    assert b"4 offloaded ledgers are in buckets without a --bucket option" in other.stderr


def test_a_part_of_a_bucket_is_no_bucket(cluster: tuple[LiveCluster, Made]) -> None:
    done = run("cluster", "check", cluster[0].url, "--bucket", "s3://tier/part", code=2)
    assert done.stdout == b""
    assert b"a folder in a bucket" in done.stderr


def test_what_is_younger_than_the_grace_is_not_named(cluster: tuple[LiveCluster, Made]) -> None:
    made, _ = cluster
    hour = ("--grace", "1h", "--pass-seconds", "0", "--bucket", made.bucket_url(), "--json")
    done = run("cluster", "check", made.url, *hour, code=1)
    kinds = {one["kind"] for one in json.loads(done.stdout)["findings"]}
    # Loss does not wait.
    assert kinds == {"lost-ledger", "lost-objects", "truncated-offload"}
    assert b"younger than the grace period of 60 min" in done.stderr


def test_a_dump_is_not_checked(tmp_path: Path) -> None:
    assert b"is not the URL of a cluster" in run("cluster", "check", str(tmp_path / "dump.json.zst"), code=2).stderr


def test_what_may_be_lost_and_is_not_judged_ends_with_3(tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as made:
        prepared(made.bucket())
        ids = topic_of_ledgers(made, HEALTHY)
        made.add_cursor(HEALTHY, "reader", (ids[1], 3), stale=(ids[0], 0))
        made.offload(HEALTHY, ids[0])
        time.sleep(1.1)
        judged = (made.url, *QUICK)
        sound = run("cluster", "check", *judged, "--bucket", made.bucket_url(), "--json")
        assert (json.loads(sound.stdout)["findings"], b"no loss;" in sound.stderr) == ([], True)
        done = run("cluster", "check", *judged, "--json", code=3)
        reported = json.loads(done.stdout)
        assert (reported["findings"], reported["complete"]) == ([], False)
        assert b"no loss found, but some parts could not be checked;" in done.stderr


def test_a_damaged_list_is_named_and_what_it_may_own_is_not(tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as made:
        topic_of_ledgers(made, HEALTHY)
        make_crash_in_trim(made)
        made.zookeeper.set("/managed-ledgers/public/crash/persistent/t", b"\xff\xff")
        time.sleep(1.1)
        done = run("cluster", "check", made.url, *QUICK, "--json", code=1)
        reported = json.loads(done.stdout)
        assert reported["findings"] == []
        assert [one["path"] for one in reported["damaged_nodes"]] == ["/managed-ledgers/public/crash/persistent/t"]
        assert b"20 ledgers without a known owner may be in use: by a node that could not be read" in done.stderr


def test_a_dead_bookie_is_loss_only_when_zookeeper_has_dropped_it(tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as made:
        ids = topic_of_ledgers(made, HEALTHY)
        gone = made.bookies[0].address
        made.bookies[0].kill()
        assert json.loads(output("cluster", "check", made.url, *QUICK, "--json"))["findings"] == []
        made.zookeeper.delete(f"/ledgers/available/{gone}")
        (found,) = json.loads(output("cluster", "check", made.url, *QUICK, "--json", code=1))["findings"]
        assert (found["kind"], found["subject"], found["loss"]) == ("under-replicated", f"bookie {gone}", True)
        assert found["ledgers"] == ids
        assert "without a copy" not in found["evidence"]
        made.zookeeper.delete(f"/ledgers/available/{made.bookies[1].address}")
        reported = json.loads(output("cluster", "check", made.url, *QUICK, "--json", code=1))["findings"]
        assert len(reported) == 2
        assert all("4 have entries without a copy on any available bookie" in one["evidence"] for one in reported)


def test_bookies_that_do_not_answer_leave_it_open_what_is_lost(tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as cluster:
        cluster.write_ledger(HEALTHY, messages(3))
        run("cluster", "check", cluster.url, *QUICK)
        for bookie in cluster.bookies:
            bookie.kill()
        done = run("cluster", "check", cluster.url, *QUICK, code=3)
        assert b"no loss found, but some parts could not be checked" in done.stderr

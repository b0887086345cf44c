"""`ledgerfs recover` as a user runs it: what is told, what is written, and the exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from tests.cluster.cli.recover_clusters import ORDERS, SERVICE, Clusters, lent_clusters
from tests.cluster.support.live_clusters import messages
from tests.support.invoked import output, run


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    with lent_clusters(tmp_path) as made:
        served = []
        for size in (4, 3):
            entries = messages(size)
            ledger_id = made.rolled(ORDERS, *entries)
            served += [(ledger_id, number, entry) for number, entry in enumerate(entries)]
        made.old.add_cursor(ORDERS, "billing", (ledger_id, 1))
        made.broker.topics[ORDERS] = served
        yield made


def run_arguments(clusters: Clusters, *more: str) -> tuple[str, ...]:
    return clusters.arguments("--service", SERVICE, "--bucket-name", "tier", *more)


def test_a_plan_needs_no_new_cluster(clusters: Clusters) -> None:
    shown = output("recover", "plan", clusters.old.bucket_url(), "--dump", clusters.write_dump())
    assert ORDERS in shown
    assert "none up to the dump" in shown
    reported = run("recover", "plan", clusters.old.bucket_url(), "--no-dump").stderr.decode()
    assert "there is no dump of the lost cluster" in reported


def test_run_check_and_run_again(clusters: Clusters) -> None:
    dump = clusters.write_dump()
    done = json.loads(output("recover", "run", *run_arguments(clusters, "--dump", dump, "--yes", "--json")))
    (topic,) = done["topics"]
    assert (topic["state"], topic["ledgers"], topic["entries"], topic["subscriptions"]) == ("restored", 2, 7, 1)
    assert topic["topic"] == ORDERS
    path = clusters.new.chroot + managed_ledger_path(managed_ledger_of(ORDERS))
    assert len(parse_managed_ledger_info(clusters.new.nodes[path], key=path).ledgers) == 3
    checked = json.loads(output("recover", "check", *clusters.check_arguments("--json")))
    assert checked["topics"][0]["compared"]["same"] == checked["topics"][0]["compared"]["expected"] == 7
    again = output("recover", "run", *run_arguments(clusters, "--dump", dump, "--yes"))
    assert "there before" in again


def test_a_broker_that_serves_less_or_other_bytes_is_reported(clusters: Clusters) -> None:
    output("recover", "run", *run_arguments(clusters, "--no-dump", "--yes"))
    entries = clusters.broker.topics[ORDERS]
    clusters.broker.topics[ORDERS] = entries[:2] + entries[3:]
    reported = json.loads(output("recover", "check", *clusters.check_arguments("--json"), code=1))
    assert reported["topics"][0]["compared"]["missing"]["messages"] == 1
    ledger_id, number, data = entries[2]
    clusters.broker.topics[ORDERS] = [*entries[:2], (ledger_id, number, data[:-1] + b"?"), *entries[3:]]
    reported = json.loads(output("recover", "check", *clusters.check_arguments("--json"), code=1))
    assert reported["topics"][0]["compared"]["differing"]["messages"] == 1


def test_what_no_run_restored_fails_a_check(clusters: Clusters) -> None:
    assert (
        "no topics that were restored from this bucket"
        in run("recover", "check", *clusters.check_arguments(), code=1).stderr.decode()
    )
    output("recover", "run", *run_arguments(clusters, "--no-dump", "--yes"))
    refused = run("recover", "check", *clusters.check_arguments("--topics", "public/others/.*"), code=1)
    assert "no topics that were restored from this bucket" in refused.stderr.decode()


def test_a_check_finds_what_came_late_is_gone_or_was_made_anew(clusters: Clusters) -> None:
    def why() -> str:
        reported = json.loads(output("recover", "check", *clusters.check_arguments("--json"), code=1))
        return str(reported["topics"][0]["why"])

    output("recover", "run", *run_arguments(clusters, "--no-dump", "--yes"))
    late = clusters.rolled(ORDERS)
    assert "1 ledgers in the bucket are not in its ledger list" in why()
    for file in clusters.old.bucket().glob(f"*-ledger-{late}*"):
        file.unlink()
    output("recover", "check", *clusters.check_arguments())
    first = clusters.broker.topics[ORDERS][0][0]
    lost = list(clusters.old.bucket().glob(f"*-ledger-{first}*"))
    for file in lost:
        file.rename(file.with_name(f"{file.name}.away"))
    assert f"the bucket lacks ledger {first} of its ledger list" in why()
    for file in lost:
        file.with_name(f"{file.name}.away").rename(file)
    clusters.new.zookeeper.delete(clusters.new.chroot + managed_ledger_path(managed_ledger_of(ORDERS)))
    assert "was deleted, or created again" in why()


def test_a_check_finds_topics_under_other_names_and_ids(clusters: Clusters) -> None:
    more = ("--as", "public/again/{topic}", "--new-ids", "--dump", clusters.write_dump())
    served = clusters.broker.topics.pop(ORDERS)
    # Its ids are taken there.
    clusters.new.write_ledger("public/default/others", messages(1), ledger_id=served[0][0])
    again = "persistent://public/again/orders"
    output("recover", "run", *run_arguments(clusters, "--yes", *more))
    path = clusters.new.chroot + managed_ledger_path(managed_ledger_of(again))
    new = [one.ledger_id for one in parse_managed_ledger_info(clusters.new.nodes[path], key=path).ledgers]
    ids = dict(zip(sorted({ledger_id for ledger_id, _, _ in served}), new, strict=False))
    clusters.broker.topics[again] = [(ids[ledger_id], number, entry) for ledger_id, number, entry in served]
    (topic,) = json.loads(output("recover", "check", *clusters.check_arguments("--json")))["topics"]
    assert (topic["topic"], topic["target"]) == (ORDERS, again)
    assert topic["compared"]["same"] == topic["compared"]["expected"] == 7


def test_wrong_usage(clusters: Clusters, tmp_path: Path) -> None:
    for more, words in (
        ((), "pass --yes"),
        (("--yes", "--topics", "("), "not a regular expression"),
        (("--yes", "--as", "public/restored"), "{topic} at the end"),
        (("--yes", "--no-dump", "--dump", "d"), "exclude each other"),
    ):
        reported = run("recover", "run", *run_arguments(clusters, *more), code=2).stderr.decode()
        assert words in reported, reported
    reported = run("recover", "plan", clusters.old.bucket_url(), "--into", clusters.new.url, code=2).stderr.decode()
    assert "pass both (of the same cluster), or neither" in reported
    assert not [path for path in clusters.new.nodes if "/managed-ledgers/" in path]


def test_the_newest_dump_of_the_bucket_is_taken(clusters: Clusters) -> None:
    for _ in range(2):
        run("cluster", "dump", clusters.old.url, "--to", clusters.old.bucket_url())
    newest = max(clusters.old.bucket().glob("_ledgerfs/dumps/*/*"))
    reported = run("recover", "plan", clusters.old.bucket_url()).stderr.decode()
    assert newest.name in reported
    refused = run(
        "recover",
        "plan",
        clusters.old.bucket_url(),
        "--into",
        clusters.old.url,
        "--admin",
        clusters.settings.admin.url,
        code=2,
    )
    assert "all dumps in the bucket are of the new cluster" in refused.stderr.decode()


def test_without_a_lock_nothing_is_done(clusters: Clusters) -> None:
    clusters.new.zookeeper.set(clusters.new.chroot + "/ledgerfs/lifecycle/lock", b'{"host": "h"}')
    reported = run("recover", "run", *run_arguments(clusters, "--no-dump", "--yes"), code=3).stderr.decode()
    assert "held since" in reported
    assert not [path for path in clusters.new.nodes if "/managed-ledgers/" in path]

"""A dump is one look: what a broker does while it is made, and what goes from a bucket since then, is neither loss nor an orphan."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs_cluster.check import tier_listing
from ledgerfs_cluster.check.check import Check, Rules, check_cluster, check_dump
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.rules.findings import FindingKind
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import dumped, living
from tests.cluster.support.sick_clusters import topic_of_ledgers, write_of

TOPIC, OTHER = "persistent://public/default/orders", "persistent://public/default/others"
SHORT = Rules(grace_ms=50)


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made
        assert made.not_reads() == []


def dump_of(cluster: LiveCluster, path: Path, meanwhile: Callable[[], object] = lambda: None) -> Path:
    """Dump a cluster in which something happens once its ledgers are read."""
    waiting = [meanwhile]

    def progress(what: str, done: int, total: int | None) -> None:
        if what == "reading ledgers" and total is not None and waiting:
            waiting.pop()()

    dumped(cluster, path / "dump.json.zst", progress)
    return path / "dump.json.zst"


def checked(dump: Path, rules: Rules, *tiers: Tier) -> Check:
    return check_dump(dump, tiers, rules, lambda *_: None)


@pytest.mark.parametrize("ahead_ms", [0, 60_000])
def test_a_clock_that_is_ahead_of_zookeepers_makes_no_loss(
    cluster: LiveCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    topic_of_ledgers(cluster, TOPIC)
    cluster.add_schema(TOPIC, SchemaInfo("STRING", b"", {}))
    now = time.time_ns
    monkeypatch.setattr("ledgerfs_cluster.snapshot.surveying._now", lambda: now() // 1_000_000 + ahead_ms)

    def meanwhile() -> None:
        cluster.roll_over(TOPIC)
        cluster.add_schema(TOPIC, SchemaInfo("BYTES", b"", {}))

    done = checked(dump_of(cluster, tmp_path, meanwhile), Rules())
    assert done.findings == []
    # What was made meanwhile is looked up in the end, so that nothing has to be left out.
    assert (done.left_out, done.unjudged) == ([], [])


def test_what_a_broker_drops_while_a_dump_is_made_is_no_orphan(cluster: LiveCluster, tmp_path: Path) -> None:
    first, *_ = topic_of_ledgers(cluster, TOPIC)
    crashed, *_ = topic_of_ledgers(cluster, OTHER)
    cluster.trim(OTHER, crashed, only_list=True)
    url = ("pulsar/compactedTopic", TOPIC)
    compacted, newer = (write_of(cluster, "compacted-ledger", url) for _ in range(2))
    bucket = write_of(cluster, "delayed-index-bucket", ("pulsar/delayedIndexTopic", TOPIC))
    names = {"#pulsar.internal.delayed.bucket_1_1": str(bucket)}

    def compact(to: int) -> None:
        stale, properties = (first, 0), {"CompactedTopicLedger": to}
        old = cluster.add_cursor(TOPIC, "__compaction", (first, 1), stale=stale, properties=properties)
        cluster.close(old)

    compact(compacted)
    cluster.close(cluster.add_cursor(TOPIC, "sub", (first, 1), stale=(first, 0)))
    cluster.add_cursor(TOPIC, "late", (first, 1), cursor_properties=names)
    time.sleep(0.2)

    def meanwhile() -> None:
        cluster.trim(TOPIC, first)
        cluster.add_cursor(TOPIC, "sub", (first, 1), stale=(first, 0))
        cluster.add_cursor(TOPIC, "late", (first, 1))
        compact(newer)

    done = checked(dump_of(cluster, tmp_path, meanwhile), SHORT)
    assert [(one.kind, one.ledger_ids) for one in done.findings] == [(FindingKind.ORPHAN_LEDGER, (crashed,))]
    (said,) = (one for one in done.left_out if "that nothing names are of lists and nodes that changed" in one)
    # The ledger, two of cursors, the compacted topic and the bucket of delayed messages.
    assert said.startswith("5 ledgers")


def test_loss_of_before_the_dump_is_named(cluster: LiveCluster, tmp_path: Path) -> None:
    lost = topic_of_ledgers(cluster, TOPIC)[1]
    cluster.zookeeper.delete(ledger_path(lost))
    schema = write_of(cluster, "schema", ("pulsar/schemaId", "public/default/orders"), state=CLOSED)
    time.sleep(0.2)
    done = checked(dump_of(cluster, tmp_path), SHORT)
    assert {(one.kind, one.ledger_ids) for one in done.findings} == {
        (FindingKind.LOST_LEDGER, (lost,)),
        (FindingKind.ORPHAN_SCHEMA_LEDGER, (schema,)),
    }


@pytest.mark.parametrize(("entries", "size"), [(-1, -24), (1, 0), (0, 5)])
def test_a_ledger_that_ends_elsewhere_by_its_list_is_named(
    cluster: LiveCluster, tmp_path: Path, entries: int, size: int
) -> None:
    _, unequal, _, last = topic_of_ledgers(cluster, TOPIC)
    cluster.close(last)
    cluster.change_ledger(
        TOPIC, unequal, lambda info: replace(info, entries=info.entries + entries, size=info.size + size)
    )
    with living(cluster) as opened:
        live = check_cluster(opened, NewestEntries(opened.reading), [], Rules(pass_s=0), lambda *_: None)
    for done in (live, checked(dump_of(cluster, tmp_path), Rules())):
        (found,) = done.findings
        assert (found.kind, found.ledger_ids, found.size) == (FindingKind.UNEQUAL_LEDGER, (unequal,), abs(size))
        assert found.kind.is_loss
        assert ("nowhere" in found.evidence) is (entries > 0)


def test_what_is_trimmed_between_two_listings_of_a_bucket_is_not_truncated(
    cluster: LiveCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, broken = (cluster.write_ledger(TOPIC, messages(5)) for _ in range(2))
    cluster.write_ledger(TOPIC, messages(5))
    cluster.offload(TOPIC, gone)
    uuid = cluster.offload(TOPIC, broken)
    dump = dump_of(cluster, tmp_path)
    (cluster.bucket() / f"{uuid}-ledger-{broken}-index").write_bytes(b"none")
    list_objects, trimmed = tier_listing._objects, list[int]()

    def then_trim(*arguments: Any) -> Any:
        found = list_objects(*arguments)
        if not trimmed:
            cluster.trim(TOPIC, gone)
            trimmed.append(gone)
        return found

    monkeypatch.setattr(tier_listing, "_objects", then_trim)
    done = checked(dump, SHORT, Tier(open_bucket(cluster.bucket_url()), frozenset({"tier"})))
    assert [(one.kind, one.ledger_ids) for one in done.findings] == [(FindingKind.TRUNCATED_OFFLOAD, (broken,))]
    assert any(
        one.startswith("1 ledgers that the dump lists as offloaded have no objects now") for one in done.unjudged
    )

"""Ledgers of a living cluster come whole, in order and once, whatever their digests, quorums, ensembles and sizes."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.partition_plan import plan_partitions
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.errors import NotFoundError, UnsupportedFormatError
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from tests.cluster.support.live_clusters import CLOSED, TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import entries_of, only_reading, opened, values_of, whole
from tests.support.children import status_in_child
from tests.support.entries import LZ4, NONE, ZLIB, ZSTD
from tests.support.scans import scan_of_run

SHAPES = {
    "whole": {"ensemble": 2, "write_quorum": 2, "ack_quorum": 2},
    "whole of three": {"ensemble": 3, "write_quorum": 3, "ack_quorum": 2},
    "striped": {"ensemble": 3, "write_quorum": 2, "ack_quorum": 2},
    "one": {"ensemble": 1, "write_quorum": 1, "ack_quorum": 1},
    "striped, one copy": {"ensemble": 3, "write_quorum": 1, "ack_quorum": 1},
}


def ids_of(rows: list[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    return [(ledger_id, entry_id) for ledger_id, entry_id, _ in rows]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_entry_comes_once(cluster: LiveCluster, shape: str) -> None:
    counts = (1, 2, 1023, 1024, 1025)
    for count in counts:
        topic = f"public/default/{count}"
        cluster.write_ledger(topic, messages(count, "a"), **SHAPES[shape])
        cluster.write_ledger(topic, messages(count, "b"), **SHAPES[shape])
        cluster.roll_over(topic)
    for count in counts:
        assert len(whole(cluster, f"public/default/{count}")) == 2 * count


def test_quorums_of_five_bookies(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=5) as cluster:
        cluster.write_ledger(TOPIC, messages(700), ensemble=5, write_quorum=3, ack_quorum=2)
        cluster.write_ledger(TOPIC, messages(7), ensemble=5, write_quorum=5, ack_quorum=3)
        assert len(whole(cluster, open_end="acknowledged")) == 707


@pytest.mark.parametrize("shape", ["whole", "striped"])
def test_each_digest(cluster: LiveCluster, shape: str) -> None:
    digests = [Digest(kind, password) for kind in DigestType for password in (b"", b"secret")]
    topics = {f"public/default/digest{number}": digest for number, digest in enumerate(digests)}
    for topic, digest in topics.items():
        cluster.write_ledger(topic, messages(300), digest=digest, **SHAPES[shape])
        cluster.roll_over(topic)
    with only_reading(cluster):
        bucket = opened(cluster)
        for topic, digest in topics.items():
            assert len(entries_of(bucket, topic)) == 300, digest
            assert entries_of(bucket, topic) == cluster.entries_of(topic), digest


@pytest.mark.parametrize("shape", ["whole", "striped", "one"])
def test_entries_of_all_sizes(cluster: LiveCluster, shape: str) -> None:
    sizes = [0, 1, 5 << 20, 0, 100_000, 0, (5 << 20) - 100, *([17] * 2000), 5 << 20, 5 << 20, 0]
    payloads = [bytes([i & 0xFF]) * size for i, size in enumerate(sizes)]
    cluster.write_ledger(TOPIC, payloads, **SHAPES[shape])
    cluster.roll_over(TOPIC)
    assert len(whole(cluster)) == len(sizes)


@pytest.mark.parametrize("shape", ["whole", "striped"])
def test_any_range_of_entries(cluster: LiveCluster, shape: str) -> None:
    payloads = messages(1500, size=200)
    ledger_id = cluster.write_ledger(TOPIC, payloads, **SHAPES[shape])
    cluster.roll_over(TOPIC)
    reader = opened(cluster).ledger(ledger_id)
    for first, last in [(0, 0), (1499, 1499), (3, 1498), (512, 513), (1022, 1026)]:
        assert [(one.id, bytes(one.data)) for one in reader.read(first, last)] == [
            (i, payloads[i]) for i in range(first, last + 1)
        ]
    for first, last in [(-1, 3), (0, 1500), (4, 3)]:
        with pytest.raises(OSError, match="the ledger has entries 0 to 1499"):
            reader.read(first, last)


@pytest.mark.parametrize("shape", ["whole", "striped"])
def test_ensembles_that_changed(tmp_path: Path, shape: str) -> None:
    with LiveCluster(tmp_path, bookies=4) as cluster:
        topics = {f"public/default/at{at}": at for at in (0, 1, 700, 1199)}
        for topic, at in topics.items():
            ledger_id = cluster.write_ledger(topic, messages(1200), **SHAPES[shape])
            cluster.change_ensemble(ledger_id, at)
            # What old bookies still have of later entries is not needed.
            for bookie in cluster.bookies:
                if bookie.address not in cluster.written[ledger_id].node.ensembles[-1].bookies:
                    for entry_id in [one for one in bookie.entries(ledger_id) if one >= at]:
                        bookie.remove_entry(ledger_id, entry_id)
            cluster.roll_over(topic)
        for topic in topics:
            whole(cluster, topic)


def test_an_ensemble_that_changes_with_every_entry(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=4) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(40))
        for at in range(1, 40):
            cluster.change_ensemble(ledger_id, at)
        cluster.roll_over(TOPIC)
        whole(cluster)


def test_topics_of_many_ledgers_and_names(cluster: LiveCluster) -> None:
    names = ["public/default/a", "public/default/a b%ü", "t/n/p-partition-0", "t/n/p-partition-1", "t/c/n/old"]
    for number, name in enumerate(names):
        cluster.write_ledgers(name, [messages(3 + i, f"{number}.{i}.") for i in range(5)])
        cluster.roll_over(name)
    bucket = opened(cluster)
    assert sorted(one.name for one in bucket.topics()) == sorted(f"persistent://{name}" for name in names)
    for name in names:
        assert entries_of(bucket, name) == cluster.entries_of(name)
    both = bucket.topic("t/n/p")
    assert both.is_partitioned
    assert both.count() == 2 * sum(range(3, 8))


def test_a_v1_namespace_of_the_name_of_the_domain_is_refused_by_its_path(cluster: LiveCluster) -> None:
    cluster.write_ledger("persistent://t/c/persistent/x", messages(3))
    with pytest.raises(UnsupportedFormatError, match="/managed-ledgers/t/c/persistent/persistent/x"):
        opened(cluster).topics()


@pytest.mark.parametrize("compression", [LZ4, ZLIB, ZSTD])
def test_compressed_lists_below_a_chroot(tmp_path: Path, compression: int) -> None:
    with LiveCluster(tmp_path, chroot="/pulsar/one", compression=compression) as cluster:
        cluster.write_ledgers(TOPIC, [messages(10, str(i)) for i in range(20)])
        cluster.roll_over(TOPIC)
        assert len(whole(cluster)) == 200
        assert compression != NONE


def test_metadata_of_bookkeeper_elsewhere(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(10))
    cluster.roll_over(TOPIC)
    for path, data in cluster.nodes.items():
        if path.startswith("/ledgers/"):
            cluster.zookeeper.set(f"/bk/meta{path}", data)
    cluster.zookeeper.delete("/ledgers")
    whole(cluster, ledgers_path="/bk/meta/ledgers")


def test_the_wrong_place_is_no_empty_cluster(cluster: LiveCluster) -> None:
    with pytest.raises(NotFoundError, match="no such path"):
        open_bucket(f"{cluster.url}/elsewhere").topics()
    with pytest.raises(NotFoundError, match="no managed ledgers"):
        open_bucket(f"{cluster.url}/ledgers").topics()


def test_topics_without_entries_have_no_rows(cluster: LiveCluster, tmp_path: Path) -> None:
    cluster.write_ledger(TOPIC, ())
    cluster.write_ledger("public/default/closed", (), state=CLOSED)
    cluster.write_ledger("public/default/other", messages(3))
    cluster.roll_over("public/default/other")
    for age in (None, None, 600.0, 600.0):
        with only_reading(cluster):
            bucket = opened(cluster, cache_dir=str(tmp_path / "cache"), catalog_max_age=age)
            assert [(one.name.rpartition("/")[2], one.entries) for one in bucket.topics()] == [
                ("closed", 0),
                ("orders", 0),
                ("other", 3),
            ]
            assert bucket.topic(TOPIC).count() == 0
            assert values_of(bucket) == []
            assert bucket.topic("public/default/closed").ledgers == []
            with pytest.raises(NotFoundError, match="no confirmed entries"):
                bucket.ledger(150)
            with pytest.raises(NotFoundError, match="no ledger of this topic"):
                bucket.topic("public/default/unknown")


def test_times_choose_the_messages_that_a_full_scan_has(cluster: LiveCluster) -> None:
    cluster.write_ledgers(TOPIC, [messages(50, str(i), first=50 * i) for i in range(6)])
    cluster.publish(TOPIC, messages(30, "open", first=300))
    bucket = opened(cluster, open_end="acknowledged")
    table = bucket.topic(TOPIC).scan(["publish_time", "value"]).to_pandas()
    times = table["publish_time"]
    for low, high in [(0, 330), (10, 20), (49, 51), (100, 250), (240, 310), (300, 330), (329, 400), (329, 330)]:
        start = times[low]
        end = times[high] if high < len(times) else None
        found = bucket.topic(TOPIC).scan(["value"], start_time=start, end_time=end).to_pandas()["value"].tolist()
        is_wanted = (times >= start) & (True if end is None else times < end)
        assert found == table["value"][is_wanted].tolist()


def test_partitions_cover_every_entry_once(cluster: LiveCluster) -> None:
    cluster.write_ledgers(TOPIC, [messages(400, str(i), size=8000) for i in range(3)])
    cluster.roll_over(TOPIC)
    bucket = opened(cluster)
    parts = plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), 1 << 20)
    assert len(parts) > 6
    tables = [
        scan_of_run(run, bucket, columns=["ledger_id", "entry_id"]).to_pandas()
        for part in parts
        for run in pickle.loads(pickle.dumps(part)).runs
    ]
    found = [(int(a), int(b)) for table in tables for a, b in zip(table["ledger_id"], table["entry_id"], strict=True)]
    assert found == ids_of(cluster.entries_of(TOPIC))


def test_threads_children_and_pickles_read_the_same(cluster: LiveCluster) -> None:
    cluster.write_ledgers(TOPIC, [messages(700, str(i), size=300) for i in range(4)])
    cluster.publish(TOPIC, messages(50, "open", size=300))
    bucket = opened(cluster, open_end="acknowledged")
    expected = cluster.entries_of(TOPIC)
    with ThreadPoolExecutor(6) as threads:
        for found in threads.map(lambda _: entries_of(bucket), range(12)):
            assert found == expected
    readers = bucket.topic(TOPIC).ledgers
    with ThreadPoolExecutor(6) as threads:
        ranges = list(np.random.default_rng(1).integers(0, 650, (40, 1))[:, 0])
        for first, found in zip(
            ranges, threads.map(lambda at: readers[0].read(int(at), int(at) + 40), ranges), strict=True
        ):
            assert [one.id for one in found] == list(range(first, first + 41))

    def check() -> None:
        assert entries_of(bucket) == expected

    assert status_in_child(check, seconds=300) == 0
    copy = pickle.loads(pickle.dumps(bucket))
    assert entries_of(copy) == expected
    again = pickle.loads(pickle.dumps(readers))
    assert [len(one.read(0, one.last_entry)) for one in again] == [700, 700, 700, 750]
    assert entries_of(bucket) == expected

"""``spark.read.format("ledgerfs").load("pulsar+zk://…")``: tasks read bookies and buckets themselves, within the rate for all of them."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.read_options import read_options
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.source_schemes import DEFAULT_BOOKIE_CONNECTIONS, DEFAULT_BOOKIE_RATE
from tests.cluster.support.bookie_disks import golden_disk
from tests.cluster.support.live_clusters import LiveCluster, ledgers_of, messages
from tests.support.golden_rows import as_java_says, expected_of, wanted

ORDERS = "public/default/orders"
TOPICS = ("plain", "batched-zstd", "chunked", "partitioned-partition-1", "txn")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made


def read(spark: SparkSession, cluster: LiveCluster, **options: str) -> DataFrame:
    reported = {"storage.bucket_urls": json.dumps({"tier": cluster.bucket_url("tier")}), **options}
    return spark.read.format("ledgerfs").options(**reported).load(cluster.url)


def test_golden_topics_half_offloaded_and_half_hot(spark: SparkSession, cluster: LiveCluster, golden: Path) -> None:
    """Each message once, as the bucket has them that a real broker wrote all of them to."""
    bucket = open_bucket(str(golden / "bucket"))
    for name in TOPICS:
        topic = f"public/golden/{name}"
        written = [cluster.write_ledger(topic, entries) for _, entries in ledgers_of(bucket, topic)]
        cluster.roll_over(topic)
        for ledger_id in written[: max(1, len(written) // 2)]:
            cluster.offload(topic, ledger_id)
            cluster.delete_from_bookkeeper(ledger_id)
            cluster.collect(ledger_id)
    columns = ["topic", "entry_id", "batch_index", "key", "value", "publish_time"]
    rows = read(spark, cluster, partitionBytes="4MiB", maxBookieRate="1GiB").select(*columns).collect()
    expected = [
        tuple(row.values())
        for name in TOPICS
        for row in bucket.topic(f"public/golden/{name}").scan(columns=columns).to_pandas().to_dict("records")
    ]
    assert len(rows) == len(expected) > 1000
    assert Counter((row.topic, row.entry_id, bytes(row.value or b"")) for row in rows) == Counter(
        (one[0], one[1], one[4] or b"") for one in expected
    )
    assert not cluster.not_reads()


def test_the_plan_is_one_moment(spark: SparkSession, cluster: LiveCluster) -> None:
    """What comes after the listing is for the next query; what is offloaded meanwhile is read from the bucket."""
    first = cluster.write_ledger(ORDERS, messages(2000, size=500))
    last = cluster.write_ledger(ORDERS, messages(1000, "n", size=500))
    frame = read(spark, cluster, topic=ORDERS, partitionBytes="700KiB")
    assert frame.count() == 2999
    cluster.append(last, messages(10, "late"))
    cluster.offload(ORDERS, first)
    cluster.delete_from_bookkeeper(first)
    cluster.collect(first)
    values = [bytes(row.value).rstrip(b".").decode() for row in frame.select("value").collect()]
    assert sorted(values) == sorted([*(f"m{i}" for i in range(2000)), *(f"n{i}" for i in range(999))])
    assert read(spark, cluster, topic=ORDERS).count() == 3009
    assert not cluster.not_reads()


@pytest.mark.parametrize(("rate", "tasks", "share"), [(None, 4, DEFAULT_BOOKIE_RATE / 4), (1000, 8, 125), (9, 0, 9)])
def test_tasks_share_the_rate(rate: int | None, tasks: int, share: float) -> None:
    assert Storage("pulsar+zk://zk:2181").of_task(rate, tasks).options["bookie_rate"] == share


def test_buckets_have_no_rate_and_users_go_first() -> None:
    assert Storage("s3://tier").of_task(1000, 2) == Storage("s3://tier")
    own = Storage("pulsar+zk://zk:2181", {"bookie_rate": 5})
    assert own.of_task(None, 2) == own
    assert own.of_task(100, 2).options["bookie_rate"] == 50


@pytest.mark.parametrize("name", ["maxBookieRate", "maxBookieConnections"])
@pytest.mark.parametrize("text", ["0", "-1", "much"])
def test_a_limit_that_is_none(name: str, text: str) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        read_options({"path": "pulsar+zk://zk:2181", name: text})


@pytest.mark.parametrize(("given", "most"), [({}, DEFAULT_BOOKIE_CONNECTIONS), ({"maxBookieConnections": "3"}, 3)])
def test_a_query_has_so_many_tasks_at_most(
    spark: SparkSession, cluster: LiveCluster, given: dict[str, str], most: int
) -> None:
    """Each has a connection to a bookie; however small parts are wanted, and however many ledgers there are."""
    for first in range(0, 2000, 100):
        cluster.write_ledger(ORDERS, messages(100, size=500, first=first))
    cluster.roll_over(ORDERS)
    parts = read(spark, cluster, topic=ORDERS, partitionBytes="10KiB", maxBookieRate="1GiB", **given)
    assert most // 2 < parts.rdd.getNumPartitions() <= most
    assert sorted(bytes(row.value).rstrip(b".") for row in parts.select("value").collect()) == sorted(
        f"m{number}".encode() for number in range(2000)
    )
    assert not cluster.not_reads()


def test_buckets_have_any_number_of_tasks() -> None:
    assert read_options({"path": "s3://tier", "maxBookieConnections": "3"}).most_parts is None


def test_a_cluster_is_the_same_at_any_rate() -> None:
    """Caches and exports of it are the same with other limits."""
    names = {
        identity_of(*filesystem_of("pulsar+zk://zk:2181", options))
        for options in ({}, {"bookie_rate": 5}, {"read_from": "bookkeeper"}, {"timeout_s": 3})
    }
    assert len(names) == 1
    assert identity_of(*filesystem_of("pulsar+zk://zk:2181", {"open_end": "acknowledged"})) not in names


def test_a_topic_on_disks_of_bookies_is_read_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks read logs by tables that are kept, and have each row once."""
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))
    golden, topic = golden_disk("bookie-dbledger", tmp_path), "persistent://public/golden/plain"
    options = {"storage.metadata": str(golden / "dump.json.zst"), "topic": topic, "partitionBytes": "64KiB"}
    frame = spark.read.format("ledgerfs").options(**options).load(f"bookies://{golden}/ledgers")
    rows = sorted(frame.toArrow().to_pylist(), key=lambda row: (row["ledger_id"], row["entry_id"]))
    assert [as_java_says(row) for row in rows] == wanted(expected_of(golden, topic))
    assert frame.rdd.getNumPartitions() > 1

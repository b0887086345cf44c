"""Reading a cluster of ours as users do, and what has to come of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from tests.cluster.support.live_clusters import TOPIC, LiveCluster

Rows = list[tuple[int, int, bytes]]
"""Ledger, entry and bytes of each entry."""


def opened(cluster: LiveCluster, **options: Any) -> Bucket:
    """Open a cluster whose bookies are given up after five seconds, and whose buckets are its folders."""
    scan = {name: options.pop(name) for name in ("catalog_max_age", "cache_dir") if name in options}
    buckets = {one.name: f"file://{one}" for one in cluster.buckets.glob("*")} | {"tier": cluster.bucket_url()}
    return open_bucket(cluster.url, {"timeout_s": 300.0, "bucket_urls": buckets, **options}, **scan)


def entries_of(bucket: Bucket, topic: str = TOPIC, on_damage: Any = None) -> Rows:
    """Return all entries of a topic, ledger by ledger."""
    return [
        (one.ref.ledger_id, entry_id, bytes(data))
        for one in bucket.topic(topic).ledgers
        for batch in one.batches(one.first_entry, one.last_entry, on_damage)
        for entry_id, data in batch
    ]


def values_of(bucket: Bucket, topic: str = TOPIC, **options: Any) -> list[tuple[int, int, bytes]]:
    """Return ledger, entry and value of each message of a topic."""
    table = bucket.topic(topic).scan(["ledger_id", "entry_id", "value"], **options).to_pandas()
    return list(zip(table["ledger_id"].tolist(), table["entry_id"].tolist(), table["value"].tolist(), strict=True))


@contextmanager
def only_reading(cluster: LiveCluster) -> Iterator[None]:
    """See to it that a cluster is as before, and got nothing but reads."""
    before = cluster.nodes
    yield
    assert cluster.nodes == before
    assert cluster.not_reads() == []


def whole(cluster: LiveCluster, topic: str = TOPIC, **options: Any) -> Rows:
    """Return all entries of a topic by a bucket opened now, and see that these are all, and that nothing was changed."""
    with only_reading(cluster):
        found = entries_of(opened(cluster, **options), topic)
    expected = cluster.entries_of(topic)
    assert len(found) == len(expected)
    assert found == expected
    return found


def in_the_middle(rows: Iterator[Any], after: int, then: Callable[[], None]) -> list[Any]:
    """Return all rows; after some of them something happens."""
    found = []
    for row in rows:
        found.append(row)
        if len(found) == after:
            then()
    return found

"""What a dump has of settings and partitions, and how many partitions topics get in a new cluster: what is there stays as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, DumpedSettings, read_dumped
from ledgerfs_cluster.recovery.partitions import MOST_INFERRED, counts_in_new_cluster, set_partitions
from ledgerfs_cluster.recovery.report import TopicRecovery
from ledgerfs_cluster.snapshot.answers import CursorAnswer, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, Record, read_dump
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.recovery.lost import locked
from tests.cluster.support.live_clusters import LiveCluster
from tests.support.each import for_each

NAME, TOPIC = "shop/eu/or+ders", "persistent://shop/eu/or ders-partition-2"


def node(path: str, value: Any) -> Node:
    return Node(path, value if isinstance(value, bytes) else json.dumps(value).encode(), 0, 0, 0, 0)


def test_one_pass_takes_what_is_about_settings(tmp_path: Path) -> None:
    answer = TopicPoliciesAnswer("shop/eu", {"shop/eu/persistent/a": {"message_ttl_in_seconds": 3}})
    schema = SchemaAnswer(NAME, 0, b"x")
    records: list[Record] = [
        DumpHeader("pulsar+zk://old:2181", "/ledgers", 1),
        node("/ledgers/LAYOUT", b"x"),
        node("/admin/policies/shop", {"adminRoles": ["boss"]}),
        node("/admin/policies/shop/eu", {"message_ttl_in_seconds": 5}),
        node("/admin/partitioned-topics/shop/eu/persistent/p", {"partitions": 4}),
        node("/schemas/shop", b""),
        node(f"/schemas/{NAME}", b"locator"),
        CursorAnswer("/managed-ledgers/x", None, "lost"),
        answer,
        schema,
        DumpEnd(7, 2),
    ]
    with (tmp_path / "dump").open("wb") as file:
        writer = DumpWriter(file)
        for record in records:
            writer.write(record)
        writer.flush()
    found = read_dumped(lambda: read_dump(tmp_path / "dump")).settings
    assert found.policies("shop") == {"adminRoles": ["boss"]}
    assert found.policies("shop/eu") == {"message_ttl_in_seconds": 5}
    assert found.partitions("shop/eu/persistent/p") == 4
    assert (found.topic_policies, found.locators, found.schemas) == (
        {"shop/eu": answer},
        {NAME: b"locator"},
        {NAME: [schema]},
    )
    assert "/ledgers/LAYOUT" not in found.nodes


def partitioned(**counts: Any) -> DumpedSettings:
    return DumpedSettings(
        {
            f"/admin/partitioned-topics/shop/eu/persistent/{name}": value
            if isinstance(value, bytes)
            else json.dumps({"partitions": value}).encode()
            for name, value in counts.items()
        }
    )


def counted(*names: str, settings: DumpedSettings | None = None) -> dict[str, int]:
    dump = DumpedCluster(0, {}, {}, {}, settings or DumpedSettings(), {})
    plans = [TopicRecovery(f"shop/eu/persistent/{name}", f"shop/eu/persistent/{name}") for name in names]
    found = counts_in_new_cluster(plans, dump)
    return {name.removeprefix("shop/eu/persistent/"): count for name, count in found.items()}


def test_partitions_are_as_many_as_the_dump_or_the_names_tell() -> None:
    assert counted("a", "p-partition-0", "p-partition-2") == {"p": 3}
    assert counted("a", "p-partition-0", settings=partitioned(p=8, q=2)) == {"p": 8}
    # Partitions were added since the dump.
    assert counted("p-partition-9", settings=partitioned(p=8)) == {"p": 10}
    assert counted("p", settings=partitioned(p=8)) == {}
    assert counted("p-partition-01", "p-partition-x") == {}


def test_a_number_beyond_all_reason_makes_no_partitions() -> None:
    assert counted(f"p-partition-{MOST_INFERRED}", "p-partition-1", f"q-partition-{2**31 - 1}") == {"p": 2}
    assert counted(f"p-partition-{MOST_INFERRED + 4}", settings=partitioned(p=MOST_INFERRED + 5)) == {
        "p": MOST_INFERRED + 5
    }


@for_each(
    "damaged",
    [
        b"{",
        b"[]",
        b'{"partitions": "3"}',
        b'{"partitions": true}',
        b'{"partitions": -1}',
        b'{"partitions": 4294967296}',
    ],
)
def test_a_damaged_count_is_none(damaged: bytes) -> None:
    settings = partitioned(p=damaged)
    with pytest.raises(CorruptMetadataError):
        settings.partitions("shop/eu/persistent/p")
    assert counted("p-partition-3", settings=settings) == {"p": 4}


# In the new cluster.

PARTITIONED = "shop/eu/persistent/p"
PATH = f"/admin/partitioned-topics/{PARTITIONED}"


def set_count(cluster: LiveCluster, count: int) -> str | None:
    with locked(cluster) as (lock, _):
        return set_partitions(lock, {PARTITIONED: count}).get(PARTITIONED)


def kept(cluster: LiveCluster) -> bytes:
    found = cluster.zookeeper.get(cluster.chroot + PATH)
    assert found is not None
    return found[0]


@pytest.mark.process
def test_a_number_is_set_once(cluster: LiveCluster) -> None:
    assert set_count(cluster, 3) is None
    assert kept(cluster) == b'{"partitions": 3}'
    assert set_count(cluster, 3) is None
    assert (
        set_count(cluster, 4) == "the new cluster already has the topic with 3 partitions, but the lost cluster had 4"
    )
    assert kept(cluster) == b'{"partitions": 3}'


@pytest.mark.process
@for_each("data", [b"{", b"[]", b'{"partitions": "3"}', b'{"partitions": true}', b""])
def test_a_node_that_is_damaged_is_reported_and_stays(cluster: LiveCluster, data: bytes) -> None:
    cluster.zookeeper.set(cluster.chroot + PATH, data)
    found = set_count(cluster, 3)
    assert found is not None
    assert found.startswith("the new cluster already has the topic, but its number of partitions is unknown: ")
    assert kept(cluster) == data

"""The cluster that tests read from is as a broker leaves one: nodes, lists, entries on their bookies, and objects of offloads."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.formats.bookkeeper.digests import Digest
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs.formats.bookkeeper.stored_entries import check_entries
from ledgerfs.formats.ledger_metadata import DigestType, LedgerState
from ledgerfs.formats.managed_ledgers.cursor_info import parse_cursor_info, parse_position_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    Position,
    parse_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.formats.managed_ledgers.proto.managed_ledger_pb2 import ManagedLedgerRecord
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.schemas.stored_schema import locator_path, parse_locator, parse_stored_schema
from tests.support.bookies import BookieServer
from tests.support.each import for_each
from tests.support.entries import LZ4, ZSTD
from tests.support.live_clusters import CLOSED, OPEN, TOPIC, LiveCluster, as_java_hashes, ledgers_of, messages

NAME = "public/default/persistent/orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made


def node_of(cluster: LiveCluster, ledger_id: int) -> LedgerNode:
    path = ledger_path(ledger_id)
    return parse_ledger_node(cluster.nodes[path], ledger_id, key=path)


def list_of(cluster: LiveCluster, name: str = NAME) -> ManagedLedgerInfo:
    path = managed_ledger_path(name)
    return parse_managed_ledger_info(cluster.nodes[path], key=path)


def stored_order(cluster: LiveCluster, name: str = NAME) -> list[int]:
    record = ManagedLedgerRecord.FromString(cluster.nodes[managed_ledger_path(name)])
    return [one.ledger_id for one in record.ledger]


def holders(cluster: LiveCluster, ledger_id: int, entry_id: int) -> list[str]:
    return [one.address for one in cluster.bookies if entry_id in one.entries(ledger_id)]


def stored_on(bookie: BookieServer, ledger_id: int, entry_id: int) -> bytes:
    return bookie.entries(ledger_id)[entry_id]


def read(cluster: LiveCluster, ledger_id: int) -> list[tuple[bytes, int]]:
    """Return payload and last add confirmed of each entry of a closed ledger, from the first bookie that should have it."""
    node = node_of(cluster, ledger_id)
    by_address = {one.address: one for one in cluster.bookies}
    found = []
    for entry_id in range(node.last_entry + 1):
        stored = stored_on(by_address[node.bookies_of(entry_id)[0]], ledger_id, entry_id)
        sizes, ids = np.array([len(stored)]), np.array([entry_id])
        checked = check_entries(memoryview(stored), np.zeros(1, np.int64), sizes, ledger_id, ids, node.digest)
        assert checked.are_sound
        payload = stored[checked.starts[0] : checked.starts[0] + checked.sizes[0]]
        found.append((payload, int(checked.last_confirmed[0])))
        assert int(checked.lengths_so_far[0]) == sum(len(one) for one, _ in found)
    return found


@for_each("password", [b"", b"secret"])
@for_each("kind", DigestType)
def test_entries_are_sound_and_on_the_bookies_of_their_write_set(
    cluster: LiveCluster, kind: DigestType, password: bytes
) -> None:
    payloads = messages(10)
    ledger_id = cluster.write_ledger(TOPIC, payloads, digest=Digest(kind, password), state=CLOSED)
    assert read(cluster, ledger_id) == [(payload, i - 1) for i, payload in enumerate(payloads)]
    node = node_of(cluster, ledger_id)
    assert (node.is_closed, node.last_entry, node.length) == (True, 9, sum(map(len, payloads)))
    assert (node.ensemble_size, node.write_quorum, node.ack_quorum) == (3, 2, 2)
    assert (node.component, node.managed_ledger, node.created_ms) == ("managed-ledger", NAME, None)
    for entry_id in range(10):
        assert set(holders(cluster, ledger_id, entry_id)) == set(node.bookies_of(entry_id))
    assert cluster.not_reads() == []


def test_an_open_ledger_tells_no_end(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(10))
    node = node_of(cluster, ledger_id)
    assert (node.state, node.last_entry, node.length) == (LedgerState.OPEN, -1, 0)
    assert cluster.entries_of(TOPIC) == [(ledger_id, i, one) for i, one in enumerate(messages(10))]


def test_the_last_ledger_is_listed_without_size_and_the_order_is_that_of_a_hash_map(cluster: LiveCluster) -> None:
    other = cluster.write_ledger("public/default/other", messages(1), ledger_id=149)
    made = [cluster.write_ledger(TOPIC, messages(5, f"{i}-"), closed_ms=1000 + i) for i in range(3)]
    assert (other, made) == (149, [150, 151, 152])
    assert stored_order(cluster) == [152, 150, 151]
    assert [(one.ledger_id, one.entries, one.closed_ms) for one in list_of(cluster).ledgers] == [
        (150, 5, 1001),
        (151, 5, 1002),
        (152, 0, 0),
    ]
    assert [node_of(cluster, one).state for one in made] == [CLOSED, CLOSED, OPEN]
    assert list_of(cluster).ledgers[0].size == sum(map(len, messages(5, "0-")))


@given(st.sets(st.integers(0, 2**40), max_size=300))
def test_hash_order_keeps_all_ids(ids: set[int]) -> None:
    assert sorted(as_java_hashes(ids)) == sorted(ids)


def test_a_pipelined_burst_carries_what_was_confirmed_before_it(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(4))
    cluster.append(ledger_id, messages(4, first=4), confirmed=2)
    cluster.append(ledger_id, messages(2, first=8))
    cluster.close(ledger_id)
    assert [confirmed for _, confirmed in read(cluster, ledger_id)] == [-1, 0, 1, 2, 2, 2, 2, 2, 7, 8]


def test_what_too_few_bookies_have_is_never_acknowledged_nor_part_of_the_closed_ledger(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(4))
    assert cluster.append(ledger_id, messages(1, first=4), only_on=1) == [4]
    assert cluster.append(ledger_id, messages(1, first=5)) == [5]
    assert [len(holders(cluster, ledger_id, i)) for i in (3, 4, 5)] == [2, 1, 2]
    carried = struct.unpack_from(
        ">q", next(one.entries(ledger_id)[5] for one in cluster.bookies if 5 in one.entries(ledger_id)), 16
    )
    assert carried == (3,)
    assert len(cluster.entries_of(TOPIC)) == 4
    cluster.roll_over(TOPIC)
    assert node_of(cluster, ledger_id).last_entry == 3


def test_entries_after_a_change_of_the_ensemble_are_on_others(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=4) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(30), state=OPEN)
        cluster.change_ensemble(ledger_id, 20)
        cluster.append(ledger_id, messages(10, first=30))
        cluster.close(ledger_id)
        node = node_of(cluster, ledger_id)
        assert [one.first_entry for one in node.ensembles] == [0, 20]
        assert set(node.ensembles[1].bookies) - set(node.ensembles[0].bookies)
        assert [payload for payload, _ in read(cluster, ledger_id)] == messages(40)


def test_a_writer_leaves_a_dead_bookie(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=4) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(10))
        dead = cluster.written[ledger_id].node.ensembles[0].bookies[1]
        next(one for one in cluster.bookies if one.address == dead).kill()
        cluster.publish(TOPIC, messages(10, first=10))
        node = node_of(cluster, ledger_id)
        assert [(one.first_entry, dead in one.bookies) for one in node.ensembles] == [(0, True), (10, False)]
        assert len(cluster.entries_of(TOPIC)) == 20
        assert f"/ledgers/available/{dead}" in cluster.nodes


def test_without_another_bookie_a_dead_one_leaves_entries_unacknowledged(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(3))
    cluster.bookies[0].kill()
    cluster.append(ledger_id, messages(3, first=3))
    assert len(cluster.entries_of(TOPIC)) < 6
    assert len(node_of(cluster, ledger_id).ensembles) == 1


@pytest.mark.parametrize("bucket", ["tier", "other"])
def test_an_offloaded_ledger_is_in_its_bucket_and_in_the_list(cluster: LiveCluster, bucket: str) -> None:
    first = cluster.write_ledger(TOPIC, messages(50), created_ms=1_700_000_000_123)
    cluster.write_ledger(TOPIC, messages(50, "later"))
    uuid = cluster.offload(TOPIC, first, bucket=bucket, endpoint="http://127.0.0.1:9000")
    opened = open_bucket(cluster.bucket_url(bucket))
    assert ledgers_of(opened, TOPIC) == [(first, messages(50))]
    assert [row["value"] for batch in opened.topic(TOPIC).scan() for row in batch.to_pylist()] == [
        f"m{i}".encode() for i in range(50)
    ]
    ref = opened.topic(TOPIC).ledgers[0].ref
    assert (ref.uuid, ref.created_ms) == (uuid, 1_700_000_000_123)
    assert ref.is_sound
    context = list_of(cluster).ledgers[0].context
    assert context is not None
    assert (context.uuid, context.is_complete, context.is_deleted_from_bookkeeper) == (uuid, True, False)
    assert (context.driver, context.get("bucket"), context.get("region")) == ("aws-s3", bucket, "us-east-1")
    assert context.get("serviceEndpoint") == "http://127.0.0.1:9000"
    assert context.get("managedLedgerOffloadDriver") == "AWS_S3"
    assert context.offloaded_ms is not None
    assert list_of(cluster).ledgers[1].context is None


def test_an_offload_to_a_file_system_is_a_mapfile(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(50))
    cluster.roll_over(TOPIC)
    uuid = cluster.offload(TOPIC, first, driver="filesystem")
    assert ledgers_of(open_bucket(cluster.bucket_url()), TOPIC) == [(first, messages(50))]
    context = list_of(cluster).ledgers[0].context
    assert context is not None
    assert (context.uuid, context.driver) == (uuid, "filesystem")
    assert context.get("storageBasePath") == cluster.bucket_url()
    cluster.trim(TOPIC, first)
    assert not [one for one in cluster.bucket().rglob("*") if one.is_file()]


def test_the_last_ledger_of_a_topic_is_not_offloaded(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(5), state=CLOSED)
    with pytest.raises(AssertionError, match="roll it over"):
        cluster.offload(TOPIC, ledger_id)


@pytest.mark.parametrize("objects", [(), ("data",), ("data", "index")])
def test_an_offload_may_end_before_it_is_complete(cluster: LiveCluster, objects: tuple[str, ...]) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    cluster.roll_over(TOPIC)
    uuid = cluster.offload(TOPIC, first, is_complete=False, objects=objects)
    context = list_of(cluster).ledgers[0].context
    assert context is not None
    assert (context.uuid, context.is_complete, context.offloaded_ms) == (uuid, False, None)
    stem = f"{uuid}-ledger-{first}"
    assert sorted(one.name for one in cluster.bucket().iterdir()) == [stem, f"{stem}-index"][: len(objects)]


def test_a_deleted_copy_is_flagged_and_its_entries_go_when_bookies_collect(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    cluster.roll_over(TOPIC)
    cluster.offload(TOPIC, first)
    cluster.delete_from_bookkeeper(first, collected=False)
    context = list_of(cluster).ledgers[0].context
    assert context is not None
    assert context.is_deleted_from_bookkeeper
    assert ledger_path(first) not in cluster.nodes
    assert all(first in one.ledgers for one in cluster.bookies)
    cluster.collect(first, cluster.bookies[0])
    assert [first in one.ledgers for one in cluster.bookies] == [False, True, True]
    cluster.collect(first)
    assert not any(first in one.ledgers for one in cluster.bookies)


def test_a_trimmed_ledger_leaves_nothing_unless_the_broker_dies(cluster: LiveCluster) -> None:
    first, second, third = cluster.write_ledgers(TOPIC, [messages(5, one) for one in "abc"])
    cluster.offload(TOPIC, first)
    cluster.trim(TOPIC, first)
    assert [one.ledger_id for one in list_of(cluster).ledgers] == [second, third]
    assert ledger_path(first) not in cluster.nodes
    assert list(cluster.bucket().iterdir()) == []
    cluster.trim(TOPIC, second, only_list=True)
    assert [one.ledger_id for one in list_of(cluster).ledgers] == [third]
    assert node_of(cluster, second).managed_ledger == NAME
    assert cluster.entries_of(TOPIC) == [(third, i, one) for i, one in enumerate(messages(5, "c"))]


def test_an_empty_ledger_goes_when_the_next_one_comes(cluster: LiveCluster) -> None:
    first = cluster.write_ledger(TOPIC, messages(5))
    empty = cluster.roll_over(TOPIC)
    assert not any(empty in one.ledgers for one in cluster.bookies)
    last = cluster.roll_over(TOPIC)
    assert [one.ledger_id for one in list_of(cluster).ledgers] == [first, last]
    assert ledger_path(empty) not in cluster.nodes


def test_a_terminated_topic_tells_its_end(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(5))
    cluster.terminate(TOPIC)
    assert list_of(cluster).terminated == Position(ledger_id, 4)
    assert list_of(cluster).ledgers[-1].closed_ms == 0
    assert node_of(cluster, ledger_id).is_closed


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_lists_and_cursors_may_be_compressed(tmp_path: Path, codec: int) -> None:
    with LiveCluster(tmp_path, compression=codec) as cluster:
        made = cluster.write_ledgers(TOPIC, [messages(2)] * 40)
        assert cluster.nodes[managed_ledger_path(NAME)][:2] == b"\x47\x78"
        assert [one.ledger_id for one in list_of(cluster).ledgers] == made
        cluster.add_cursor(TOPIC, "late", (made[3], 1))
        path = cursor_path(NAME, "late")
        assert parse_cursor_info(cluster.nodes[path], key=path).mark_delete == Position(made[3], 1)


def test_a_cursor_may_be_in_its_node_or_newer_in_its_ledger(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(20))
    holes = [(Position(ledger_id, 9), Position(ledger_id, 12))]
    assert (
        cluster.add_cursor(TOPIC, "at rest", (ledger_id, 7), holes=holes, last_active_ms=5, properties={"p": 1}) == -1
    )
    path = cursor_path(NAME, "at rest")
    found = parse_cursor_info(cluster.nodes[path], key=path)
    assert (found.mark_delete, found.holes, found.last_active_ms) == (Position(ledger_id, 7), tuple(holes), 5)
    assert found.is_in_the_node
    own = cluster.add_cursor(TOPIC, "moving", (ledger_id, 15), holes=holes, stale=(ledger_id, 3))
    path = cursor_path(NAME, "moving")
    stale = parse_cursor_info(cluster.nodes[path], key=path)
    assert (stale.cursors_ledger, stale.mark_delete, stale.holes) == (own, Position(ledger_id, 3), ())
    node = node_of(cluster, own)
    assert (node.component, node.managed_ledger, node.told("pulsar/cursor")) == ("managed-ledger", NAME, "moving")
    newest = parse_position_info(cluster.written[own].payloads[-1], key="cursor")
    assert (newest.mark_delete, newest.holes) == (Position(ledger_id, 15), tuple(holes))
    assert [one.ledger_id for one in list_of(cluster).ledgers] == [ledger_id]


def test_schemas_are_entries_that_a_locator_finds(cluster: LiveCluster) -> None:
    cluster.add_schema(TOPIC, SchemaInfo("AVRO", b'"string"', {"a": "b"}))
    cluster.add_schema(TOPIC, SchemaInfo("NONE"), is_deletion=True)
    cluster.add_schema(TOPIC, SchemaInfo("STRING"), timestamp_ms=7)
    path = locator_path(TOPIC)
    versions = parse_locator(cluster.nodes[path], key=path)
    assert [one.version for one in versions] == [0, 1, 2]
    found = []
    for one in versions:
        [(payload, _)] = read(cluster, one.position.ledger_id)
        found.append(parse_stored_schema(payload, key="schema"))
        assert node_of(cluster, one.position.ledger_id).told("pulsar/schemaId") == TOPIC
    assert [(one.version, one.schema.type, one.is_deletion) for one in found] == [
        (0, "AVRO", False),
        (1, "NONE", True),
        (2, "STRING", False),
    ]
    assert (found[0].schema.data, found[2].timestamp_ms) == (b'"string"', 7)


def test_golden_ledgers_may_lie_hot_under_their_own_ids(cluster: LiveCluster, golden_url: str) -> None:
    topic = "persistent://public/golden/plain"
    golden = ledgers_of(open_bucket(golden_url), topic)
    assert len(golden) > 1
    for ledger_id, payloads in golden:
        cluster.write_ledger(topic, payloads, ledger_id=ledger_id)
    cluster.roll_over(topic)
    for ledger_id, payloads in golden:
        assert [payload for payload, _ in read(cluster, ledger_id)] == payloads
        cluster.offload(topic, ledger_id)
    assert ledgers_of(open_bucket(cluster.bucket_url()), topic) == golden


def test_a_namespace_has_policies_bundles_and_owners(cluster: LiveCluster) -> None:
    cluster.set_policies("public/default", retention_policies={"retentionTimeInMinutes": 5, "retentionSizeInMB": -1})
    cluster.set_bundles("public/default", "0x00000000", "0xffffffff")
    cluster.own_bundle("public/default", "0x00000000_0xffffffff")
    cluster.set_partitions(TOPIC, 4)
    nodes = cluster.nodes
    assert b'"retentionTimeInMinutes": 5' in nodes["/admin/policies/public/default"]
    assert b'"numBundles": 1' in nodes["/admin/local-policies/public/default"]
    assert "/namespace/public/default/0x00000000_0xffffffff" in nodes
    assert nodes["/admin/partitioned-topics/public/default/persistent/orders"] == b'{"partitions": 4}'


def test_all_nodes_may_lie_below_a_path(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, chroot="/pulsar/one") as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(5))
        assert "/pulsar/one" + ledger_path(ledger_id) in cluster.nodes
        assert {one for one in cluster.nodes if not one.startswith("/pulsar/one")} == {"/", "/pulsar"}
        assert cluster.url == f"pulsar+zk://{cluster.zookeeper.address}/pulsar/one"


def test_lists_that_no_broker_would_store_may_be_stored(cluster: LiveCluster) -> None:
    first, _ = cluster.write_ledgers(TOPIC, [messages(5), messages(5)])
    cluster.change_ledger(TOPIC, first, lambda one: replace(one, entries=99))
    assert list_of(cluster).ledgers[0].entries == 99

"""The cluster that tests read from is as a broker leaves one: nodes, lists, entries on their bookies, and objects of offloads."""

import struct

import numpy as np

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.bookkeeper.stored_entries import check_entries
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.formats.managed_ledgers.proto.managed_ledger_pb2 import ManagedLedgerRecord
from tests.cluster.support.bookies import BookieServer
from tests.cluster.support.live_clusters import CLOSED, OPEN, TOPIC, LiveCluster, messages
from tests.support.each import for_each

NAME = "public/default/persistent/orders"


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

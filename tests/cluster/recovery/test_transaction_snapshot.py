"""Snapshots of aborted transactions, as brokers wrote them: the last entries of the system topic on golden disks."""

from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.recovery.transaction_messages import build_transaction_snapshot, snapshot_topic, transactions_in
from tests.cluster.support.bookie_disks import golden_disk
from tests.cluster.support.transaction_snapshots import parsed_snapshot

TXN = "persistent://public/golden/txn"


@pytest.mark.parametrize("name", ["bookie-dbledger", "bookie-sorted"])
@pytest.mark.filterwarnings("ignore::ledgerfs.errors.UnplacedLedgersWarning")
def test_golden_snapshots_are_built_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden = golden_disk(name, tmp_path)
    options = {"metadata": str(golden / "dump.json.zst"), "open_end": "recovered"}
    bucket = open_bucket(f"bookies://{golden / 'ledgers'}", options)
    rows = bucket.topic(snapshot_topic("public/golden")).scan(["key", "value"]).to_arrow().to_pylist()
    assert len(rows) == 2
    for row in rows:
        found = parsed_snapshot(row["value"])
        assert found.topic == row["key"] == TXN
        assert build_transaction_snapshot(TXN, found.end, found.aborts) == row["value"]
    readers = bucket.readers_of("public/golden/persistent/txn", bucket.catalog)
    # Those that come last were aborted behind the snapshot.
    assert {*found.aborted} <= {*transactions_in(readers).transactions["aborted"]}
    assert found.aborted


def test_large_and_negative_numbers() -> None:
    aborts = [((2**63 - 1, -(2**63)), Position(2**62, 300)), ((0, 5_000_000_000), Position(-1, -1))]
    found = parsed_snapshot(build_transaction_snapshot("persistent://a/b/ü", Position(2**34, -1), aborts))
    assert found == ("persistent://a/b/ü", Position(2**34, -1), aborts)

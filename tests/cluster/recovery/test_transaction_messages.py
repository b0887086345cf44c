"""What became of the messages of transactions, by one walk over a topic: the same as a scan tells of each."""

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptMessageError, RefusedLedgerError
from ledgerfs_cluster.recovery.transaction_messages import TopicTransactions, transactions_in
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, offload, put_in_folder

TOPIC = "persistent://public/default/orders"
COMMIT, ABORT = 21, 22


def found_in(bucket: Bucket, name: str | None = NAME) -> TopicTransactions:
    return transactions_in(bucket.readers_of(name, bucket.catalog))


def states_of(found: TopicTransactions) -> dict[tuple[int, int], str]:
    return {
        (ledger, entry): kind
        for ledger, states in found.entries.items()
        for kind, entries in states.items()
        for entry in entries
    }


def scanned(bucket: Bucket, topic: str = TOPIC) -> dict[tuple[int, int], str]:
    table = bucket.topic(topic).scan(["ledger_id", "entry_id", "txn_state"], transactions="all").to_arrow()
    return {
        (row["ledger_id"], row["entry_id"]): row["txn_state"]
        for row in table.to_pylist()
        if row["txn_state"] is not None
    }


def test_the_golden_topics(bucket):
    topic = "persistent://public/golden/txn"
    found = found_in(bucket, "public/golden/persistent/txn")
    assert states_of(found) == scanned(bucket, topic)
    assert {"aborted", "committed"} <= set(states_of(found).values())
    assert found_in(bucket, "public/golden/persistent/plain").entries == {}
    assert transactions_in([]).entries == {}


def test_open_ones_are_hidden_as_aborted_ones(tmp_path):
    of = {"transaction_most": 1}
    entries = [
        frame(metadata(transaction_least=1, **of)),
        frame(metadata(transaction_least=2, **of)),
        frame(metadata(transaction_least=3, **of)),
        frame(metadata(transaction_least=1, marker_type=COMMIT, **of)),
        frame(metadata(transaction_least=3, marker_type=ABORT, **of)),
    ]
    found = found_in(open_bucket(put_in_folder(tmp_path, offload(entries))))
    assert found.hidden_messages[1].tolist() == [1, 2]
    assert found.hidden() == [(1, 2), (1, 3)]
    assert found.greatest == {1: 3}


def test_an_id_of_two_transactions_that_ended_otherwise_is_refused(tmp_path):
    """Brokers hide messages by these ids alone."""
    message, commit, abort = (
        frame(metadata(transaction_most=0, transaction_least=0, **more), b"v")
        for more in ({}, {"marker_type": COMMIT}, {"marker_type": ABORT})
    )
    found = found_in(open_bucket(put_in_folder(tmp_path, offload([message, abort, message, commit]))))
    assert states_of(found) == {(1, 0): "aborted", (1, 2): "committed"}
    with pytest.raises(RefusedLedgerError, match="both"):
        found.hidden()


@pytest.mark.parametrize("marker", [None, ABORT])
def test_a_wrong_checksum_reports_nothing(tmp_path, marker):
    fields = {} if marker is None else {"marker_type": marker}
    entry = bytearray(frame(metadata(transaction_most=1, transaction_least=2, **fields), b"value"))
    entry[-1] ^= 1
    bucket = open_bucket(put_in_folder(tmp_path, offload([frame(metadata()), bytes(entry)])))
    with pytest.raises(CorruptMessageError, match="entry 1"):
        found_in(bucket)

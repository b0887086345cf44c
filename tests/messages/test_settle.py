"""Messages of transactions that become plain messages, or markers: what a reader sees of the others stays, and so does every size."""

from collections.abc import Sequence

import numpy as np
import pytest

from ledgerfs.errors import CorruptMessageError, RefusedLedgerError
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.metadata_walk import Meta, Status, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.proto.message_metadata_pb2 import BrokerMetadataRecord, MessageMetadataRecord
from ledgerfs.messages.transforms.settle import Settle
from tests.messages.test_recompress import parts_of
from tests.support.each import for_each
from tests.support.entries import batch_of, frame, metadata, varint
from tests.support.transforms import golden_ledgers, rows_of, transformed

ABORT = 22
IN_TRANSACTION = {"transaction_most": 7, "transaction_least": 1}
MARKS = ("txn_id", "txn_state")


def settle(hidden: Sequence[int] = (), plain: Sequence[int] = ()) -> Settle:
    return Settle(np.array(hidden, np.int64), np.array(plain, np.int64))


def meta_of(entry: bytes) -> MessageMetadataRecord:
    return MessageMetadataRecord.FromString(parts_of(entry)[1])


def transaction_of(entry: bytes) -> tuple[int, int] | None:
    """Return the transaction that an entry is a message of, by protobuf's own reading."""
    meta = meta_of(entry)
    if meta.HasField("marker_type") or not (meta.HasField("transaction_most") and meta.HasField("transaction_least")):
        return None
    return meta.transaction_most, meta.transaction_least


def assert_is_marker(old: bytes, new: bytes) -> None:
    before, after = meta_of(old), meta_of(new)
    assert after.marker_type == ABORT
    for name in ("producer_name", "sequence_id", "publish_time_ms", "replicated_from", "highest_sequence_id"):
        assert (before.HasField(name), getattr(before, name)) == (after.HasField(name), getattr(after, name))
    assert not set(parts_of(new)[2]) - {0}
    assert not after.HasField("transaction_most")
    assert not after.HasField("transaction_least")
    assert len(parts_of(old)[2]) < 3 or b"\xb0\x7e" in parts_of(new)[1]


def assert_differs_in_tags(old: bytes, new: bytes) -> None:
    """The same bytes, but for the second byte of the tags: protobuf and ours find no transaction, and protobuf an unknown field."""
    assert len(old) == len(new)
    changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    assert set(changed) == {(0x01, 0x7E)}
    assert len(changed) == 2
    record = MessageMetadataRecord.FromString(new)
    assert not record.HasField("transaction_most")
    assert not record.HasField("transaction_least")


def test_the_golden_topic_of_transactions(golden_url):
    """What a real broker wrote: the rows of committed transactions, without their ids, and nothing of the aborted ones."""
    from ledgerfs import open_bucket

    topic = open_bucket(golden_url).topic("persistent://public/golden/txn")
    states = topic.scan(["ledger_id", "entry_id", "txn_state"], transactions="all").to_pandas()
    values = topic.scan(["value"]).to_pandas()["value"].tolist()
    assert {"committed", "aborted"} <= set(states.txn_state)
    made: list[dict[str, object]] = []
    for ledger, entries in zip(topic.ledgers, golden_ledgers(golden_url, "txn"), strict=True):
        mine = states[states.ledger_id == ledger.ref.ledger_id]
        told = {state: sorted(set(mine[mine.txn_state == state].entry_id)) for state in ("committed", "aborted")}
        after = transformed(settle(told["aborted"], told["committed"]), entries)
        assert [len(one) for one in after] == [len(one) for one in entries]
        made += rows_of(after, include_markers=False)
    assert [row["value"] for row in made] == values
    assert {row["txn_id"] for row in made} == {None}


@for_each("checksum", [False, True])
@for_each("size", range(5))
@for_each("name", [b"", b"p", b"producer"])
def test_a_marker_has_room_whatever_the_payload(name, size, checksum):
    meta = metadata(producer_name=name, **IN_TRANSACTION)
    broker = BrokerMetadataRecord(broker_time_ms=5, last_index=9)
    old = frame(meta, b"x" * size, broker=broker, checksum=checksum)
    (new,) = transformed(settle([0]), [old])
    assert len(new) == len(old)
    after = meta_of(new)
    assert after.marker_type == ABORT
    assert after.producer_name == name
    assert not after.HasField("transaction_most")
    assert parts_of(new)[1].endswith(b"\xb0\x7e\x01\xb8\x7e\x07\xa0\x01\x16" if size >= 3 else b"\xa0\x01\x16")
    assert parts_of(new)[0][:-4] == parts_of(old)[0][:-4]
    assert check_entries(batch_of([new])).states.tolist() == [EntryState.VALID if checksum else EntryState.NO_CHECKSUM]
    assert walk_metadata(batch_of([new]))[Meta.BROKER_INDEX].tolist() == [9]


def test_tags_with_more_bytes_than_they_need_keep_them():
    head = metadata().SerializeToString() + b"\xb0\x81\x00" + varint(1) + b"\xb8\x81\x80\x00" + varint(7)
    (new,) = transformed(settle(plain=[0]), [frame(head, b"value")])
    table = walk_metadata(batch_of([new]))
    assert table[Meta.STATUS].tolist() == [Status.VALID]
    assert table[[Meta.TRANSACTION_LEAST, Meta.TRANSACTION_MOST], 0].tolist() == [ABSENT, ABSENT]
    assert parts_of(new)[1].endswith(b"\xb0\xfe\x00\x01\xb8\xfe\x80\x00\x07")


def test_a_field_that_is_there_twice_is_renamed_twice():
    head = metadata(**IN_TRANSACTION).SerializeToString() + b"\xb0\x01\x05"
    (new,) = transformed(settle(plain=[0]), [frame(head, b"value")])
    assert transaction_of(new) is None
    assert not meta_of(new).HasField("transaction_least")


def test_a_batch_without_transactions_is_passed_on_as_it_is():
    batch = batch_of([frame(metadata(), b"value")], 4)
    assert list(settle([1], [9])(batch, 4)) == [batch]
    (moved,) = settle()(batch, 7)
    assert [(entry, bytes(data)) for entry, data in moved] == [(7, bytes(next(iter(batch))[1]))]


@for_each(
    ("entry", "told", "reason"),
    [
        (metadata(**IN_TRANSACTION), settle(), "not told"),
        (metadata(**IN_TRANSACTION), settle([3], [3]), "told twice"),
        (metadata(), settle(plain=[3]), "no message of a transaction"),
        (metadata(marker_type=ABORT, **IN_TRANSACTION), settle([3]), "no message of a transaction"),
        (metadata(transaction_most=7), settle([3]), "no message of a transaction"),
    ],
)
def test_what_was_told_of_another_ledger_is_refused(entry, told, reason):
    batch = batch_of([frame(metadata(), b"before"), frame(entry, b"value")], 2)
    with pytest.raises(RefusedLedgerError, match=reason) as caught:
        list(told(batch, 2))
    assert caught.value.key == "entry 3"


def test_a_damaged_entry_is_not_passed_on():
    entry = bytearray(frame(metadata(**IN_TRANSACTION), b"value"))
    entry[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        transformed(settle(plain=[0]), [bytes(entry)])

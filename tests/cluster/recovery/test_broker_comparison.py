"""What a broker sends of a restored topic, compared with the bucket: every way in which it can be wrong is counted by its name."""

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import CorruptMessageError, EntryRangeError
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    BrokerMetadataRecord,
    EncryptionKey,
    MessageMetadataRecord,
)
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.recovery.checking.comparison import (
    MessagePlace,
    TopicComparison,
    compare_topic,
    expected_messages,
)
from tests.cluster.support.served_topics import ClientId, Entry, Served, ServedTopics, served
from tests.support.each import for_each
from tests.support.entries import TOPIC, batched, frame, metadata
from tests.support.ledgers import Offload, offload, put_in_folder

MARKERS = {(5, 3), (5, 29), (9, 0), (9, 29)}
ABORTED = {(5, 1), (9, 14), (9, 28)}
HIDDEN = MARKERS | ABORTED
LEDGERS = (2, 5, 9)
COUNT = 30


def stored(ledger: int, entry: int) -> bytes:
    """Return an entry, of whichever kind its place is for."""
    if (ledger, entry) in MARKERS:
        return frame(metadata(marker_type=22, transaction_most=1, transaction_least=entry), b"")
    payload = b"%d:%d " % (ledger, entry) * (1 + entry)
    if (ledger, entry) in ABORTED:
        return frame(metadata(transaction_most=1, transaction_least=7), payload)
    if entry % 5 == 0:
        singles = [BatchedMetadataRecord(key=b"k%d" % one, event_time_ms=one) for one in range(3)]
        return batched([(single, payload) for single in singles], sequence_id=entry)
    return frame(
        metadata(sequence_id=entry), payload, broker=BrokerMetadataRecord(last_index=entry) if entry % 2 else None
    )


ENTRIES: list[Entry] = [(ledger, entry, stored(ledger, entry)) for ledger in LEDGERS for entry in range(COUNT)]
SENT = [message.at for one in ENTRIES if one[:2] not in HIDDEN for message in served(one)]
SENT_PLACES = [MessagePlace(*one) for one in SENT]
EXPECTED = len(SENT)
ABORTED_BY_LEDGER = {ledger: np.array([entry for one, entry in sorted(ABORTED) if one == ledger]) for ledger in (5, 9)}


def offloads(block_size: int = 4096) -> list[Offload]:
    return [
        offload([stored(ledger, entry) for entry in range(COUNT)], ledger, block_size=block_size, uuid=ledger)
        for ledger in LEDGERS
    ]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return open_bucket(put_in_folder(tmp_path_factory.mktemp("tier"), *offloads()))


def broker_of(entries: list[Entry] = ENTRIES, **options: object) -> ServedTopics:
    """Return brokers that serve what they should: none of those that are hidden."""
    return ServedTopics({TOPIC: entries}, **{"hidden": set(HIDDEN), **options})  # type: ignore[arg-type]


def compared(bucket: Bucket, broker: ServedTopics, **options: object) -> TopicComparison:
    given = {"hidden": ABORTED_BY_LEDGER, **options}
    return compare_topic(broker, TOPIC, bucket.topic(TOPIC).ledgers, **given)  # type: ignore[arg-type]


def place(ledger: int, entry: int, index: int = -1) -> MessagePlace:
    return MessagePlace(ledger, entry, index)


def of(position: tuple[int, int], change: Callable[[Served], list[Served]]) -> Callable[[Served], list[Served]]:
    """Return what spoils the messages of one entry."""
    return lambda one: change(one) if one.at[:2] == position else [one]


def test_all_that_the_bucket_has_came(bucket: Bucket) -> None:
    assert compared(bucket, broker_of()) == TopicComparison(Counter(same=EXPECTED), {"same": SENT_PLACES[:10]})


@pytest.mark.parametrize(
    "change",
    [{"value": b"?"}, {"published": 3}, {"event": 7}, {"key": "other"}, {"named": {"a": "b"}}],
    ids=lambda one: next(iter(one)),
)
def test_whatever_is_another_is_found(bucket: Bucket, change: dict[str, object]) -> None:
    broker = broker_of(spoil=of((5, 17), lambda one: [replace(one, **change)]))  # type: ignore[arg-type]
    found = compared(bucket, broker)
    assert found.first["differing"] == [place(5, 17)]
    assert found.counts == {"same": EXPECTED - 1, "differing": 1}


def test_a_message_that_comes_twice_is_reported(bucket: Bucket) -> None:
    found = compared(bucket, broker_of(spoil=of((5, 17), lambda one: [one, one])))
    assert (found.counts, found.first["repeated"]) == ({"same": EXPECTED, "repeated": 1}, [place(5, 17)])
    assert not found.is_whole


def test_messages_out_of_order_are_reported(bucket: Bucket) -> None:
    held: list[Served] = []

    def swap(one: Served) -> list[Served]:
        if one.at[:2] == (5, 17):
            held.append(one)
            return []
        return [one, held.pop()] if held else [one]

    found = compared(bucket, broker_of(spoil=swap))
    assert (found.first["repeated"], found.first["missing"]) == ([place(5, 17)],) * 2


def test_ledgers_and_entries_that_the_bucket_does_not_have(bucket: Bucket) -> None:
    places = ((1, 0), (4, 7), (9, 30), (10, 0), (12, 0))
    found = compared(bucket, broker_of(sorted([*ENTRIES, *((*one, frame(metadata(), b"x")) for one in places)])))
    assert found.first["unexpected"] == [place(1, 0), place(4, 7), place(9, 30)]
    assert found.counts == {"same": EXPECTED, "unexpected": 3, "appended": 2}


def test_producers_that_go_on_are_not_followed_for_ever(bucket: Bucket) -> None:
    later = frame(metadata(publish_time_ms=1 << 42), b"x")
    found = compared(bucket, broker_of([*ENTRIES, (11, 0, frame(metadata(), b"x")), (11, 1, later), (11, 2, later)]))
    assert (found.counts["appended"], found.is_whole) == (1, True)


def test_a_topic_that_reads_as_empty_lacks_everything(bucket: Bucket) -> None:
    """As one whose ledgers have ids that BookKeeper has not given yet."""
    found = compared(bucket, broker_of([]))
    assert (found.expected, found.counts, found.is_silent) == (EXPECTED, {"missing": EXPECTED}, False)
    assert len(found.first["missing"]) == 10


def test_behind_an_entry_that_brokers_cannot_read_all_is_missing(bucket: Bucket) -> None:
    found = compared(bucket, broker_of(stuck={(5, 10)}))
    behind = [one for one in SENT if one[:2] >= (5, 10)]
    assert found.counts == {"same": EXPECTED - len(behind), "missing": len(behind)}
    assert found.first["missing"] == [MessagePlace(*one) for one in behind[:10]]
    assert (found.is_silent, found.is_whole) == (True, False)


@for_each("last", [Position(5, 4), Position(9, 29)])
def test_what_brokers_call_the_last_entry_may_be_before_the_end_or_a_marker(bucket: Bucket, last: Position) -> None:
    found = compared(bucket, broker_of(last=last))
    assert (found.is_whole, found.is_silent) == (True, False)


NEW_IDS = {2: 101, 5: 102, 9: 200}


def test_ledgers_under_other_ids(bucket: Bucket) -> None:
    renamed = [(NEW_IDS[ledger], entry, data) for ledger, entry, data in ENTRIES]
    hidden = {(NEW_IDS[ledger], entry) for ledger, entry in HIDDEN}
    broker = broker_of(renamed, hidden=hidden, spoil=of((200, 27), lambda _: []))
    found = compared(bucket, broker, ids=NEW_IDS)
    assert (found.counts, found.first["missing"]) == ({"same": EXPECTED - 1, "missing": 1}, [place(200, 27)])


def test_ledgers_have_to_be_in_order(bucket: Bucket) -> None:
    broker = broker_of()
    with pytest.raises(EntryRangeError):
        compared(bucket, broker, ids={2: 6})
    with pytest.raises(EntryRangeError):
        compare_topic(broker, TOPIC, bucket.topic(TOPIC).ledgers[::-1], {})


def test_a_damaged_ledger_of_the_bucket_is_an_error_and_no_difference(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, *offloads())
    (data,) = tmp_path.glob("*-ledger-5")
    whole = bytearray(data.read_bytes())
    whole[130:160] = bytes(30)
    data.write_bytes(whole)
    with pytest.raises(CorruptMessageError):
        compared(open_bucket(url), broker_of())


# Messages that a client has otherwise.


def compared_entries(folder: Path, entries: list[bytes], sent: list[Served]) -> TopicComparison:
    """Compare one ledger, of which such messages come."""
    folder.mkdir()
    bucket = open_bucket(put_in_folder(folder, offload(entries)))
    by_place = {one.at[:2]: one for one in sent}
    broker = ServedTopics({TOPIC: [(1, number, one) for number, one in enumerate(entries)]})
    broker.spoil = lambda one: [by_place[one.at[:2]]] if one.at[:2] in by_place else []
    return compared(bucket, broker, hidden={})


def test_keys_that_are_bytes_properties_that_come_twice_and_null(tmp_path: Path) -> None:
    twice = metadata(key=b"aGk=", key_is_base64=True)
    for value in (b"1", b"2"):
        twice.property.add(key=b"a", value=value)
    entries = [frame(twice, b"v"), frame(metadata(value_is_null=True, key=b"k"))]
    sent = [
        Served(ClientId(1, 0, -1), b"v", 2, key="aGk=", named={"a": "1"}),
        Served(ClientId(1, 1, -1), b"", 2, key="k"),
    ]
    assert compared_entries(tmp_path / "1", entries, sent).is_whole
    sent[0] = replace(sent[0], named={"a": "3"})
    assert compared_entries(tmp_path / "2", entries, sent).first["differing"] == [place(1, 0)]


def test_a_chunked_message_is_where_its_last_part_is(tmp_path: Path) -> None:
    def part(number: int) -> bytes:
        return frame(metadata(chunked_id=b"c", chunks=3, chunk=number, chunked_size=6), b"%d-" % number)

    entries = [part(0), frame(metadata(), b"between"), part(1), part(2)]
    sent = [Served(ClientId(1, 1, -1), b"between", 2), Served(ClientId(1, 3, -1), b"0-1-2-", 2)]
    found = compared_entries(tmp_path / "1", entries, sent)
    assert (found.counts, found.is_silent) == ({"same": 2}, False)


def test_encrypted_messages_are_compared_as_they_are(tmp_path: Path) -> None:
    def sealed(payload: bytes, **more: object) -> bytes:
        meta: MessageMetadataRecord = metadata(encryption_iv=b"i" * 12, **more)
        meta.encryption_key.append(EncryptionKey(name=b"k", wrapped=b"w"))
        return frame(meta, payload)

    entries = [sealed(b"one", messages_in_batch=3, compression=1), frame(metadata(), b"plain"), sealed(b"two")]
    sent = [message for number, one in enumerate(entries) for message in served((1, number, one))]
    assert [one.value for one in sent] == [b"one", b"plain", b"two"]
    assert compared_entries(tmp_path / "1", entries, sent).counts == {"same": 3}
    sent[0] = replace(sent[0], value=b"won")
    assert compared_entries(tmp_path / "2", entries, sent).first["differing"] == [place(1, 0)]


def test_what_the_client_drops_is_counted_and_no_loss(tmp_path: Path) -> None:
    """It cannot decompress nothing with zlib: not even what its own producer made of that."""
    empty = [frame(metadata(compression=2, uncompressed_size=0), one) for one in (b"", zlib.compress(b""))]
    sent = Served(ClientId(1, 0, -1), b"plain", 2)
    entries = [frame(metadata(), b"plain"), *empty]
    found = compared_entries(tmp_path / "1", entries, [sent])
    assert (found.counts, found.is_whole, found.is_silent) == ({"same": 1, "not_compared": 2}, True, False)
    found = compared_entries(tmp_path / "3", entries, [sent, Served(ClientId(1, 2, -1), b"?", 2)])
    assert found.counts == {"same": 1, "differing": 1, "not_compared": 1}


# Whatever is wrong at once.


class Doings(NamedTuple):
    """What a broker does to an entry, whenever it sends it."""

    omitted: set[ClientId]
    changed: set[ClientId]
    hidden_sent: set[tuple[int, int]]


PLACES = st.sampled_from(SENT)


@pytest.mark.long
@settings(max_examples=30)
@given(
    st.builds(
        Doings,
        st.sets(PLACES, max_size=4),
        st.sets(PLACES, max_size=4),
        st.sets(st.sampled_from(sorted(HIDDEN)), max_size=3),
    )
)
def test_all_that_is_wrong_is_reported_at_once(bucket: Bucket, doings: Doings) -> None:
    def spoil(one: Served) -> list[Served]:
        if one.at in doings.omitted:
            return []
        return [replace(one, value=b"?")] if one.at in doings.changed else [one]

    found = compared(bucket, broker_of(hidden=HIDDEN - doings.hidden_sent, spoil=spoil))
    differing = doings.changed - doings.omitted
    wrong = {"missing": doings.omitted, "differing": differing, "unexpected": doings.hidden_sent}
    assert {kind: found.first.get(kind, []) for kind in wrong} == {kind: named(one) for kind, one in wrong.items()}
    assert +found.counts == +Counter(
        {"same": EXPECTED - len(doings.omitted | differing), **{kind: len(one) for kind, one in wrong.items()}}
    )
    assert (found.is_silent, found.expected) == (False, EXPECTED)


def named(places: set[tuple[int, int]] | set[ClientId]) -> list[MessagePlace]:
    return [MessagePlace(*one) for one in sorted(places)]


# What Pulsar wrote.


@pytest.mark.long
def test_topics_of_the_golden_bucket(golden_url: str) -> None:
    """Of each topic a client gets as many messages as there are, in their order; those that are encrypted as entries."""
    bucket = open_bucket(golden_url)
    topics = [bucket.topic(info.name) for info in bucket.topics()]
    for topic in topics:
        for partition in topic.partitions or [topic]:
            ids = [one.ref.ledger_id for one in partition.ledgers]
            found = [one.place for one in expected_messages(partition.name, partition.ledgers, {}, ids)]
            assert found == sorted(set(found))
            assert (
                len(found)
                == partition.scan(columns=["value"], transactions="all", on_encrypted="null").to_arrow().num_rows
            )
    assert len(topics) > 10

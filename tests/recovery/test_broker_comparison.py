"""What a broker sends of a restored topic, compared with the bucket: every way in which it can be wrong is counted by its name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import CorruptLedgerError, EntryRangeError, NotFoundError
from ledgerfs.formats.broker_protocol.commands import EARLIEST, Command
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, BrokerMetadataRecord
from ledgerfs.recovery.checking.comparison import Found, TopicComparison, compare_topic
from ledgerfs.storage import retries
from ledgerfs.storage.broker_protocol.service import BrokerService
from tests.support.entries import TOPIC, batched, frame, metadata, varint
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.reader_broker import Entry, ReaderBroker, serving_entries

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
        return batched([(BatchedMetadataRecord(), payload)] * 3, sequence_id=entry)
    return frame(
        metadata(sequence_id=entry), payload, broker=BrokerMetadataRecord(last_index=entry) if entry % 2 else None
    )


ENTRIES: list[Entry] = [(ledger, entry, stored(ledger, entry)) for ledger in LEDGERS for entry in range(COUNT)]
SENT = [(ledger, entry, data) for ledger, entry, data in ENTRIES if (ledger, entry) not in HIDDEN]
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


@pytest.fixture(autouse=True, scope="module")
def _tried_again_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "_FIRST_DELAY", 0.001)
        yield


@contextmanager
def broker_of(entries: list[Entry] = ENTRIES, **options: object) -> Iterator[ReaderBroker]:
    """Serve what a broker serves: entries without what it wrote in front of them, and none of those that are hidden."""
    bare = [(ledger, entry, without_front(data)) for ledger, entry, data in entries]
    with serving_entries({TOPIC: bare}, **{"hidden": set(HIDDEN), **options}) as broker:
        yield broker


def without_front(entry: bytes) -> bytes:
    return entry[6 + int.from_bytes(entry[2:6], "big") :] if entry[:2] == b"\x0e\x02" else entry


def compared(bucket: Bucket, broker: ReaderBroker, **options: object) -> TopicComparison:
    service = BrokerService.at(broker.url, silence_s=0.05, patience_s=0.1)
    given = {"hidden": ABORTED_BY_LEDGER, **options}
    return compare_topic(service, TOPIC, bucket.topic(TOPIC).ledgers, **given)  # type: ignore[arg-type]


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_all_that_the_bucket_has_came(bucket: Bucket) -> None:
    with broker_of() as broker:
        found = compared(bucket, broker)
    nothing = Found()
    assert found == TopicComparison(
        TOPIC, EXPECTED, EXPECTED, nothing, nothing, nothing, nothing, 0, is_sample=False, is_silent=False
    )
    assert found.is_whole


def test_what_a_broker_wrote_in_front_is_compared_where_it_sends_it(bucket: Bucket) -> None:
    with serving_entries({TOPIC: ENTRIES}, hidden=set(HIDDEN)) as broker:
        assert compared(bucket, broker).is_whole
    other = [
        (ledger, entry, data[:7] + b"\x63" + data[8:] if data[:2] == b"\x0e\x02" else data)
        for ledger, entry, data in ENTRIES
    ]
    with serving_entries({TOPIC: other}, hidden=set(HIDDEN)) as broker:
        assert compared(bucket, broker).differing.count == sum(data[:2] == b"\x0e\x02" for _, _, data in SENT)


def test_an_entry_that_is_not_sent_is_missing(bucket: Bucket) -> None:
    with broker_of(spoil=lambda one: [] if one[1] in {4, 29} else [one]) as broker:
        found = compared(bucket, broker)
    assert found.missing == Found(4, (Position(2, 4), Position(2, 29), Position(5, 4), Position(9, 4)))
    assert (found.expected, found.same, found.is_whole, found.is_silent) == (EXPECTED, EXPECTED - 4, False, False)


def test_a_byte_that_is_another_is_found(bucket: Bucket) -> None:
    with broker_of(spoil=lambda one: [(*one[:2], changed(one[2])) if one[:2] == (5, 17) else one]) as broker:
        found = compared(bucket, broker)
    assert found.differing == Found(1, (Position(5, 17),))
    assert (found.expected, found.same, found.missing.count) == (EXPECTED, EXPECTED - 1, 0)


def test_an_entry_that_comes_twice_is_told(bucket: Bucket) -> None:
    with broker_of(spoil=lambda one: [one, one] if one[:2] == (5, 17) else [one]) as broker:
        found = compared(bucket, broker)
    assert found.repeated == Found(1, (Position(5, 17),))
    assert (found.same, found.is_whole) == (EXPECTED, False)


def test_entries_out_of_order_are_told(bucket: Bucket) -> None:
    held: list[Entry] = []

    def swap(one: Entry) -> list[Entry]:
        if one[:2] == (5, 17):
            held.append(one)
            return []
        return [one, held.pop()] if held else [one]

    with broker_of(spoil=swap) as broker:
        found = compared(bucket, broker)
    assert (found.repeated, found.missing) == (Found(1, (Position(5, 17),)),) * 2


def test_hidden_ones_that_are_sent_are_unexpected(bucket: Bucket) -> None:
    with broker_of(hidden={(9, 29)}) as broker:
        found = compared(bucket, broker)
    assert found.unexpected == Found(6, tuple(Position(*one) for one in sorted(HIDDEN - {(9, 29)})))
    assert (found.same, found.appended) == (EXPECTED, 0)


def test_ledgers_and_entries_that_the_bucket_does_not_have(bucket: Bucket) -> None:
    more = sorted(
        [*ENTRIES, (1, 0, b"before"), (4, 7, b"between"), (9, 30, b"behind"), (10, 0, b"new"), (12, 0, b"newer")]
    )
    with broker_of(more) as broker:
        found = compared(bucket, broker)
    assert found.unexpected == Found(3, (Position(1, 0), Position(4, 7), Position(9, 30)))
    assert (found.same, found.appended, found.is_whole) == (EXPECTED, 2, False)


def test_what_producers_appended_is_no_difference(bucket: Bucket) -> None:
    with broker_of([*ENTRIES, *((11, entry, b"new") for entry in range(5))]) as broker:
        found = compared(bucket, broker)
    assert (found.appended, found.is_whole) == (5, True)


def test_a_topic_that_reads_as_empty_lacks_everything(bucket: Bucket) -> None:
    """As one whose ledgers have ids that BookKeeper has not given yet."""
    with broker_of([]) as broker:
        found = compared(bucket, broker)
    assert (found.expected, found.missing.count, found.is_silent) == (EXPECTED, EXPECTED, False)
    assert len(found.missing.first) == 10


def test_a_ledger_that_brokers_cannot_read_hides_no_other_one(bucket: Bucket) -> None:
    with broker_of(stuck={(5, 10)}) as broker:
        found = compared(bucket, broker)
    behind = [one[:2] for one in SENT if (5, 10) <= one[:2] < (9, 0)]
    assert (found.same, found.missing.count) == (EXPECTED - len(behind), len(behind))
    assert found.missing.first == named(set(behind[:10]))
    assert (found.is_silent, found.is_whole) == (True, False)
    assert broker.subscribed == [EARLIEST, (9, 0)]


def test_a_broker_that_sends_nothing_at_all_is_not_asked_for_every_ledger(tmp_path: Path) -> None:
    ledgers = [offload([stored(2, 1)], ledger, uuid=ledger) for ledger in range(1, 20)]
    bucket = open_bucket(put_in_folder(tmp_path, *ledgers))
    entries = [(ledger, 0, stored(2, 1)) for ledger in range(1, 20)]
    with broker_of(entries, stuck={one[:2] for one in entries}, hidden=set()) as broker:
        found = compared(bucket, broker, hidden={})
    assert (found.missing.count, found.is_silent) == (19, True)
    assert broker.subscribed == [EARLIEST, (2, 0), (3, 0)]


def test_the_end_of_a_compacted_topic_is_before_its_last_entry(bucket: Bucket) -> None:
    with broker_of(last=Position(5, 4)) as broker:
        found = compared(bucket, broker)
    assert (found.is_whole, found.is_silent) == (True, False)


def test_markers_at_the_end_that_the_broker_calls_its_last_entry(bucket: Bucket) -> None:
    with broker_of(last=Position(9, 29)) as broker:
        found = compared(bucket, broker)
    assert (found.is_whole, found.is_silent) == (True, True)


def test_a_topic_that_is_not_there(bucket: Bucket) -> None:
    with serving_entries({}) as broker, pytest.raises(NotFoundError):
        compared(bucket, broker)


def settled(ledger: int, entry: int, tags: tuple[int, int]) -> bytes:
    head = metadata(sequence_id=entry).SerializeToString() + b"".join(varint(tag << 3) + varint(5) for tag in tags)
    return frame(head, b"%d" % ledger * 20)


def test_settled_copies_of_committed_entries_are_the_same(tmp_path: Path) -> None:
    originals = [settled(1, entry, (22, 23)) for entry in range(20)]
    bucket = open_bucket(put_in_folder(tmp_path, offload(originals)))
    copies = [(1, entry, settled(1, entry, (33, 34))) for entry in range(20)]
    with serving_entries({TOPIC: copies}) as broker:
        assert compared(bucket, broker, hidden={}).is_whole
    with serving_entries({TOPIC: [(1, entry, settled(2, entry, (33, 34))) for entry in range(20)]}) as broker:
        assert compared(bucket, broker, hidden={}).differing.count == 20


NEW_IDS = {2: 101, 5: 102, 9: 200}


@pytest.mark.parametrize("sample", [None, 10])
def test_ledgers_under_other_ids(bucket: Bucket, sample: int | None) -> None:
    renamed = [(NEW_IDS[ledger], entry, data) for ledger, entry, data in ENTRIES]
    hidden = {(NEW_IDS[ledger], entry) for ledger, entry in HIDDEN}
    with broker_of(renamed, hidden=hidden, spoil=lambda one: [one] if one[:2] != (200, 27) else []) as broker:
        found = compared(bucket, broker, ids=NEW_IDS, sample=sample)
    assert found.missing == Found(1, (Position(200, 27),))
    assert found.same == found.expected - 1


def test_ledgers_have_to_be_in_order(bucket: Bucket) -> None:
    with broker_of() as broker:
        with pytest.raises(EntryRangeError):
            compared(bucket, broker, ids={2: 6})
        with pytest.raises(EntryRangeError):
            compare_topic(BrokerService.at(broker.url), TOPIC, bucket.topic(TOPIC).ledgers[::-1], {})
        assert broker.connects == []


def test_a_damaged_ledger_of_the_bucket_is_an_error_and_no_difference(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, *offloads())
    (data,) = tmp_path.glob("*-ledger-5")
    whole = bytearray(data.read_bytes())
    whole[130:160] = bytes(30)
    data.write_bytes(whole)
    with broker_of() as broker, pytest.raises(CorruptLedgerError):
        compared(open_bucket(url), broker)


# Connections that break, and what is wrong besides.


class Doings(NamedTuple):
    """What a broker does to an entry, whenever it sends it."""

    omitted: set[tuple[int, int]]
    changed: set[tuple[int, int]]
    hidden_sent: set[tuple[int, int]]
    closes: list[int]


PLACES = st.sampled_from([one[:2] for one in SENT])


@pytest.mark.long
@settings(max_examples=30)
@given(
    st.builds(
        Doings,
        st.sets(PLACES, max_size=4),
        st.sets(PLACES, max_size=4),
        st.sets(st.sampled_from(sorted(HIDDEN)), max_size=3),
        st.lists(st.integers(1, 60), max_size=4),
    )
)
def test_however_often_connections_break_the_same_is_told(bucket: Bucket, doings: Doings) -> None:
    def spoil(one: Entry) -> list[Entry]:
        if one[:2] in doings.omitted:
            return []
        return [(*one[:2], changed(one[2]))] if one[:2] in doings.changed else [one]

    hidden = HIDDEN - doings.hidden_sent
    with broker_of(hidden=hidden, spoil=spoil, closes_after=[*doings.closes]) as broker:
        found = compared(bucket, broker)
    differing = doings.changed - doings.omitted
    assert (found.missing.first, found.missing.count) == (named(doings.omitted), len(doings.omitted))
    assert (found.differing.first, found.differing.count) == (named(differing), len(differing))
    assert (found.unexpected.first, found.unexpected.count) == (named(doings.hidden_sent), len(doings.hidden_sent))
    assert (found.repeated, found.appended, found.expected) == (Found(), 0, EXPECTED)


def named(places: set[tuple[int, int]]) -> tuple[Position, ...]:
    return tuple(Position(*one) for one in sorted(places))


# Samples.


def test_a_sample_is_the_first_the_last_and_some_others(bucket: Bucket) -> None:
    with broker_of() as broker:
        found = compared(bucket, broker, sample=8)
        places = list(broker.subscribed)
        again = compared(bucket, broker, sample=8)
        assert broker.subscribed == places * 2
        other = compared(bucket, broker, sample=8, seed=1)
        assert broker.subscribed[2 * len(places) :] != places
    assert found == again
    assert (places[0], places[-1]) == ((2, 0), (9, 27))
    assert places == sorted(set(places))
    assert not HIDDEN & set(places)
    assert 8 <= found.expected == found.same == len(places) <= 10
    assert (found.appended, found.is_sample, other.is_whole) == (None, True, True)
    assert broker.asked[Command.CONNECT] == 3


def test_a_sample_of_everything_finds_what_is_wrong(bucket: Bucket) -> None:
    def spoil(one: Entry) -> list[Entry]:
        if one[:2] == (9, 27):
            return []
        return [(*one[:2], changed(one[2]))] if one[:2] == (2, 7) else [one]

    with broker_of(spoil=spoil, closes_after=[1, 1]) as broker:
        found = compared(bucket, broker, sample=1000)
    assert (found.expected, found.same) == (EXPECTED, EXPECTED - 2)
    assert (found.differing.first, found.missing.first) == ((Position(2, 7),), (Position(9, 27),))


def test_a_sample_of_which_nothing_comes_is_not_waited_for_each_time(bucket: Bucket) -> None:
    with broker_of(stuck={one[:2] for one in SENT}) as broker:
        found = compared(bucket, broker, sample=10)
    assert len(broker.subscribed) == 3
    assert found.expected == found.missing.count >= 10
    assert found.is_silent


def test_a_sample_of_a_topic_in_which_nothing_is_sent(tmp_path: Path) -> None:
    markers = [frame(metadata(marker_type=22), b"") for _ in range(600)]
    bucket = open_bucket(put_in_folder(tmp_path, offload(markers, block_size=1 << 16)))
    with serving_entries({TOPIC: []}) as broker:
        found = compared(bucket, broker, hidden={}, sample=5)
    assert (found.expected, found.is_whole) == (0, True)


def test_no_ledgers_at_all() -> None:
    with broker_of([(1, 0, b"new")]) as broker:
        service = BrokerService.at(broker.url, silence_s=0.05, patience_s=0.1)
        assert compare_topic(service, TOPIC, [], {}).appended == 1
        assert compare_topic(service, TOPIC, [], {}, sample=3).expected == 0


# What Pulsar wrote.


@pytest.mark.long
def test_topics_of_the_golden_bucket(golden_url: str) -> None:
    bucket = open_bucket(golden_url)
    topics = {info.name: bucket.topic(info.name) for info in bucket.topics()}
    served: Mapping[str, list[Entry]] = {
        name: [
            (ledger.ref.ledger_id, entry.id, bytes(entry.data))
            for ledger in topic.ledgers
            for entry in ledger.read(ledger.first_entry, ledger.last_entry)
        ]
        for name, topic in topics.items()
        if not topic.is_partitioned
    }
    with serving_entries(dict(served)) as broker:
        service = BrokerService.at(broker.url)
        for name in served:
            found = compare_topic(service, name, topics[name].ledgers, {})
            # This broker sends markers as well.
            assert found.same + found.unexpected.count == len(served[name])
            assert (found.differing, found.missing, found.repeated) == (Found(), Found(), Found())
    assert len(served) > 10

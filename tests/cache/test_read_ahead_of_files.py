"""Reads of remote ledgers: as many requests and bytes as promised, the right bytes in any order, windows that open and close."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from ledgerfs.cache import read_ahead
from ledgerfs.cache.object_reader import ObjectReader
from ledgerfs.scan.topic_entries import Reach, read_entries
from tests.support.children import is_true_in_child
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.remote import RemoteFolder, remote_ledger

MIB = 1 << 20


@pytest.fixture(scope="module")
def made() -> Offload:
    """40 MiB in blocks of 10 MiB, 1 KiB an entry, each with its id in it."""
    return offload([i.to_bytes(4, "big") * 256 for i in range(40_000)], block_size=10 * MIB)


@pytest.fixture(scope="module")
def url(made: Offload, tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in_folder(tmp_path_factory.mktemp("large"), made)


def overlaps(store: RemoteFolder) -> bool:
    asked = sorted((request.start, request.end) for request in store.data_requests)
    return any(before[1] > behind[0] for before, behind in pairwise(asked))


def test_a_file_read_from_start_to_end_asks_for_each_byte_once(url: str, made: Offload) -> None:
    ledger, store = remote_ledger(url)
    file = ledger.records()
    at, found = 0, []
    while at < file.size:
        found.append(file.read(at, min(at + MIB, file.size)))
        at += MIB
    assert b"".join(found) == made.records
    tails = [request for request in store.data_requests if request.end - request.start <= 64 << 10]
    assert len(tails) <= 2 * len(ledger.index.blocks)
    assert not overlaps(store)
    assert store.bytes_asked <= 1.03 * ledger.ref.object("data").size


def test_ranges_ask_for_little_else_near_ones_together(url: str, made: Offload) -> None:
    ledger, store = remote_ledger(url)
    ledger.block_map  # type: ignore[attr-defined]  # noqa: B018
    store.clear()
    ranges = [(5_000_000, 5_000_100), (5_010_000, 5_020_000), (30_000_000, 30_000_001), (7, 7)]
    assert ledger.records().read_ranges(ranges) == [made.records[start:end] for start, end in ranges]
    assert len(store.data_requests) == 2
    assert store.bytes_asked == 20_000 + 1


def test_any_sequence_of_reads_gives_the_bytes_of_the_file(url: str, made: Offload) -> None:
    ledger, _ = remote_ledger(url)
    rnd = random.Random(3)
    sizes = (1, 1, 100, 100, 70_000, 70_000, MIB, MIB, 9 * MIB, 20 * MIB)
    for _ in range(3):
        file = ledger.records()
        at = 0
        for _ in range(60):
            kind = rnd.random()
            if kind < 0.2:
                at = rnd.randrange(file.size)
            elif kind < 0.3:
                at = min(file.size, at + rnd.randrange(3 * MIB))
            elif kind < 0.4:
                at = max(0, at - rnd.randrange(2 * MIB))
            end = min(file.size, at + rnd.choice(sizes))
            if rnd.random() < 0.5:
                assert file.read(at, end) == made.records[at:end]
            else:
                buffer = bytearray(end - at)
                file.read_into(at, memoryview(buffer))
                assert buffer == made.records[at:end]
            at = end


def test_threads_on_one_file_all_get_their_bytes(url: str, made: Offload) -> None:
    ledger, _ = remote_ledger(url, budget=8 * MIB)
    file = ledger.records()

    def work(seed: int) -> bool:
        rnd = random.Random(seed)
        for i in range(30):
            start = i * MIB if seed % 2 else rnd.randrange(file.size)
            end = min(file.size, start + rnd.randrange(1, MIB))
            if file.read(start, end) != made.records[start:end]:
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))


def test_reading_elsewhere_twice_ends_what_is_under_way(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = 256 << 10
    monkeypatch.setattr(read_ahead, "PART_BYTES", part)
    monkeypatch.setattr(read_ahead, "_FIRST_PARTS", ())
    ledger, store = remote_ledger(url)
    reader = ObjectReader(ledger.store, ledger.ref.object("data"), 0, ledger.ref.object("data").size)
    for number in range(6):
        reader.read(number * part, (number + 1) * part)
    store.at_once = False
    store.clear()
    # This one is here already; its successors begin.
    reader.read(6 * part, 7 * part)
    under_way = list(store.futures)
    assert under_way
    store.at_once = True
    for at in (39 * MIB, 38 * MIB):
        assert not any(future.cancelled() for future in under_way)
        reader.read(at, at + 10)
    assert all(future.cancelled() for future in under_way)


def test_one_entry_far_from_everything_known_costs_its_block_up_to_there(url: str) -> None:
    for entry in random.Random(1).sample(range(40_000), 10):
        ledger, store = remote_ledger(url)
        start = ledger.places.before(entry)  # type: ignore[attr-defined]
        store.clear()
        ((_, data),) = ledger.read(entry, entry)
        assert bytes(data) == entry.to_bytes(4, "big") * 256
        assert len(store.data_requests) <= 4
        assert store.bytes_asked <= (entry + 1 - start.entry) * 1036 + 3 * MIB
        assert not overlaps(store)


def test_the_second_visit_nearby_costs_one_small_read_and_what_is_kept_none(url: str) -> None:
    ledger, store = remote_ledger(url, budget=0)
    ledger.read(15_000, 15_000)
    for entry in (15_000, 15_040, 14_950, 12_345):
        store.clear()
        ((_, data),) = ledger.read(entry, entry)
        assert bytes(data) == entry.to_bytes(4, "big") * 256
        assert len(store.data_requests) == 1
        assert store.bytes_asked <= 64 << 10
    ledger, store = remote_ledger(url)
    ledger.read(15_000, 15_000)
    store.clear()
    ledger.read(15_000, 15_000)
    assert store.data_requests == []


def test_a_place_that_was_learned_wrong_yields_no_wrong_bytes(url: str) -> None:
    ledger, _ = remote_ledger(url)
    ledger.places.learned.learn(20_000, 20_000 * 1036 + 5)  # type: ignore[attr-defined]
    for first, last in ((20_001, 20_001), (19_000, 21_000), (20_000, 20_000)):
        found = ledger.read(first, last)
        assert [bytes(data[:4]) for _, data in found] == [i.to_bytes(4, "big") for i in range(first, last + 1)]


def test_entries_of_all_sizes_are_found(tmp_path: Path) -> None:
    rnd = random.Random(9)
    sizes = [rnd.choice((0, 10, 300, 5_000, 200_000)) for _ in range(600)]
    entries = [i.to_bytes(4, "big") + rnd.randbytes(size) for i, size in enumerate(sizes)]
    url = put_in_folder(tmp_path, offload(entries, block_size=8 * MIB))
    for entry in rnd.sample(range(len(entries)), 30):
        ledger, _ = remote_ledger(url)
        assert bytes(ledger.read(entry, entry)[0].data) == entries[entry]


def test_payloads_that_look_like_records_deceive_nobody(tmp_path: Path) -> None:
    rnd = random.Random(4)

    def false(first: int, count: int) -> bytes:
        return b"".join(
            (1000).to_bytes(4, "big") + (first + i).to_bytes(8, "big") + b"\xff" * 1000 for i in range(count)
        )

    entries = [
        i.to_bytes(4, "big") + (false(rnd.randrange(900), 200) if rnd.random() < 0.05 else b"r" * rnd.randrange(9000))
        for i in range(900)
    ]
    url = put_in_folder(tmp_path, offload(entries, block_size=32 * MIB))
    for entry in range(0, 900, 29):
        ledger, _ = remote_ledger(url)
        assert bytes(ledger.read(entry, entry)[0].data) == entries[entry]


def test_ledgers_of_a_topic_follow_each_other_without_a_pause(tmp_path: Path) -> None:
    for ledger_id in (1, 2, 3):
        put_in_folder(tmp_path, offload([b"x" * 1000] * 5000, ledger_id=ledger_id))
    ledgers, stores = zip(*(remote_ledger(f"file://{tmp_path}", n) for n in (1, 2, 3)), strict=True)
    seen, asked_at_first = 0, 0
    for place, batch in read_entries(ledgers, Reach.of(range(3))):
        seen += len(batch)
        if place.number == 0:
            asked_at_first = len(stores[0].data_requests)
    assert seen == 15_000
    # All go through the first one's store, in which the later ledgers were asked for while the first was read.
    assert {request.key for request in stores[0].data_requests[:asked_at_first]} >= {
        ledger.ref.object("data").key for ledger in ledgers[:2]
    }


def test_a_child_reads_on_in_a_file_that_its_parent_opened(url: str, made: Offload) -> None:
    ledger, _ = remote_ledger(url)
    file = ledger.records()
    for at in range(4):
        file.read(at * MIB, (at + 1) * MIB)
    assert is_true_in_child(lambda: file.read(4 * MIB, 6 * MIB) == made.records[4 * MIB : 6 * MIB])
    assert file.read(4 * MIB, 6 * MIB) == made.records[4 * MIB : 6 * MIB]

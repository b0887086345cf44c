"""Entries by id: found with few requests, checked on the way, never outside the ledger."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError, EntryRangeError
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from tests.support.ledgers import offload, put_in_folder
from tests.support.stores import CountingStore


def counted(url: str, ledger_id: int = 1) -> tuple[LedgerReader, CountingStore]:
    bucket = open_bucket(url)
    store = CountingStore(bucket.store)
    return PulsarLedgerReader(store, bucket.catalog.find(ledger_id)), store


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """24 MiB in blocks of 10 MiB, 1 KiB an entry."""
    entries = [i.to_bytes(4, "big") * 256 for i in range(24_000)]
    return put_in_folder(tmp_path_factory.mktemp("large"), offload(entries, block_size=10 << 20))


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_range_of_entries_is_what_was_written(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    entries = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=80))
    url = put_in_folder(tmp_path_factory.mktemp("made"), offload(entries, block_size=data.draw(st.integers(220, 900))))
    ledger = open_bucket(url).ledger(1)
    for _ in range(4):
        first = data.draw(st.integers(0, len(entries) - 1))
        last = data.draw(st.integers(first, len(entries) - 1))
        found = ledger.read(first, last)
        assert [(entry_id, bytes(entry)) for entry_id, entry in found] == list(enumerate(entries))[first : last + 1]


def test_windows_of_any_size_give_the_same(large: str) -> None:
    ledger, _ = counted(large)
    for first, last in [(0, 23_999), (9_990, 10_400), (23_999, 23_999), (5, 20_000)]:
        found = ledger.read(first, last)
        assert [entry.id for entry in found] == list(range(first, last + 1))
        assert all(entry.data[:4] == entry.id.to_bytes(4, "big") and len(entry.data) == 1024 for entry in found)


def test_an_entry_larger_than_every_window_is_read_whole(tmp_path: Path) -> None:
    entries = [b"a" * 10, b"b" * (20 << 20), b"c" * 10]
    ledger = open_bucket(put_in_folder(tmp_path, offload(entries, block_size=32 << 20))).ledger(1)
    assert [bytes(entry.data) for entry in ledger.read(0, 2)] == entries


def test_the_second_visit_costs_one_small_read(large: str) -> None:
    ledger, store = counted(large)
    ledger.read(9_000, 9_000)
    store.requests.clear()
    (entry,) = ledger.read(9_000, 9_000)
    assert bytes(entry.data) == (9_000).to_bytes(4, "big") * 256
    assert len(store.requests) == 1
    assert store.requests[0].end - store.requests[0].start <= 2 << 20


def test_a_pass_over_a_ledger_reads_no_byte_twice(large: str) -> None:
    ledger, store = counted(large)
    for _ in ledger.batches(0, ledger.last_entry):
        pass
    asked = sorted((request.start, request.end) for request in store.requests if "index" not in request.key)
    assert all(before[1] <= after[0] for before, after in pairwise(asked))
    assert sum(end - start for start, end in asked) <= ledger.ref.object("data").size


def test_batches_are_bounded(large: str) -> None:
    ledger, _ = counted(large)
    assert max(len(batch.buffer) for batch in ledger.batches(0, ledger.last_entry)) <= (8 << 20) + 2048


def test_bytes_outside_the_file_are_refused(tmp_path: Path) -> None:
    ledger = open_bucket(put_in_folder(tmp_path, offload([b"a", b"b", b"c"]))).ledger(1)
    for start, end in [(-1, 1), (0, 40), (5, 4)]:
        with pytest.raises(EntryRangeError):
            ledger.read_records(start, end)


@pytest.mark.parametrize(
    ("at", "with_bytes", "message"),
    [
        (128 + 4, (7).to_bytes(8, "big"), "entry 7 stands where entry 0 should"),
        (128, b"\xff\xff\xff\xff", "impossible length -1"),
        (128, (2**31 - 1).to_bytes(4, "big"), "does not fit its block"),
        (128 + 112, b"\xfe\xdc\xde\xad", "entry 1 has the impossible length"),
    ],
)
def test_damage_is_named_by_object_and_offset(at: int, with_bytes: bytes, message: str, tmp_path: Path) -> None:
    made = offload([b"x" * 100] * 30, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[at : at + len(with_bytes)] = with_bytes
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    ledger = open_bucket(url).ledger(1)
    with pytest.raises(CorruptLedgerError, match=message) as caught:
        ledger.read(0, 29)
    assert caught.value.key == f"{made.uuid}-ledger-1"
    assert caught.value.offset in {128, 128 + 112}
    # The other blocks are as readable as before.
    first = ledger.index.blocks[1].first_entry
    assert [bytes(entry.data) for entry in ledger.read(first, 29)] == [b"x" * 100] * (30 - first)

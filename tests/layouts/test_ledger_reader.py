"""Entries by id, and every record's offset without reading data: found with few requests, checked on the way, never outside the ledger."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError, EntryRangeError
from ledgerfs.formats.pulsar_blob.index import build_index, parse_index
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from tests.support.ledgers import offload, put_in_folder, records_of
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


PADDING = b"\xfe\xdc\xde\xad"

# Entries that end in the padding's pattern, in part of it, or are nothing but padding: what breaks a naive count.
ends = st.sampled_from(
    [b"", PADDING, PADDING * 3, PADDING[:1], PADDING[:3], PADDING[1:], PADDING + PADDING[:2], b"\xfe", b"\xad"]
)
contents = st.lists(st.builds(bytes.__add__, st.binary(max_size=40), ends), min_size=1, max_size=60)


@pytest.mark.long
@settings(deadline=None, max_examples=100)
@given(entries=contents, block_size=st.integers(200, 900), data=st.data())
def test_any_part_of_a_ledger_is_what_was_written(
    entries: list[bytes], block_size: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = offload(entries, block_size=block_size)
    ledger = open_bucket(put_in_folder(tmp_path_factory.mktemp("made"), made)).ledger(1)
    assert ledger.records_size == len(made.records)
    assert records_of(ledger, 0, ledger.records_size) == made.records
    low, high = sorted(data.draw(st.integers(0, len(made.records))) for _ in range(2))
    assert records_of(ledger, low, high) == made.records[low:high]
    for _ in range(3):
        first, last = sorted(data.draw(st.integers(0, len(entries) - 1)) for _ in range(2))
        found = [(entry_id, bytes(entry)) for entry_id, entry in ledger.read(first, last)]
        assert found == list(enumerate(entries))[first : last + 1]


@pytest.mark.parametrize(("size", "block_size", "largest"), [(20_000, 1 << 20, 64 << 10), (3_000_000, 5 << 20, 500)])
def test_the_offsets_of_records_cost_a_small_read_for_each_block(
    size: int, block_size: int, largest: int, tmp_path: Path
) -> None:
    made = offload([b"x" * size] * (20 * block_size // size), block_size=block_size)
    ledger, store = counted(put_in_folder(tmp_path, made))
    blocks = len(ledger.index.blocks)  # type: ignore[attr-defined]
    store.requests.clear()
    assert ledger.block_map.file_starts[-1] == len(made.records)  # type: ignore[attr-defined]
    assert blocks >= 15
    assert len(store.requests) < 3 * blocks
    assert max(one.end - one.start for one in store.requests) <= largest
    assert records_of(ledger, 5_000_000, 7_000_000) == made.records[5_000_000:7_000_000]


def test_an_entry_larger_than_every_window_is_read_whole(tmp_path: Path) -> None:
    entries = [b"a" * 10, b"b" * (20 << 20), b"c" * 10]
    ledger = open_bucket(put_in_folder(tmp_path, offload(entries, block_size=32 << 20))).ledger(1)
    assert [bytes(entry.data) for entry in ledger.read(0, 2)] == entries


def test_a_pass_over_a_ledger_reads_no_byte_twice(large: str) -> None:
    ledger, store = counted(large)
    found = [(entry, bytes(data)) for batch in ledger.batches(0, ledger.last_entry) for entry, data in batch]
    assert found == [(i, i.to_bytes(4, "big") * 256) for i in range(24_000)]
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
            records_of(ledger, start, end)


def test_padding_that_was_overwritten_is_damage_not_a_guess(tmp_path: Path) -> None:
    made = offload([b"x" * 30] * 100, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[990:1000] = b"0" * 10
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    with pytest.raises(CorruptLedgerError, match="padding"):
        records_of(open_bucket(url).ledger(1), 0, 10)


def test_a_length_that_is_off_is_damage_also_with_two_blocks(tmp_path: Path) -> None:
    several = [[b"x" * 300] * 6, [b"x" * 30] * 60, [b"x" * 300] * 12]
    for number, (entries, wrong_by) in enumerate(product(several, [1, -1, -12])):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = offload(entries, block_size=1500)
        index = parse_index(made.index)
        metadata = replace(index.metadata, length=index.metadata.length + wrong_by)
        url = put_in_folder(folder, replace(made, index=build_index(replace(index, metadata=metadata))))
        with pytest.raises(CorruptLedgerError):
            pytest.fail(f"{len(entries)} entries, {wrong_by:+}: read {records_of(open_bucket(url).ledger(1), 0, 10)!r}")

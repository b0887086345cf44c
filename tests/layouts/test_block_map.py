"""The proof that finds every record's offset without reading data, and what happens where it does not hold."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.index import build_index, parse_index
from ledgerfs.storage.objects import ReadRequest
from tests.support.ledgers import offload, put_in_folder

PADDING = b"\xfe\xdc\xde\xad"

# Entries that end in the padding's pattern, in part of it, or are nothing but padding: what breaks a naive count.
ends = st.sampled_from(
    [b"", PADDING, PADDING * 3, PADDING[:1], PADDING[:3], PADDING[1:], PADDING + PADDING[:2], b"\xfe", b"\xad"]
)
entries = st.lists(
    st.tuples(st.integers(0, 40), ends).map(lambda pair: b"x" * pair[0] + pair[1]), min_size=1, max_size=60
)


@pytest.mark.long
@settings(deadline=None, max_examples=70)
@given(entries=entries, block_size=st.integers(200, 700), cuts=st.tuples(st.integers(0), st.integers(0)))
def test_the_file_is_the_records_whatever_the_entries_end_in(
    entries: list[bytes], block_size: int, cuts: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = offload(entries, block_size=block_size)
    ledger = open_bucket(put_in_folder(tmp_path_factory.mktemp("made"), made)).ledger(1)
    assert ledger.records_size == len(made.records)
    assert ledger.read_records(0, ledger.records_size) == made.records
    low, high = sorted(cut % (len(made.records) + 1) for cut in cuts)
    assert ledger.read_records(low, high) == made.records[low:high]
    assert [bytes(data) for _, data in ledger.read(0, len(entries) - 1)] == entries


def counting(ledger: LedgerReader) -> list[int]:
    """Have a reader's requests remembered; return the list of their sizes."""
    asked: list[int] = []
    store = ledger.store  # type: ignore[attr-defined]

    class Counting:
        def read(self, request: ReadRequest) -> bytes:
            asked.append(request.end - request.start)
            return store.read(request)

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    ledger.store = Counting()  # type: ignore[attr-defined]
    return asked


def test_many_blocks_cost_one_small_read_each_and_no_data(tmp_path: Path) -> None:
    made = offload([b"x" * 20_000] * 1000, block_size=1 << 20)
    ledger = open_bucket(put_in_folder(tmp_path, made)).ledger(1)
    blocks = len(ledger.index.blocks)
    asked = counting(ledger)
    assert ledger.block_map.file_starts[-1] == len(made.records)  # type: ignore[attr-defined]
    assert len(asked) == blocks - 1 > 15
    assert max(asked) <= 64 << 10


def test_padding_that_was_overwritten_is_damage_not_a_guess(tmp_path: Path) -> None:
    made = offload([b"x" * 30] * 100, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[990:1000] = b"0" * 10
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    with pytest.raises(CorruptLedgerError, match="padding"):
        open_bucket(url).ledger(1).read_records(0, 10)


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
            pytest.fail(
                f"{len(entries)} entries, {wrong_by:+}: read {open_bucket(url).ledger(1).read_records(0, 10)!r}"
            )


def test_large_entries_cost_their_headers_only(tmp_path: Path) -> None:
    made = offload([b"x" * 3_000_000] * 12, block_size=5 << 20)
    ledger = open_bucket(put_in_folder(tmp_path, made)).ledger(1)
    ledger.index  # noqa: B018  (read before the requests are counted)
    asked = counting(ledger)
    assert ledger.block_map.file_starts[-1] == len(made.records)  # type: ignore[attr-defined]
    assert sum(asked) < 500
    assert ledger.read_records(5_000_000, 7_000_000) == made.records[5_000_000:7_000_000]

"""The proof that finds every record's offset without reading data, and what happens where it does not hold."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.errors import CorruptLedgerError
from tests.support.ledgers import offload, put_in_folder

PADDING = b"\xfe\xdc\xde\xad"

# Entries that end in the padding's pattern, in part of it, or are nothing but padding: what breaks a naive count.
ends = st.sampled_from(
    [b"", PADDING, PADDING * 3, PADDING[:1], PADDING[:3], PADDING[1:], PADDING + PADDING[:2], b"\xfe", b"\xad"]
)
entries = st.lists(
    st.tuples(st.integers(0, 40), ends).map(lambda pair: b"x" * pair[0] + pair[1]), min_size=1, max_size=60
)


@settings(deadline=None, max_examples=150)
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


def test_many_blocks_cost_one_small_read_each_and_no_data(tmp_path: Path) -> None:
    made = offload([b"x" * 50_000] * 400, block_size=1 << 20)
    ledger = open_bucket(put_in_folder(tmp_path, made)).ledger(1)
    asked = []
    store = ledger._store  # type: ignore[attr-defined]

    class Counting:
        def read_many(self, requests):  # type: ignore[no-untyped-def]
            requests = list(requests)
            asked.extend(request.end - request.start for request in requests)
            return store.read_many(requests)

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    ledger._store = Counting()  # type: ignore[attr-defined]
    assert len(ledger.block_map.object_starts) == len(ledger.index.blocks) > 15  # type: ignore[attr-defined]
    assert sum(asked) < len(made.data) / 5
    assert len(asked) < 2 * len(ledger.index.blocks)


def test_padding_that_was_overwritten_is_damage_not_a_guess(tmp_path: Path) -> None:
    made = offload([b"x" * 300] * 20, block_size=1000)
    url = put_in_folder(tmp_path, made)
    data = bytearray(made.data)
    data[990:1000] = b"0" * 10
    (tmp_path / f"{made.uuid}-ledger-1").write_bytes(data)
    with pytest.raises(CorruptLedgerError, match="padding"):
        open_bucket(url).ledger(1).read_records(0, 10)


def test_an_index_that_claims_other_lengths_is_damage(tmp_path: Path) -> None:
    made = offload([b"x" * 300] * 20, block_size=1000)
    shorter = offload([b"x" * 299] + [b"x" * 300] * 19, block_size=1000)
    url = put_in_folder(tmp_path, made)
    (tmp_path / f"{made.uuid}-ledger-1-index").write_bytes(shorter.index)
    with pytest.raises(CorruptLedgerError, match=r"padding|contradict"):
        open_bucket(url).ledger(1).read_records(0, 10)

"""Tables of locations: what a scan found, in the order of ledgers and entries, as it is kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptObjectError
from ledgerfs_cluster.formats.bookkeeper.location_table import (
    LocationTable,
    build_location_table,
    location_table,
    parse_location_table,
)
from ledgerfs_cluster.formats.bookkeeper.log_records import LogRecords

Ids = list[tuple[int, int]]
IDS = st.lists(
    st.tuples(st.integers(0, 5) | st.integers(0, 2**62), st.integers(0, 40) | st.integers(2**32 - 3, 2**33)),
    max_size=60,
)


def scanned(ids: Ids) -> LogRecords:
    places = 1028 + 100 * np.arange(len(ids), dtype=np.int64)
    table = np.array(ids, np.int64).reshape(-1, 2)
    gaps = np.array([[7, 9]], np.int64)
    sizes, end = np.full(len(ids), 96, np.int64), 1024 + 100 * len(ids)
    return LogRecords(places, sizes, table[:, 0].copy(), table[:, 1].copy(), gaps, end, end, ends_in_gap=False)


def found_in(table: LocationTable, ledger: int, first: int, last: int) -> Ids:
    found = []
    for row in np.flatnonzero(table.ledger_ids == ledger).tolist():
        rows = table.rows_of(row, first, last)
        found += list(zip(table.entry_ids[rows].tolist(), table.places[rows].tolist(), strict=True))
    return found


@given(IDS, st.data())
def test_every_entry_is_found_by_its_id_and_no_other(ids: Ids, data: st.DataObject) -> None:
    table = location_table(scanned(ids))
    for ledger in {ledger for ledger, _ in ids} | {3}:
        first = data.draw(st.integers(0, 50) | st.integers(2**32 - 5, 2**32 + 5))
        last = first + data.draw(st.integers(0, 2**33))
        wanted = [
            (entry, 1028 + 100 * row)
            for row, (one, entry) in enumerate(ids)
            if one == ledger and first <= entry <= last
        ]
        assert found_in(table, ledger, first, last) == sorted(wanted)


@given(IDS)
def test_a_kept_table_is_the_same(ids: Ids) -> None:
    table = location_table(scanned(ids))
    kept = parse_location_table(memoryview(build_location_table(table)), key="t")
    for name in LocationTable.__slots__:
        assert np.array_equal(getattr(kept, name), getattr(table, name)), name


@given(IDS, st.data())
def test_a_table_that_is_cut_or_of_another_kind_is_refused(ids: Ids, data: st.DataObject) -> None:
    whole = build_location_table(location_table(scanned(ids)))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(CorruptObjectError):
        parse_location_table(memoryview(cut), key="t")
    with pytest.raises(CorruptObjectError):
        parse_location_table(memoryview(b"x" + whole[1:]), key="t")

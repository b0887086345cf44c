"""Logs of bookies walked in windows, to be compared with one walk over all of them; and logs that are cut, padded, flipped, or garbage."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

import numpy as np
from hypothesis import strategies as st

from ledgerfs.formats.array_types import Bytes
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.log_records import MOST_ENTRY_BYTES, LogRecords, least_window_bytes
from ledgerfs_cluster.formats.bookkeeper.stored_entries import build_stored_entry

MOST_BYTES = 200
"""Of an entry, in these tests: windows are small then."""
LEAST_BYTES = least_window_bytes(MOST_BYTES)
_CRC32C = Digest()
Found: TypeAlias = tuple[list[tuple[int, int, int, int]], list[tuple[int, int]], int]


class Scan(Protocol):
    """`scan_records`, of a log or of a journal."""

    def __call__(
        self,
        data: Bytes,
        start: int,
        most_bytes: int = MOST_ENTRY_BYTES,
        *,
        is_end: bool = True,
        in_gap: bool = False,
        asked: int = 0,
    ) -> LogRecords: ...


def record(ledger_id: int, entry_id: int, payload: bytes, digest: Digest = _CRC32C) -> bytes:
    entry = build_stored_entry(ledger_id, entry_id, entry_id - 1, 7, payload, digest)
    return len(entry).to_bytes(4, "big") + entry


def at_once(scan: Scan, data: bytes) -> Found:
    """Return all entries with their places, gaps, and how far the log is filled, of one walk."""
    found = scan(np.frombuffer(data, np.uint8), 0, MOST_BYTES)
    return rows_of(found, 0), [(first, end) for first, end in found.gaps.tolist()], found.filled_to


def in_windows(scan: Scan, data: bytes, sizes: Iterator[int]) -> Found:
    """Return the same of windows of these sizes; one in which nothing is found is made larger, which those of the least size never are."""
    rows: list[tuple[int, int, int, int]] = []
    gaps: list[tuple[int, int]] = []
    at = filled = larger = asked = 0
    in_gap = is_end = False
    while not is_end:
        base = at // 4096 * 4096
        window = np.frombuffer(data[base : at + next(sizes) + larger], np.uint8)
        is_end = base + window.size == len(data)
        found = scan(window, at - base, MOST_BYTES, is_end=is_end, in_gap=in_gap, asked=asked)
        assert is_end or found.end > at - base or window.size < LEAST_BYTES
        larger = 0 if found.end > at - base else larger + 100
        rows += rows_of(found, base)
        for first, end in (found.gaps + base).tolist():
            touches = bool(gaps) and gaps[-1][1] == first
            gaps.append((gaps.pop()[0] if touches else first, end))
        filled = base + found.filled_to if base + found.filled_to > at else filled
        at, in_gap, asked = base + found.end, found.ends_in_gap, found.asked
    return rows, gaps, filled


def rows_of(found: LogRecords, base: int) -> list[tuple[int, int, int, int]]:
    columns = (
        (found.starts + base).tolist(),
        found.sizes.tolist(),
        found.ledger_ids.tolist(),
        found.entry_ids.tolist(),
    )
    return list(zip(*columns, strict=True))


entries = st.builds(record, st.integers(0, 9), st.integers(0, 99), st.binary(max_size=160))
garbage = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.integers(1, 9000).map(lambda size: b"\x7f" * size),
    st.builds(lambda one, keep: one[: max(1, keep)], entries, st.integers(1, 100)),
    # One that is larger than an entry may be, and one at the end of garbage, which nothing follows.
    st.just(record(1, 1, bytes(MOST_BYTES))),
    st.builds(lambda one: b"\x7f" + one + b"\x7f", entries),
)
padding = st.one_of(
    st.integers(1, 9).map(bytes),
    st.sampled_from([bytes(4095), bytes(9000), bytes(30000), b"\xf0" * 7, b"\xf0" * 4096]),
)


@st.composite
def logs(draw: st.DrawFn, special: st.SearchStrategy[bytes], aligned: Callable[[bytes], bytes]) -> bytes:
    """Many records, and what may be between them; ``aligned`` pads a log as its writer does."""
    many = st.lists(entries, min_size=1, max_size=60).map(b"".join)
    data = b""
    for part in draw(st.lists(st.one_of(many, many, special, garbage, padding, st.none()), max_size=14)):
        data = aligned(data) if part is None else data + part
    flipped = bytearray(data)
    for at, bits in draw(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), max_size=3)):
        if flipped:
            flipped[at % len(flipped)] ^= bits
    return bytes(flipped[: len(flipped) - draw(st.integers(0, 50))])

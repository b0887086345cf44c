"""Records found in the middle of a block: the right ones or none, whatever payloads look like, in bounded time."""

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.record_search import FEWEST_RECORDS, find_records


def record(entry: int, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + entry.to_bytes(8, "big") + data


def block(entries: list[bytes], first: int = 1000) -> tuple[bytes, list[int]]:
    """Return records one behind the other, and where each begins."""
    starts, data = [], b""
    for i, entry in enumerate(entries):
        starts.append(len(data))
        data += record(first + i, entry)
    return data, starts


@settings(deadline=None)
@given(
    entries=st.lists(st.binary(max_size=80), min_size=30, max_size=60),
    low=st.integers(0, 300),
    high=st.integers(600, 2000),
)
def test_what_is_found_are_the_records_that_are_there(entries: list[bytes], low: int, high: int) -> None:
    data, starts = block(entries)
    high = min(high, len(data))
    found = find_records(data[low:high], 1000, 1000 + len(entries) - 1, len(data) - low)
    inside = [(1000 + i, start - low) for i, start in enumerate(starts) if start >= low and start + 12 <= high]
    if len(inside) >= FEWEST_RECORDS:
        assert found is not None
    if found is not None:
        assert [(found.first_entry + i, start) for i, start in enumerate(found.starts.tolist())] == inside


def test_records_that_are_padded_at_the_end_are_found() -> None:
    data, starts = block([b"x" * 50] * 40)
    found = find_records(data + b"\xfe\xdc\xde\xad" * 30, 1000, 1039, len(data) + 120)
    assert found is not None
    assert found.starts.tolist() == starts


def test_a_payload_that_holds_records_of_the_same_ids_deceives_nobody_while_it_ends_in_the_bytes() -> None:
    false, _ = block([b"evil" * 10] * 20, first=1003)
    data, starts = block([b"a" * 50] * 5 + [false] + [b"b" * 50] * 20)
    found = find_records(data, 1000, 1025, len(data))
    assert found is not None
    assert found.starts.tolist() == starts


def test_two_chains_that_both_reach_the_end_are_not_believed() -> None:
    false, _ = block([b"evil" * 10] * 20, first=1003)
    data, _ = block([b"a" * 50] * 12 + [false])
    assert find_records(data, 1000, 1040, len(data)) is None


def test_random_bytes_and_few_records_are_not_believed() -> None:
    assert find_records(random.Random(1).randbytes(100_000), 0, 2**40, 1 << 30) is None
    assert find_records(b"", 0, 10, 0) is None
    assert find_records(block([b"x"] * (FEWEST_RECORDS - 1))[0], 1000, 1010, 1000) is None


def test_bytes_made_to_be_followed_again_and_again_cost_little() -> None:
    # Each of these begins a chain that goes on to the end and breaks there.
    data = block([b""] * 40_000)[0] * 2
    start = time.perf_counter()
    find_records(data, 0, 1 << 40, len(data))
    # Each link of each chain followed to its end would take hours.
    assert time.perf_counter() - start < 60

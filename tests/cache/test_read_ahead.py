"""Parts in the order of a plan: as many under way as the reader is worth, ended when it leaves."""

from concurrent.futures import Future
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.read_ahead import PART_BYTES, ReadAhead, cut_parts
from tests.support.children import status_in_child

MIB = 1 << 20


class Range(NamedTuple):
    start: int
    end: int


class Reads:
    """Remembers what was begun, and answers when it is told."""

    def __init__(self) -> None:
        self.begun: list[Range] = []
        self.futures: list[Future[bytes]] = []

    def __call__(self, part: Range) -> "Future[bytes]":
        self.begun.append(part)
        future: Future[bytes] = Future()
        self.futures.append(future)
        return future

    def answer(self) -> None:
        for part, future in zip(self.begun, self.futures, strict=True):
            if not future.done():
                future.set_result(bytes([part.start % 251]))

    @property
    def under_way(self) -> int:
        return sum(not future.done() for future in self.futures)


def parts(count: int, size: int = 10) -> list[Range]:
    return [Range(i * size, (i + 1) * size) for i in range(count)]


@given(start=st.integers(0, 40 * MIB), size=st.integers(0, 40 * MIB), is_known=st.booleans())
def test_parts_cover_a_range_without_gap_small_ones_first(start: int, size: int, is_known: bool) -> None:
    cut = list(cut_parts(start, start + size, is_known=is_known))
    assert sum(end - begin for begin, end in cut) == size
    assert all(before[1] == behind[0] for before, behind in pairwise(cut))
    if size:
        assert (cut[0][0], cut[-1][1]) == (start, start + size)
        assert is_known or cut[0][1] - cut[0][0] <= MIB
        assert all(0 < end - begin <= PART_BYTES for begin, end in cut)
        assert all(end % PART_BYTES == 0 for _, end in cut[4:-1])


def test_more_are_under_way_with_each_part_taken_up_to_the_most() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(100), 16, cache=BlockCache(1 << 20))
    assert ahead.peek() == Range(0, 10)
    assert len(reads.begun) == 1
    counts = []
    for number in range(40):
        ahead.peek()
        reads.futures[number].set_result(b"")
        ahead.take()
        counts.append(reads.under_way)
    assert counts == [0] + [16] * 39
    assert reads.begun == parts(len(reads.begun))


def test_all_parts_come_in_order_then_none() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(20), 4, cache=BlockCache(1 << 20))
    taken = []
    while (part := ahead.peek()) is not None:
        reads.answer()
        assert ahead.take() == bytes([part.start % 251])
        taken.append(part)
    assert taken == parts(20)
    with pytest.raises(IndexError):
        ahead.take()


def test_leaving_ends_what_is_under_way_and_gives_the_budget_back() -> None:
    cache, reads = BlockCache(1 << 20), Reads()
    ahead = ReadAhead(reads, parts(100), 16, is_known=True, cache=cache)
    ahead.peek()
    ahead.close()
    assert all(future.cancelled() for future in reads.futures)
    assert ahead.peek() is None
    assert cache.reserve((1 << 20) // 2)


def test_a_dropped_reader_ends_what_is_under_way() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(100), 16, is_known=True, cache=BlockCache(1 << 20))
    ahead.peek()
    del ahead
    assert all(future.cancelled() for future in reads.futures)


def test_readers_share_the_budget_and_each_has_one_part() -> None:
    cache = BlockCache(200)
    readers = [Reads() for _ in range(30)]
    aheads = [ReadAhead(reads, parts(100), 16, is_known=True, cache=cache) for reads in readers]
    for ahead in aheads:
        ahead.peek()
    under_way = [reads.under_way for reads in readers]
    assert under_way[0] == 10
    assert set(under_way[1:]) == {1}


def test_a_skipped_part_is_not_waited_for() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(3), 2, is_known=True, cache=BlockCache(1 << 20))
    ahead.peek()
    ahead.skip()
    assert reads.futures[0].cancelled()
    assert ahead.peek() == Range(10, 20)


def test_an_error_is_raised_in_its_place() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(3), 3, is_known=True, cache=BlockCache(1 << 20))
    ahead.peek()
    reads.futures[1].set_exception(OSError("broken"))
    reads.answer()
    ahead.take()
    with pytest.raises(OSError, match="broken"):
        ahead.take()


def test_a_forked_child_asks_again() -> None:
    reads = Reads()
    ahead = ReadAhead(reads, parts(3), 2, is_known=True, cache=BlockCache(1 << 20))
    ahead.peek()

    def ask_again() -> None:
        assert ahead.peek() == Range(0, 10)
        reads.answer()
        assert ahead.take() == b"\0"
        assert reads.begun.count(Range(0, 10)) == 2

    assert status_in_child(ask_again) == 0

"""Byte ranges in memory: reads return their bytes, nothing is fetched twice, the budget holds, a cancelled read disturbs no other."""

import random
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.cache.block_cache import BlockCache, default_budget
from tests.support.children import is_true_in_child

CONTENT = random.Random(5).randbytes(4096)


class Store:
    """An object that remembers what was fetched, and answers at once or when it is told."""

    def __init__(self, content: bytes = CONTENT, *, at_once: bool = True) -> None:
        self.content = content
        self.at_once = at_once
        self.fetched: list[tuple[int, int]] = []
        self.waiting: list[tuple[int, int, Future[bytes]]] = []

    def __call__(self, start: int, end: int) -> "Future[bytes]":
        self.fetched.append((start, end))
        future: Future[bytes] = Future()
        self.waiting.append((start, end, future))
        if self.at_once:
            self.answer()
        return future

    def answer(self) -> None:
        # One by one, so that none is lost that another thread adds meanwhile.
        while self.waiting:
            start, end, future = self.waiting.pop(0)
            if future.set_running_or_notify_cancel():
                future.set_result(self.content[start:end])

    @property
    def bytes(self) -> int:
        return sum(end - start for start, end in self.fetched)


ranges = st.tuples(st.integers(0, 4095), st.integers(1, 4096)).map(lambda p: (min(p[0], p[1] - 1), max(p[0] + 1, p[1])))


@settings(deadline=None)
@given(asked=st.lists(ranges, max_size=20), budget=st.integers(0, 5000))
def test_any_ranges_come_back_as_they_are_and_the_budget_holds(asked: list[tuple[int, int]], budget: int) -> None:
    cache, store = BlockCache(budget), Store()
    for start, end in asked:
        assert cache.begin("a", start, end, store).result() == CONTENT[start:end]
        assert cache.size <= budget


@settings(deadline=None)
@given(asked=st.lists(ranges, max_size=20))
def test_no_byte_is_fetched_twice_while_there_is_room(asked: list[tuple[int, int]]) -> None:
    cache, store = BlockCache(1 << 20), Store()
    for start, end in asked:
        cache.begin("a", start, end, store).result()
    assert store.bytes == len({byte for start, end in asked for byte in range(start, end)})
    assert cache.size == store.bytes


@settings(deadline=None)
@given(asked=st.lists(ranges, min_size=2, max_size=10), leaving=st.sets(st.integers(0, 9)))
def test_readers_share_what_is_under_way_and_those_who_leave_disturb_nobody(
    asked: list[tuple[int, int]], leaving: set[int]
) -> None:
    cache, store = BlockCache(1 << 20), Store(at_once=False)
    reads = [cache.begin("a", start, end, store) for start, end in asked]
    assert store.bytes == len({byte for start, end in asked for byte in range(start, end)})
    for i in leaving & set(range(len(reads))):
        reads[i].cancel()
    store.answer()
    for i, (read, (start, end)) in enumerate(zip(reads, asked, strict=True)):
        if i not in leaving:
            assert read.result() == CONTENT[start:end]


def test_what_nobody_waits_for_any_more_is_not_fetched_further_and_asked_for_anew() -> None:
    cache, store = BlockCache(1 << 20), Store(at_once=False)
    first, second = cache.begin("a", 0, 10, store), cache.begin("a", 5, 10, store)
    first.cancel()
    ((_, _, future),) = store.waiting
    assert not future.cancelled()
    second.cancel()
    assert future.cancelled()
    with pytest.raises(CancelledError):
        BlockCache(0).begin("a", 0, 1, _cancelled).result()
    store.at_once = True
    assert cache.begin("a", 0, 10, store).result() == CONTENT[:10]


def _cancelled(start: int, end: int) -> "Future[bytes]":
    future: Future[bytes] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


def test_a_failure_is_reported_to_all_who_wait_and_leaves_nothing_behind() -> None:
    cache, store = BlockCache(1 << 20), Store(at_once=False)
    reads = [cache.begin("a", 0, 10, store) for _ in range(2)]
    store.waiting[0][2].set_exception(OSError("broken"))
    for read in reads:
        with pytest.raises(OSError, match="broken"):
            read.result()
    assert cache.size == 0
    store.waiting, store.at_once = [], True
    assert cache.begin("a", 0, 10, store).result() == CONTENT[:10]


def test_a_fetch_that_cannot_begin_leaves_nobody_waiting() -> None:
    cache, store = BlockCache(1 << 20), Store()
    cache.begin("a", 4, 6, store).result()

    def refuse(start: int, end: int) -> "Future[bytes]":
        raise RuntimeError("no threads")

    with pytest.raises(RuntimeError):
        cache.begin("a", 0, 10, refuse)
    assert cache.begin("a", 0, 10, store).result() == CONTENT[:10]


def test_the_least_recently_used_goes_first() -> None:
    cache, store = BlockCache(30), Store()
    for start in (0, 10, 20):
        cache.begin("a", start, start + 10, store).result()
    cache.begin("a", 0, 10, store).result()
    cache.begin("a", 30, 40, store).result()
    store.fetched.clear()
    cache.begin("a", 0, 10, store).result()
    assert store.fetched == []
    cache.begin("a", 10, 20, store).result()
    assert store.fetched == [(10, 20)]


def test_versions_are_different_objects() -> None:
    cache, new = BlockCache(1 << 20), Store(b"new.")
    assert cache.begin(("a", "1"), 0, 4, Store(b"old.")).result() == b"old."
    assert cache.begin(("a", "2"), 0, 4, new).result() == b"new."
    assert cache.begin(("a", "1"), 0, 4, new).result() == b"old."


def test_what_passes_through_is_shared_but_not_kept() -> None:
    cache, store = BlockCache(1 << 20), Store(at_once=False)
    reads = [cache.begin("a", 0, 10, store, keep=False) for _ in range(2)]
    store.answer()
    assert [read.result() for read in reads] == [CONTENT[:10]] * 2
    assert len(store.fetched) == 1
    assert cache.size == 0


def test_forgetting_drops_what_is_kept_and_what_is_on_its_way() -> None:
    cache, store = BlockCache(1 << 20), Store()
    cache.begin("a", 0, 10, store).result()
    store.at_once = False
    late = cache.begin("a", 10, 20, store)
    cache.forget("a")
    assert cache.size == 0
    store.answer()
    assert late.result() == CONTENT[10:20]
    assert cache.size == 0
    store.at_once = True
    store.fetched.clear()
    cache.begin("a", 0, 20, store).result()
    assert store.fetched == [(0, 20)]


def test_what_readers_hold_ahead_comes_out_of_the_same_budget() -> None:
    cache, store = BlockCache(100), Store()
    cache.begin("a", 0, 80, store).result()
    assert cache.reserve(40)
    assert cache.size <= 60
    assert not cache.reserve(20)
    assert cache.reserve(20, is_needed=True)
    cache.release(60)
    assert cache.reserve(50)


def test_threads_read_leave_and_forget_at_random_and_always_get_their_bytes() -> None:
    cache = BlockCache(2048)
    with ThreadPoolExecutor(4) as fetchers:

        def fetch(start: int, end: int) -> "Future[bytes]":
            return fetchers.submit(lambda: CONTENT[start:end])

        def work(seed: int) -> None:
            rnd = random.Random(seed)
            for _ in range(400):
                start = rnd.randrange(4000)
                end = rnd.randrange(start + 1, 4097)
                read = cache.begin("a", start, end, fetch, keep=rnd.random() < 0.8)
                if rnd.random() < 0.3:
                    read.cancel()
                else:
                    assert read.result() == CONTENT[start:end]
                if rnd.random() < 0.02:
                    cache.forget("a")

        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(work, seed) for seed in range(8)]:
                future.result()
    assert cache.size <= 2048
    assert cache.begin("a", 0, 4096, Store()).result() == CONTENT


def test_a_forked_child_waits_for_nobody_and_finds_nothing() -> None:
    cache, store = BlockCache(1 << 20), Store(at_once=False)
    cache.begin("a", 0, 10, store)
    assert is_true_in_child(lambda: cache.begin("a", 0, 10, Store()).result() == CONTENT[:10] and cache.size == 10)


def test_the_budget_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_CACHE_BYTES", "12345")
    assert default_budget() == 12345
    monkeypatch.setenv("LEDGERFS_CACHE_BYTES", "much")
    assert 0 < default_budget() <= 1 << 30

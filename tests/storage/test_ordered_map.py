"""`ordered_map`: results in order, errors after the results before them, and closing without waiting for calls."""

import threading
from collections.abc import Iterator

import pytest

from ledgerfs.storage.ordered_map import ordered_map


def test_results_come_in_order_and_quick_items_in_this_thread() -> None:
    def place(item: int) -> tuple[int, bool]:
        return item, threading.current_thread() is threading.main_thread()

    found = list(ordered_map(place, range(50), 3, "test", is_quick=lambda item: item % 2 == 0))
    assert found == [(i, i % 2 == 0) for i in range(50)]


def test_an_error_comes_after_the_results_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no more items")

    found = []
    with pytest.raises(ValueError, match="no more items"):
        found.extend(ordered_map(lambda item: item, items(), 2, "test"))
    read = ordered_map(lambda item: 1 // item, (2, 1, 0, 1), 2, "test")
    assert [next(read), next(read)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(read)


def test_an_abandoned_map_waits_for_no_call() -> None:
    """The garbage collector may close it in any thread, also in one that others wait for."""
    may_end, began = threading.Event(), []

    def call(item: int) -> int:
        began.append(item)
        if item:
            may_end.wait(600)
        return item

    read = ordered_map(call, range(1000), 2, "test")
    assert next(read) == 0
    read.close()  # type: ignore[attr-defined]
    may_end.set()
    # Two run in the threads; waiting ones do not begin.
    assert len(began) < 10

"""Work in a few threads, with results in order, and few calls ahead of the caller."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(call: Callable[[Item], Result], items: Iterable[Item], threads: int, name: str) -> Iterator[Result]:
    """Yield ``call(item)`` for each item; an exception of a call is raised in place of its result, and ends the work.

    Memory is bounded by four results for each thread. When the caller stops early, waiting calls do not begin.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix=name) as pool:
        pending: deque[Future[Result]] = deque(pool.submit(call, item) for item in islice(iterator, 4 * threads))
        try:
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(call, item) for item in islice(iterator, 1))
                yield result
        finally:
            for future in pending:
                future.cancel()

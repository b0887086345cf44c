"""Map in a few threads, with results in order and bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    call: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    name: str,
    *,
    ahead: int = 4,
    is_quick: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Result]:
    """Yield ``call(item)`` for each item, in order; at most ``ahead`` results for each thread are in memory.

    Calls of quick items run in the caller's thread, since a switch takes longer. Raises an exception of a call, or of ``items``, after
    the results before it, and stops. If the caller stops early, waiting calls do not begin, and those that have begun continue.
    """
    iterator, failure = iter(items), None
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    pending: deque[Future[Result]] = deque()
    is_more, may_wait = True, True
    try:
        while is_more or pending:
            while is_more and len(pending) < ahead * threads:
                try:
                    item = next(iterator)
                    pending.append(_called(call, item) if is_quick(item) else pool.submit(call, item))
                except StopIteration:
                    is_more = False
                except Exception as error:  # noqa: BLE001  (raised below, in order)
                    is_more, failure = False, error
                if pending and pending[0].done():
                    break
            if pending:
                yield pending.popleft().result()
        if failure is not None:
            raise failure
    except GeneratorExit:
        # The garbage collector may close an abandoned generator in a thread that is just starting; there, waiting for another thread
        # would never end.
        may_wait = False
        raise
    finally:
        for future in pending:
            future.cancel()
        pool.shutdown(wait=may_wait)


def _called(call: Callable[[Item], Result], item: Item) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(call(item))
    except Exception as error:  # noqa: BLE001  (the future raises it)
        future.set_exception(error)
    return future

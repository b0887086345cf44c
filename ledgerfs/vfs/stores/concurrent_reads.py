"""Several reads under way at a time, their results in order, and never more of them in memory than a window holds."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from ledgerfs.errors import LedgerfsError
from ledgerfs.vfs.object_store import ReadRequest

Outcome = bytes | LedgerfsError

_LOOP_CONCURRENCY = 48
_LOOP_WINDOW = 512
_THREADS = 8


def read_in_loop(
    loop: asyncio.AbstractEventLoop,
    read: Callable[[ReadRequest], Coroutine[Any, Any, bytes]],
    requests: Iterable[ReadRequest],
) -> Iterator[Outcome]:
    """Run ``read`` for each request in an event loop that another thread runs (fsspec's)."""
    iterator = iter(requests)
    window = _start_window(loop, read, iterator)
    while window is not None:
        # The next window is under way while the caller works on this one.
        following = _start_window(loop, read, iterator)
        try:
            outcomes = window.result()
        except BaseException:
            for future in (window, following):
                if future is not None:
                    future.cancel()
            raise
        yield from outcomes
        window = following


def read_in_threads(read: Callable[[ReadRequest], bytes], requests: Iterable[ReadRequest]) -> Iterator[Outcome]:
    """Run ``read`` for each request in a few threads, each of which has a filesystem of its own."""
    iterator = iter(requests)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="ledgerfs-read") as pool:
        pending: deque[Future[Outcome]] = deque(
            pool.submit(_outcome, read, request) for request in islice(iterator, 4 * _THREADS)
        )
        try:
            while pending:
                outcome = pending.popleft().result()
                pending.extend(pool.submit(_outcome, read, request) for request in islice(iterator, 1))
                yield outcome
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _outcome(read: Callable[[ReadRequest], bytes], request: ReadRequest) -> Outcome:
    try:
        return read(request)
    except LedgerfsError as error:
        return error


def _start_window(
    loop: asyncio.AbstractEventLoop,
    read: Callable[[ReadRequest], Coroutine[Any, Any, bytes]],
    requests: Iterator[ReadRequest],
) -> "Future[list[Outcome]] | None":
    window = list(islice(requests, _LOOP_WINDOW))
    if not window:
        return None
    return asyncio.run_coroutine_threadsafe(_read_window(read, window), loop)


async def _read_window(
    read: Callable[[ReadRequest], Coroutine[Any, Any, bytes]], window: list[ReadRequest]
) -> list[Outcome]:
    limit = asyncio.Semaphore(_LOOP_CONCURRENCY)

    async def one(request: ReadRequest) -> Outcome:
        async with limit:
            try:
                return await read(request)
            except LedgerfsError as error:
                return error

    return await asyncio.gather(*(one(request) for request in window))

"""Concurrent reads in an event loop: results in order, at most two windows of requests in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import ReadRequest

if TYPE_CHECKING:
    from concurrent.futures import Future

Outcome = bytes | LedgerfsError

_LOOP_CONCURRENCY = 48
_LOOP_WINDOW = 512
_LOOP_WINDOW_BYTES = 16 << 20


def read_in_loop(
    loop: asyncio.AbstractEventLoop,
    read: Callable[[ReadRequest], Coroutine[Any, Any, Buffer]],
    requests: Iterable[ReadRequest],
) -> Iterator[Outcome]:
    """Run ``read`` for each request in an event loop that another thread runs (fsspec's)."""
    iterator = iter(requests)
    window = _start_window(loop, read, iterator)
    while window is not None:
        # The next window is read while the caller works on this one.
        following = _start_window(loop, read, iterator)
        try:
            yield from window.result()
        except BaseException:  # also when the caller stops early
            for future in (window, following):
                if future is not None:
                    future.cancel()
            raise
        window = following


def _start_window(
    loop: asyncio.AbstractEventLoop,
    read: Callable[[ReadRequest], Coroutine[Any, Any, Buffer]],
    requests: Iterator[ReadRequest],
) -> "Future[list[Outcome]] | None":
    window: list[ReadRequest] = []
    size = 0
    while len(window) < _LOOP_WINDOW and size < _LOOP_WINDOW_BYTES and (request := next(requests, None)) is not None:
        window.append(request)
        size += request.end - request.start
    if not window:
        return None
    return asyncio.run_coroutine_threadsafe(_read_window(read, window), loop)


async def _read_window(
    read: Callable[[ReadRequest], Coroutine[Any, Any, Buffer]], window: list[ReadRequest]
) -> list[Outcome]:
    limit = asyncio.Semaphore(_LOOP_CONCURRENCY)

    async def one(request: ReadRequest) -> Outcome:
        async with limit:
            try:
                return bytes(await read(request))
            except LedgerfsError as error:
                return error

    return await asyncio.gather(*(one(request) for request in window))

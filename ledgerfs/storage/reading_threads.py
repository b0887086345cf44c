"""Threads for reads through blocking filesystems, shared by all stores of a process."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ledgerfs.errors import LedgerfsError
from ledgerfs.forked import ForkLock
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import ReadRequest

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Read = Callable[[ReadRequest], Buffer]


class ReadingThreads:
    """A few threads, created on first use, and again in a forked child."""

    __slots__ = ("_lock", "_name", "_pool", "_process", "_threads")

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lock = ForkLock()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def start(
        self, work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Future[Result]:
        """Run ``work`` in one of the threads. Cancelling removes waiting work; running work goes on."""
        return self._here().submit(work, *arguments, **named)

    def _here(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
                self._process = os.getpid()
            return self._pool


def read_at_once(read: Read, request: ReadRequest) -> "Future[Buffer]":
    """Read in this thread, where a switch to another thread takes longer than the read."""
    future: Future[Buffer] = Future()
    future.set_running_or_notify_cancel()
    try:
        future.set_result(read(request))
    except LedgerfsError as error:
        future.set_exception(error)
    return future


def outcome_of(read: Callable[[ReadRequest], bytes], request: ReadRequest) -> bytes | LedgerfsError:
    """Return the bytes of a request, or its error."""
    try:
        return read(request)
    except LedgerfsError as error:
        return error


FOLDER_THREADS = ReadingThreads(2, "ledgerfs-folder")
"""More threads do not speed up the page cache; with a single one, a disk would idle between two reads."""

FILESYSTEM_THREADS = ReadingThreads(16, "ledgerfs-filesystem")

"""How much the processes that share a folder of pieces may write to it before one of them has to sweep it.

They count together: each appends a byte to the file ``written`` for every page that it will write. So the file's size is what all of them
wrote since the last sweep; its time of access, which only sweeps change, is the time of that sweep.
"""

import errno
import fcntl
import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ledgerfs.cache.disk_sweep import PAGE, pages, room, sweep
from ledgerfs.cache.part_file import part_file
from ledgerfs.cache.untrusted_folders import open_own, require_own_folder
from ledgerfs.storage.fork_lock import ForkLock

_LOG = logging.getLogger("ledgerfs.cache")
_WRITTEN = "written"
_LOCK = "sweep.part"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_SWEEP_SECONDS = 86400.0
_LOOK_SECONDS = 3600.0
_SWEEP_SHARE = 20
_STOP_SHARE = 10
_PIECE_SHARE = 4


class DiskBudget:
    """The bound of one folder. A sweep leaves at most 90 % of it, and is due when 5 % more are written; 10 % more are never written."""

    __slots__ = ("_budget", "_folder", "_lock", "_next_look", "_sweeper")

    def __init__(self, folder: Path, budget: int) -> None:
        self._folder = folder
        self._budget = budget
        self._lock = ForkLock()
        self._sweeper = 0
        self._next_look = 0.0

    def admit(self, size: int) -> bool:
        """Count a file that will be written; false if it must not be. Raises `OSError`, with ENOSPC if the disk is too full for it."""
        wanted = pages(size)
        if wanted * PAGE > self._budget // _PIECE_SHARE:
            return False
        if room(self._folder) < wanted * PAGE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = open_own(self._folder / _WRITTEN, _FLAGS)
        try:
            found = os.fstat(descriptor)
            is_admitted = found.st_size * PAGE < self._budget // _STOP_SHARE
            if is_admitted:
                os.write(descriptor, bytes(wanted))
        finally:
            os.close(descriptor)
        if _is_due(found, wanted, self._budget):
            self.sweep_soon()
        return is_admitted

    def look(self) -> None:
        """Sweep if that is due: idle pieces are removed even if nothing is written."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            require_own_folder(self._folder)
            found = (self._folder / _WRITTEN).lstat()
        except OSError:
            return
        if _is_due(found, 0, self._budget):
            self.sweep_soon()

    def sweep_soon(self, *, is_full: bool = False) -> None:
        """Sweep in a thread, unless one does so already."""
        with self._lock:
            # A forked child does not have its parent's threads.
            if self._sweeper == os.getpid():
                return
            self._sweeper = os.getpid()
        try:
            threading.Thread(target=self._sweep_once, args=(is_full,), name="ledgerfs-sweep", daemon=True).start()
        except RuntimeError:
            # No more threads, or the interpreter is ending: the next writer will sweep.
            self._sweeper = 0

    def _sweep_once(self, is_full: bool) -> None:
        try:
            self.sweep(is_full=is_full)
        except OSError as error:
            _LOG.info("%s cannot be swept: %s", self._folder, error)
        finally:
            self._sweeper = 0

    def sweep(self, *, is_full: bool = False) -> None:
        """Sweep now, unless another process does so; raises `OSError`."""
        require_own_folder(self._folder)
        with (
            suppress(BlockingIOError),
            part_file(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX | fcntl.LOCK_NB),
        ):
            counted = self._written()
            sweep(self._folder, self._budget, is_full=is_full)
            self._forget(counted)

    def _written(self) -> int:
        try:
            return (self._folder / _WRITTEN).lstat().st_size
        except FileNotFoundError:
            return 0

    def _forget(self, counted: int) -> None:
        """Subtract what the sweep has counted; only after it, since it may be killed. Bytes appended at this moment may be lost: a few."""
        descriptor = open_own(self._folder / _WRITTEN, _FLAGS)
        try:
            os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - counted))
            os.utime(descriptor, ns=(time.time_ns(), time.time_ns()))
        finally:
            os.close(descriptor)


def _is_due(found: os.stat_result, more: int, budget: int) -> bool:
    """Whether much was written since the last sweep, or that was long ago, or in the future (the clock jumped)."""
    is_much = (found.st_size + more) * PAGE >= budget // _SWEEP_SHARE
    return is_much or abs(time.time() - found.st_atime) > _SWEEP_SECONDS

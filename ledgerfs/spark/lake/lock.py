"""One exporter at a time: a lock beside the files, which names its holder, and ends some minutes after that.

A lock in an object store is a promise, not a wall: a commit first checks that the lock is still its own.
"""

import errno
import json
import logging
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ledgerfs.errors import ExportFolderError, LedgerfsError, ObjectExistsError
from ledgerfs.spark.lake.target import Lake

FOLDER = "_ledgerfs"
"""Spark, Hive and pyarrow skip folders with such a name."""

_LOCK = f"{FOLDER}/lock"
_TAKING_OVER = f"{FOLDER}/lock-taking-over"
"""Held while the lock of a gone holder is removed: since that was read, a third exporter may have put its own lock there."""

_log = logging.getLogger("ledgerfs.spark")

_VALID_SECONDS = 300
_RENEWED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock: the export's name, where it runs, and until when the lock is valid, seconds since 1970."""

    job: str
    host: str
    process: int
    started: str
    until: float

    @classmethod
    def here(cls, job: str) -> Self:
        """Return this process as a holder."""
        process = os.getpid()
        return cls(job, socket.gethostname(), process, _start_of(process) or "", time.time() + _VALID_SECONDS)

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, or has not renewed its lock in time."""
        if self.host == socket.gethostname() and self.started and _start_of(self.process) != self.started:
            return True
        return time.time() > self.until


class LakeLock:
    """The lock of a lake, held in a ``with`` block; entering it raises `ExportFolderError` (errno EBUSY) if another export holds it."""

    def __init__(self, lake: Lake, job: str) -> None:
        self._lake = lake
        self._job = job
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="ledgerfs-lake-lock", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._create(_LOCK)
        except ObjectExistsError as error:
            self._take_over(error)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        try:
            if self._is_ours():
                self._lake.remove(_LOCK)
        except LedgerfsError:
            # The lock ends by itself; after another error, that one is raised.
            if kind is None:
                raise

    def require(self) -> None:
        """Raise `ExportFolderError` if the lock is not ours any more."""
        if not self._is_ours():
            raise self._taken(self._holder())

    def _take_over(self, error: ObjectExistsError) -> None:
        """Replace the lock of a holder that is gone by ours."""
        left = self._lake.read(_LOCK)
        self._require_gone(left, error)
        self._begin_taking_over()
        try:
            if self._lake.read(_LOCK) == left:
                self._lake.remove(_LOCK)
            self._create(_LOCK)
        except ObjectExistsError as again:
            raise self._taken(self._holder()) from again
        finally:
            self._lake.remove(_TAKING_OVER)

    def _begin_taking_over(self) -> None:
        for _ in range(2):
            try:
                self._create(_TAKING_OVER)
            except ObjectExistsError as error:
                left = self._lake.read(_TAKING_OVER)
                self._require_gone(left, error)
                if left is not None:
                    self._lake.remove(_TAKING_OVER)
            else:
                return
        raise self._taken(self._holder())

    def _require_gone(self, data: bytes | None, error: ObjectExistsError) -> None:
        holder = _decoded(data)
        if holder is not None and not holder.is_gone:
            raise self._taken(holder) from error

    def _create(self, name: str) -> None:
        self._lake.create(FOLDER, name.rpartition("/")[2], _encoded(Holder.here(self._job)))

    def _is_ours(self) -> bool:
        holder = self._holder()
        return holder is not None and holder.job == self._job

    def _holder(self) -> Holder | None:
        return _decoded(self._lake.read(_LOCK))

    def _taken(self, holder: Holder | None) -> ExportFolderError:
        by = ""
        if holder is not None:
            until = time.strftime("%H:%M:%S UTC", time.gmtime(holder.until))
            by = (
                f": process {holder.process} on {holder.host}, {holder.job}; if it is no more, its lock ends at {until}"
            )
        error = ExportFolderError(f"another export is writing to this folder{by}", key=self._lake.root)
        error.errno = errno.EBUSY
        return error

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWED_SECONDS):
            try:
                if not self._is_ours():
                    return
                self._lake.write(_LOCK, _encoded(Holder.here(self._job)))
            except LedgerfsError as error:
                # It is tried again; if that fails, the commit finds out.
                _log.warning("the lock of the export cannot be renewed: %s", error)


def _encoded(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def _decoded(data: bytes | None) -> Holder | None:
    """Return the holder that a lock names; None without a lock, or if it is unreadable."""
    if data is None:
        return None
    try:
        return Holder(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _start_of(process: int) -> str | None:
    """Return the start of a process, which tells it from a later one of the same number; None if there is none, or it is not known."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]

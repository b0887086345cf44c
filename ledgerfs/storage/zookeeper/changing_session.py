"""One session of those who change nodes: it is never renewed, reads what is newest, and says of each commit what became of it.

`ledgerfs.storage.zookeeper.asking.Asker` asks again, and in another session, until there is an answer. That suits reads. A commit that is
sent twice may be done twice, and in another session the lock that it was meant to be done under is gone.
"""

import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock, Thread
from typing import TypeVar

from kazoo.exceptions import AuthFailedError, SessionExpiredError

from ledgerfs.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StoreTimeoutError,
    StoreUnreachableError,
    UnsupportedWriteError,
)
from ledgerfs.storage.zookeeper.change_requests import Commit, Refusal, Sync, refusal_in
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.operations import Operation
from ledgerfs.storage.zookeeper.replies import Parse, children_at, failure, node_at, one_result
from ledgerfs.storage.zookeeper.requests import GET_CHILDREN, GET_DATA, ReadOne, Reply
from ledgerfs.storage.zookeeper.session import Answer, Request, Session, refusal
from ledgerfs.storage.zookeeper.settings import Settings

MOST_BYTES = 1_040_000
"""Of one commit: a server takes packets of less than 1 MiB (``jute.maxbuffer``) and breaks the connection of whoever sends more."""

_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_STEP_S = 0.25
_MOST_AHEAD = 128
"""Nodes that are asked for together."""

Result = TypeVar("Result")


class Fate(Enum):
    """What became of a commit."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done."""
    NEVER_SENT = "never sent"
    """Nothing was done, or will be."""
    UNKNOWN = "unknown"
    """It may have been done, or may still be."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is known of a commit; ``refusal`` if one of its operations was refused, ``trouble`` in words otherwise."""

    fate: Fate
    refusal: Refusal | None = None
    trouble: str = ""

    @property
    def is_done(self) -> bool:
        """Whether all of it was done."""
        return self.fate is Fate.DONE


class ChangingSession(Session):
    """A session that ends when its server says that it is over, where kazoo would begin another one."""

    __slots__ = ("_ending", "_ending_lock", "is_lost")

    def __init__(self, settings: Settings) -> None:
        self.is_lost = False
        self._ending: Thread | None = None
        self._ending_lock = Lock()
        super().__init__(settings)

    def ask(self, request: Request) -> Answer:
        """Send a request as soon as there is a connection, unless this session is over."""
        if not self.is_lost:
            return super().ask(request)
        answer = Answer({})
        answer.set_exception(SessionExpiredError())
        return answer

    def end(self) -> Thread:
        """Take leave of the server in a thread, which may take its time."""
        with self._ending_lock:
            if self._ending is None:
                self._ending = super().end()
            else:
                self._over()
            return self._ending

    def _changed(self, state: str) -> None:
        super()._changed(state)
        if state != "LOST" or self.is_over:
            return
        self.is_lost = True
        with self._ending_lock:
            if self._ending is None:
                # kazoo's thread, which this is, has to go on to be stopped, and to answer what it holds.
                self._ending = Thread(target=self._stop, name="ledgerfs-zookeeper-end", daemon=True)
                self._ending.start()


class OneSession:
    """Reads and commits in one session, each for a bounded time. For one thread at a time."""

    __slots__ = ("_folder", "_servers", "_session", "_timeout_s", "process")

    def __init__(self, settings: Settings) -> None:
        self.process = os.getpid()
        self._servers = settings.servers
        self._folder = settings.folder
        self._timeout_s = settings.timeout_s
        self._session = ChangingSession(settings)

    @property
    def servers(self) -> str:
        """Whom it is with."""
        return self._servers

    @property
    def timeout_s(self) -> float:
        """How long it lives without a connection, and for how long a read is tried."""
        return self._timeout_s

    @property
    def is_over(self) -> bool:
        """Whether nothing can be read or written any more."""
        return self._session.is_lost or self._session.is_over

    def node(self, path: str) -> Node | None:
        """Return a node as it is now; None if there is none.

        Raises `StoreUnreachableError` if the session is over or no server answered in time, `AccessDeniedError`, `StoreError`.
        """
        try:
            return self._read(GET_DATA, path, node_at)
        except ObjectNotFoundError:
            return None

    def children(self, path: str) -> list[str]:
        """Return the names of the nodes below one; none if it is not there. Raises the errors of `node`."""
        try:
            return self._read(GET_CHILDREN, path, children_at)
        except ObjectNotFoundError:
            return []

    def catch_up(self, path: str) -> None:
        """Have all that is read from now on be no older than this moment. ``path`` is what errors name, which are those of `node`."""
        self._replies(path, [Sync(self._full(path))])

    def read_on(self, opcode: int, paths: Sequence[str], parse: Parse[Result]) -> list[Result | ObjectNotFoundError]:
        """Return what there is of each path, no older than what was read or written in this session before; raises the errors of `node`."""
        found: list[Result | ObjectNotFoundError] = []
        for start in range(0, len(paths), _MOST_AHEAD):
            some = paths[start : start + _MOST_AHEAD]
            replies = self._replies(some[0], [ReadOne(opcode, self._full(path)) for path in some])
            for path, reply in zip(some, replies, strict=True):
                if isinstance(reply, ObjectNotFoundError):
                    found.append(ObjectNotFoundError(reply.reason, key=path))
                else:
                    found.append(one_result(*reply, path, parse))
        return found

    def write(self, operations: Sequence[Operation]) -> Written:
        """Do all operations, or none; never tried again here.

        Raises `StoreUnreachableError` if the session was over before, and `UnsupportedWriteError` for more bytes than a server takes.
        """
        request = Commit([(one.opcode, one.body(self._full(one.path))) for one in operations])
        if request.size > MOST_BYTES:
            largest = max(operations, key=lambda one: len(getattr(one, "data", b"")))
            reason = f"a change of {request.size:,} bytes; a ZooKeeper takes {MOST_BYTES:,} at once"
            raise UnsupportedWriteError(reason, key=largest.path)
        self._require_alive(operations[0].path)
        try:
            answer = self._session.ask(request)
            came = self._wait(answer, time.monotonic() + 2 * self._timeout_s)
        except BaseException:
            request.withdraw()
            raise
        if not came:
            is_unsent = request.withdraw()
            self.end()
            return Written(Fate.NEVER_SENT if is_unsent else Fate.UNKNOWN, trouble="no server answered in time")
        return self._written(request, answer, len(operations))

    def end(self) -> Thread:
        """Take leave of the servers, in a thread; they drop what goes with the session."""
        return self._session.end()

    def leave(self) -> None:
        """End it, or in a forked child, which cannot, close what it inherited."""
        if self.process != os.getpid():
            self._session.forget()
        else:
            self.end()

    def lost(self) -> str:
        """Return in words that the session is over, and why."""
        trouble = f": {self._session.trouble}" if self._session.trouble else ""
        return f"the session with ZooKeeper is over ({self._servers}){trouble}"

    def _written(self, request: Commit, answer: Answer, count: int) -> Written:
        if answer.reply is not None:
            try:
                refused = refusal_in(answer.reply, count)
            except (struct.error, ValueError) as error:
                return Written(Fate.UNKNOWN, trouble=f"what was received is no answer of ZooKeeper's: {error}")
            return Written(Fate.DONE) if refused is None else Written(Fate.REFUSED, refused)
        # kazoo may have answered what it still holds: if its thread could not be woken, or Ctrl-C came while it was, which kazoo swallows.
        is_unsent = request.withdraw()
        return Written(Fate.NEVER_SENT if is_unsent else Fate.UNKNOWN, trouble=type(answer.error).__name__)

    def _read(self, opcode: int, path: str, parse: Parse[Result]) -> Result:
        """Read with a sync before. A read whose sync was lost may be older than it: both are asked for again together."""
        full = self._full(path)
        _, reply = self._replies(path, [Sync(full), ReadOne(opcode, full)])
        if isinstance(reply, ObjectNotFoundError):
            raise reply
        return one_result(*reply, path, parse)

    def _replies(self, path: str, requests: Sequence[Sync | ReadOne]) -> list[Reply | ObjectNotFoundError]:
        """Return what is answered to each request; all are sent together, and again together when a connection is lost."""
        until = time.monotonic() + self._timeout_s
        pause = _PAUSE_S
        while True:
            self._require_alive(path)
            asked = [self._session.ask(request) for request in requests]
            for answer in asked:
                if not self._wait(answer, until):
                    raise self._given_up(path)
            found = [reply for answer in asked if (reply := self._reply(answer, path)) is not None]
            if len(found) == len(asked):
                return found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _reply(self, answer: Answer, path: str) -> Reply | ObjectNotFoundError | None:
        """Return a reply, or that there is no such node; None for what may be answered otherwise, another error is raised."""
        if isinstance(answer.error, AuthFailedError):
            reason = f"ZooKeeper refuses the login; check username and password ({self._servers})"
            raise AccessDeniedError(reason, key=path)
        code = None if answer.error is None else refusal(answer.error)
        if code is None:
            return answer.reply
        error = failure(code, path)
        if isinstance(error, ObjectNotFoundError):
            return error
        raise error

    def _wait(self, answer: Answer, until: float) -> bool:
        """Wait for an answer; False if none came in time."""
        while True:
            rest = until - time.monotonic()
            if answer.wait(max(0.0, min(rest, _STEP_S))):
                return True
            if rest <= 0:
                return False

    def _require_alive(self, path: str) -> None:
        if self.is_over:
            raise StoreUnreachableError(self.lost(), key=path)

    def _given_up(self, path: str) -> StoreUnreachableError:
        """End the session of servers that are silent, which they do not know of any more, or soon will not."""
        session = self._session
        self.end()
        kind = StoreTimeoutError if session.was_connected else StoreUnreachableError
        trouble = f": {session.trouble}" if session.trouble else ""
        return kind(f"no ZooKeeper server answered in {self._timeout_s:g} s ({self._servers}){trouble}", key=path)

    def _full(self, path: str) -> str:
        return self._folder + path if path != "/" else self._folder or path

"""Ask until there is an answer: over another connection, another server or another session, for a bounded time."""

import os
import time
import weakref
from dataclasses import dataclass
from threading import Thread

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError, UnimplementedError

from ledgerfs.errors import AccessDeniedError, StoreTimeoutError, StoreUnreachableError
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.token_bucket import Bandwidth
from ledgerfs.storage.zookeeper.change_requests import Sync
from ledgerfs.storage.zookeeper.requests import ReadMany, ReadOne, Reply
from ledgerfs.storage.zookeeper.session import Answer, Session, refusal
from ledgerfs.storage.zookeeper.settings import Settings

_STEP_S = 0.25
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_END_S = 2.0
# A packet that breaks the connection twice may be what breaks it.
_LOSSES_OF_A_PACKET = 2
_LOST: int = ConnectionLoss.code


class Pace:
    """Turns for all threads of a process, in the order of their asking; without a bound they come at once."""

    __slots__ = ("_bandwidth", "_most_per_second")

    def __init__(self, most_per_second: float | None) -> None:
        self._most_per_second = most_per_second
        self._bandwidth = Bandwidth(most_per_second)

    @property
    def most_at_once(self) -> int | None:
        """How many nodes to ask for with one packet, for ten packets in a second; None without a bound."""
        return None if self._most_per_second is None else max(1, int(self._most_per_second / 10))

    def wait(self, nodes: int) -> None:
        """Wait until ``nodes`` more may be asked for."""
        self._bandwidth.wait(nodes)


@dataclass(slots=True)
class Asked:
    """A request under way, perhaps not for the first time; ``path`` is what errors name."""

    request: ReadOne | ReadMany | Sync
    path: str
    nodes: int
    session: Session
    answer: Answer
    losses: int = 0


class Asker:
    """The session of this process, opened on first use, and again after a fork or when it is lost.

    No session shows what is older than what the one before has shown.
    """

    __slots__ = ("__weakref__", "_folder", "_leaving", "_lock", "_newest", "_pace", "_session", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pace = Pace(settings.most_per_second)
        self._lock = ForkLock()
        self._folder = settings.folder
        self._newest = 0
        self._session: Session | None = None
        self._leaving: weakref.finalize[..., Asker] | None = None

    @property
    def pace(self) -> Pace:
        """When it asks."""
        return self._pace

    def full(self, path: str) -> str:
        """Return the path that the servers know a node by."""
        return self._folder + path if path != "/" else self._folder or path

    def session(self) -> Session:
        """Return the session of this process."""
        with self._lock:
            session = self._session
            if session is not None and session.process == os.getpid() and not session.is_over:
                return session
            self._drop(session)
            session = self._session = Session(self._settings, self._newest)
            self._leaving = weakref.finalize(self, _leave, session)
            self._leaving.atexit = False
            return session

    def ask(self, request: ReadOne | ReadMany | Sync, path: str, nodes: int = 1) -> Asked:
        """Send a request for so many nodes when it is its turn."""
        self._pace.wait(nodes)
        session = self.session()
        return Asked(request, path, nodes, session, session.ask(request))

    def reply(self, asked: Asked) -> Reply | int:
        """Return the reply to a request, which is sent again when its connection or session is lost.

        An error code is returned in place of a reply; that of a lost connection for a packet of several nodes that breaks connections.
        Raises `AccessDeniedError` if the server refuses the login, `StoreUnreachableError` if none answered.
        """
        began = time.monotonic()
        pause = _PAUSE_S
        while True:
            if asked.session.process == os.getpid():
                self._wait(asked, began)
                if asked.answer.reply is not None:
                    return asked.answer.reply
                code = self._refusal(asked)
                if code is not None:
                    return code
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            self._ask_again(asked)

    def close(self) -> None:
        """End the session; the next request opens another."""
        with self._lock:
            ending = self._drop(self._session)
        if ending is not None:
            ending.join(_END_S)

    def _ask_again(self, asked: Asked) -> None:
        self._pace.wait(asked.nodes)
        asked.session = self.session()
        asked.answer = asked.session.ask(asked.request)

    def _drop(self, session: Session | None) -> Thread | None:
        """Have no session any more, with the lock; return what ends it."""
        if session is None or session is not self._session:
            return None
        self._session = None
        self._newest = max(self._newest, session.newest)
        if self._leaving is not None:
            self._leaving.detach()
        if session.process == os.getpid():
            return session.end()
        session.forget()
        return None

    def _wait(self, asked: Asked, began: float) -> None:
        """Wait for an answer, and give the session up when none came in time: another may find another server."""
        while True:
            rest = began + self._bound(asked.session) - time.monotonic()
            if asked.answer.wait(max(0.0, min(rest, _STEP_S))):
                if asked.answer.reply is not None or rest > 0:
                    return
            elif rest > 0:
                continue
            raise self._given_up(asked, time.monotonic() - began)

    def _bound(self, session: Session) -> float:
        """Return how many seconds a request may take; a server that never answered is more likely missing than restarting."""
        return self._settings.timeout_s * (2 if session.was_connected else 1)

    def _given_up(self, asked: Asked, seconds: float) -> StoreUnreachableError:
        session = asked.session
        with self._lock:
            self._drop(session)
        kind = StoreTimeoutError if session.was_connected else StoreUnreachableError
        trouble = f": {session.trouble}" if session.trouble else ""
        if self._newest and not session.was_connected:
            trouble += "; a server whose data are older than what was read before is not used"
        reason = f"no ZooKeeper server answered in {seconds:.0f} s ({self._settings.servers}){trouble}"
        return kind(reason, key=asked.path)

    def _refusal(self, asked: Asked) -> int | None:
        """Return the error code that a request is done with; None if it is worth another try."""
        error = asked.answer.error
        if isinstance(error, AuthFailedError):
            reason = f"ZooKeeper refuses the login; check username and password ({self._settings.servers})"
            raise AccessDeniedError(reason, key=asked.path) from error
        code = None if error is None else refusal(error)
        if code == UnimplementedError.code:
            asked.session.reads_many = False
        if code is not None:
            return code
        # Not one that was never sent, for the session was lost before.
        asked.losses += not isinstance(error, SessionExpiredError)
        gives_up = asked.losses >= _LOSSES_OF_A_PACKET or not asked.session.reads_many
        return _LOST if gives_up and isinstance(asked.request, ReadMany) else None


def _leave(session: Session) -> None:
    """End the session of an asker that nobody uses any more."""
    if session.process == os.getpid() and not session.is_over:
        session.end()

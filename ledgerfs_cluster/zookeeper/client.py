"""Send requests until there is an answer, for a bounded time: over other connections and servers, and for reads in other sessions.

A commit is sent only once. Sent twice, it might be done twice.
"""

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    ZookeeperError,
)

from ledgerfs.errors import AccessDeniedError, StoreTimeoutError, StoreUnreachableError
from ledgerfs.forked import ForkLock
from ledgerfs_cluster.token_bucket import Bandwidth
from ledgerfs_cluster.zookeeper.node import Commit, Reply, Request
from ledgerfs_cluster.zookeeper.session import Answer, Session
from ledgerfs_cluster.zookeeper.settings import Settings

_STEP_S = 0.25
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_END_S = 2.0
_LOST: int = ConnectionLoss.code
_PASSING = (
    *(ConnectionLoss, OperationTimeoutError, RequestTimeoutError),
    *(SessionExpiredError, SessionMovedError, ThrottledOpError),
)


@dataclass(slots=True)
class Asked:
    """Requests under way together, perhaps sent again; ``path`` is used in errors, ``nodes`` is their number for the rate limit."""

    requests: Sequence[Request]
    path: str
    nodes: int
    session: Session
    answers: list[Answer]


class Client:
    """The session of this process, opened on first use.

    Parameters
    ----------
    settings
        Of the session. Their errors appear with the first request.
    is_renewed
        Whether another session is opened after a fork or when one is lost; it never shows older data than the session before. Otherwise
        all requests raise `StoreUnreachableError` once the first session is over.

    Attributes
    ----------
    pace
        Rate limit for all threads of a process, granted in order of request; unlimited by default.

    """

    __slots__ = (
        "__weakref__",
        "_is_renewed",
        "_leaving",
        "_lock",
        "_newest",
        "_session",
        "_settings",
        "folder",
        "pace",
    )

    def __init__(self, settings: Settings, *, is_renewed: bool = True) -> None:
        self._settings = settings
        self._is_renewed = is_renewed
        self.folder = settings.folder
        self.pace = Bandwidth(settings.most_per_second)
        self._lock = ForkLock()
        self._newest = 0
        self._session: Session | None = None
        self._leaving: weakref.finalize[..., Client] | None = None

    @property
    def timeout_s(self) -> float:
        """Session timeout without a connection, in seconds."""
        return self._settings.timeout_s

    @property
    def is_over(self) -> bool:
        """Whether the session is over; False before the first one."""
        return self._session is not None and self._session.is_over

    def full(self, path: str) -> str:
        """Return a node's path with the chroot."""
        return self.folder + path if path != "/" else self.folder or path

    def session(self, path: str) -> Session:
        """Return the session of this process. Raises `StoreUnreachableError` with ``path`` if it is over and cannot be renewed."""
        with self._lock:
            session = self._session
            if session is not None:
                if not (session.is_inherited or session.is_over):
                    return session
                if not self._is_renewed:
                    reason = f"the session with ZooKeeper has ended ({self._settings.servers}){_trouble(session)}"
                    raise StoreUnreachableError(reason, key=path)
                self._drop(session)
            session = self._session = Session(self._settings, self._newest)
            self._leaving = weakref.finalize(self, session.leave)
            self._leaving.atexit = False
            return session

    def ask(self, requests: Sequence[Request], path: str, nodes: int = 1) -> Asked:
        """Send requests for ``nodes`` nodes together, when the rate limit allows. Raises as `session`."""
        self.pace.wait(nodes)
        session = self.session(path)
        return Asked(requests, path, nodes, session, [session.ask(one) for one in requests])

    def replies(self, asked: Asked) -> list[Reply | int]:
        """Return the reply or error code of each request; after a lost connection or session, send that request and all later ones again.

        For a commit, which may have been done, returns the code of a lost connection instead.
        Raises `AccessDeniedError` if the server refuses the login, `StoreUnreachableError` if no server answered in time, and as `session`.
        """
        began = time.monotonic()
        pause = _PAUSE_S
        while True:
            found: list[Reply | int] = []
            if not asked.session.is_inherited:
                self._wait(asked, began)
                found = self._settled(asked)
                if len(found) == len(asked.requests):
                    return found
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            self.pace.wait(asked.nodes)
            asked.session = self.session(asked.path)
            # Later replies may be older than a lost `SYNC` would have allowed: send all later requests again.
            rest = asked.requests[len(found) :]
            asked.answers[len(found) :] = [asked.session.ask(one) for one in rest]

    def close(self) -> None:
        """End the session, but not in a forked child. The next request opens another, unless sessions are not renewed."""
        ending = self.leave()
        if ending is not None:
            ending.join(_END_S)

    def leave(self) -> Thread | None:
        """End the session in a thread, and return that; None without a session."""
        with self._lock:
            return self._drop(self._session)

    def _drop(self, session: Session | None) -> Thread | None:
        """Forget the session (the caller holds the lock); return the thread that ends it."""
        if session is None or session is not self._session:
            return None
        if self._is_renewed:
            self._session = None
        self._newest = max(self._newest, session.newest)
        if self._leaving is not None:
            self._leaving.detach()
        return session.leave()

    def _wait(self, asked: Asked, began: float) -> None:
        """Wait for the answers; drop the session if one does not arrive in time: another session may find another server."""
        for answer in asked.answers:
            while True:
                rest = began + self._bound(asked.session) - time.monotonic()
                came = answer.wait(max(0.0, min(rest, _STEP_S)))
                if came and (answer.reply is not None or rest > 0):
                    break
                if rest <= 0:
                    raise self._given_up(asked, time.monotonic() - began)

    def _bound(self, session: Session) -> float:
        """Return a request's timeout in seconds: a server that never answered is more likely missing than restarting."""
        return self._settings.timeout_s * (2 if session.was_connected else 1)

    def _given_up(self, asked: Asked, seconds: float) -> StoreUnreachableError:
        session = asked.session
        with self._lock:
            self._drop(session)
        kind = StoreTimeoutError if session.was_connected else StoreUnreachableError
        trouble = _trouble(session)
        if self._newest and not session.was_connected:
            trouble += "; servers whose data is older than data that was read before are not used"
        reason = f"no ZooKeeper server answered in {seconds:.0f} s ({self._settings.servers}){trouble}"
        return kind(reason, key=asked.path)

    def _settled(self, asked: Asked) -> list[Reply | int]:
        """Return the results of the requests, up to the first one to retry."""
        found: list[Reply | int] = []
        for request, answer in zip(asked.requests, asked.answers, strict=True):
            settled = answer.reply if answer.error is None else self._code(asked, request, answer.error)
            if settled is None:
                break
            found.append(settled)
        return found

    def _code(self, asked: Asked, request: Request, error: Exception) -> int | None:
        """Return the final error code of a request; None if it should be sent again."""
        if isinstance(error, AuthFailedError):
            reason = f"ZooKeeper refused the login; check username and password ({self._settings.servers})"
            raise AccessDeniedError(reason, key=asked.path) from error
        if isinstance(error, ZookeeperError) and not isinstance(error, _PASSING):
            code: int = error.code
            return code
        return _LOST if isinstance(request, Commit) else None


def _trouble(session: Session) -> str:
    return f": {session.trouble}" if session.trouble else ""

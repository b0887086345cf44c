"""One session with ZooKeeper: kazoo connects, keeps it alive and reconnects; this module bounds its failures.

kazoo's thread stops for good at a reply that it cannot parse, and leaves requests without an answer; it trusts any length; its timeout for
one server is that for all; its `stop` may wait forever. So here every request gets an answer, at least that the session is over; lengths
are bounded; each server has its share of the time; and ending a session does not block the caller.
"""

import atexit
import logging
import select
import sys
from threading import Event, Lock, Thread
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KeeperState

from ledgerfs.errors import UnusableUrlError
from ledgerfs.forked import start_again_in_child
from ledgerfs_cluster.zookeeper.node import Reply, Request
from ledgerfs_cluster.zookeeper.settings import Settings

_MOST_REPLY_BYTES = 256 << 20
_MOST_AT_ONCE = 1 << 20
_LONGEST_DELAY_S = 1.0
_GOING_ON = "Transition to CONNECTING"


class _Client(KazooClient):  # type: ignore[misc]  # kazoo is not typed
    """Keeps the newest transaction id: kazoo forgets it with a session, and may send pending requests in the next session."""

    def _reset(self) -> None:
        newest = getattr(self, "last_zxid", 0)
        super()._reset()
        self.last_zxid = newest


class Answer:
    """The result of one request, set in kazoo's thread: a reply or an error, the first one counts."""

    __slots__ = ("_came", "_unanswered", "error", "reply")

    def __init__(self, unanswered: "dict[Answer, None]") -> None:
        self._came = Event()
        self._unanswered = unanswered
        unanswered[self] = None
        self.reply: Reply | None = None
        self.error: Exception | None = None

    def set(self, reply: Reply) -> None:
        """Set the reply."""
        if not self._came.is_set():
            self.reply = reply
            self._arrived()

    def set_exception(self, error: Exception) -> None:
        """Set the error; re-raise an interruption, which kazoo's ``_call`` would catch while it sends and pass on as an error."""
        interruption = sys.exc_info()[1]
        if interruption is not None and not isinstance(interruption, Exception):
            raise interruption
        if not self._came.is_set():
            self.error = error
            self._arrived()

    def wait(self, seconds: float) -> bool:
        """Wait for either, and return whether it arrived."""
        return self._came.wait(seconds)

    def _arrived(self) -> None:
        self._unanswered.pop(self, None)
        self._came.set()


class Session:
    """A session of this process, used by all its threads; it is over when its server reports that, whereas kazoo would begin another.

    Reads in it are never older than earlier reads in it, nor than ``newest``, whichever server it is connected to: a server that is behind
    refuses a client that has seen more.

    Parameters
    ----------
    newest
        The last transaction that was seen before, from another session's `newest`; 0 for none.

    Attributes
    ----------
    is_inherited
        Whether this is a forked child's copy of the parent's session, without its threads.
    was_connected
        Whether a server ever answered.
    is_over
        Whether requests are refused because the session has ended.
    trouble
        The last problem, in kazoo's words.

    """

    __slots__ = (
        *("__weakref__", "_client", "_ending", "_handler", "_lock", "_unanswered"),
        *("is_inherited", "is_over", "trouble", "was_connected"),
    )

    def __init__(self, settings: Settings, newest: int = 0) -> None:
        self.is_inherited = False
        start_again_in_child(self)
        self.was_connected = False
        self.is_over = False
        self.trouble = ""
        self._unanswered: dict[Answer, None] = {}
        self._lock = Lock()
        self._ending: Thread | None = None
        self._handler = self._make_handler(settings.timeout_s / settings.hosts)
        self._client = _Client(
            settings.servers.partition("/")[0],
            timeout=settings.timeout_s,
            handler=self._handler,
            auth_data=settings.logins,
            connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": _LONGEST_DELAY_S},
            logger=self._make_logger(),
            use_ssl=settings.use_ssl,
            verify_certs=settings.verify_certs,
            check_hostname=settings.check_hostname and settings.verify_certs,
            ca=settings.ca,
            certfile=settings.certfile,
            keyfile=settings.keyfile,
        )
        self._client.last_zxid = newest
        self._client.add_listener(self._changed)
        # Until its thread runs, kazoo's state is closed, and it refuses requests.
        self._client._state = KeeperState.CONNECTING  # noqa: SLF001
        self._client.start_async()

    def after_fork(self) -> None:
        """Record that its threads are the parent's."""
        self.is_inherited = True

    @property
    def newest(self) -> int:
        """The last transaction seen in an answer; also once the session is over, and in a forked child."""
        newest: int = self._client.last_zxid
        return newest

    def ask(self, request: Request) -> Answer:
        """Send a request once there is a connection, unless this session is over."""
        answer = Answer(self._unanswered)
        if self.is_over:
            answer.set_exception(SessionExpiredError())
            return answer
        self._client._call(request, answer)  # noqa: SLF001  (kazoo's own requests go this way, and it has no public one)
        if self.is_over:
            answer.set_exception(ConnectionLoss())
        return answer

    def leave(self) -> Thread | None:
        """End it in a thread, which may take long, and return that. In a forked child only close the inherited sockets."""
        if self.is_inherited:
            self._forget()
            return None
        self._over()
        return self._ended()

    def _forget(self) -> None:
        atexit.unregister(self._handler.stop)
        connection = self._client._connection  # noqa: SLF001
        for one in (connection._socket, connection._read_sock, connection._write_sock):  # noqa: SLF001
            if one is not None:
                one.close()

    def _ended(self) -> Thread:
        """Start the thread that ends the session at the server, once."""
        with self._lock:
            if self._ending is None:
                self._ending = Thread(target=self._stop, name="ledgerfs-zookeeper-end", daemon=True)
                self._ending.start()
            return self._ending

    def _make_handler(self, seconds: float) -> Any:  # noqa: ANN401  (kazoo is not typed)
        """Return the handler with which kazoo makes threads and connections."""
        handler = SequentialThreadingHandler()
        spawn, connect = handler.spawn, handler.create_connection

        def run(work: Any, *arguments: Any) -> None:  # noqa: ANN401
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001  (whatever kazoo did not expect of a server)
                self.trouble = f"{type(error).__name__}: {error}"
            finally:
                self._over()

        def bounded(*place: Any, timeout: float = seconds, **options: Any) -> _BoundedSocket:  # noqa: ANN401
            return _BoundedSocket(connect(*place, timeout=min(timeout, seconds), **options))

        handler.spawn = lambda work, *arguments: spawn(run, work, *arguments)
        handler.create_connection = bounded
        handler.select = _ready
        return handler

    def _make_logger(self) -> logging.Logger:
        """Return a logger that keeps the last warning and prints none: kazoo's log contains logins."""
        logger = logging.Logger("ledgerfs.zookeeper", logging.WARNING)  # noqa: LOG001  (each session has its own)
        logger.addHandler(_LastWarning(self))
        return logger

    def _changed(self, state: str) -> None:
        self.was_connected = self.was_connected or state == "CONNECTED"
        if state == "LOST" and not self.is_over:
            self.is_over = True
            # This is kazoo's thread: it has to continue, to be stopped and to fail its pending requests.
            self._ended()

    def _over(self) -> None:
        self.is_over = True
        for answer in list(self._unanswered):
            answer.set_exception(ConnectionLoss())

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, OSError) as error:
            self.trouble = f"{type(error).__name__}: {error}"


class _LastWarning(logging.Handler):
    """Stores the last warning as the session's ``trouble``."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.msg != _GOING_ON:
            self._session.trouble = f"{type(error).__name__}: {error}" if error else record.getMessage()


class _BoundedSocket:
    """A socket that receives a packet in pieces, and refuses sizes that no ZooKeeper sends."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Any) -> None:  # noqa: ANN401
        self._socket = socket

    def recv(self, size: int) -> bytes:
        """Receive at most ``size`` bytes."""
        if size > _MOST_REPLY_BYTES:
            raise ConnectionError(f"the server announces an impossible reply of {size:,} bytes")
        received: bytes = self._socket.recv(min(size, _MOST_AT_ONCE))
        return received

    def pending(self) -> int:
        """Return how many bytes were received and decrypted, but not yet read."""
        pending = getattr(self._socket, "pending", None)
        return 0 if pending is None else pending()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._socket, name)


def _ready(reading: list[Any], writing: list[Any], _: list[Any], seconds: float | None) -> tuple[list[Any], ...]:
    """Replace ``select`` for kazoo, which makes an epoll for each of its waits, and misses bytes that TLS has decrypted already."""
    decrypted = [one for one in reading if isinstance(one, _BoundedSocket) and one.pending()]
    poll = select.poll()
    for some, event in ((reading, select.POLLIN), (writing, select.POLLOUT)):
        for one in some:
            poll.register(one, event)
    ready = {number for number, _ in poll.poll(0 if decrypted else None if seconds is None else seconds * 1000)}
    return (
        [one for one in reading if one in decrypted or one.fileno() in ready],
        [one for one in writing if one.fileno() in ready],
        [],
    )


def require_servers(servers: str) -> None:
    """Raise `UnusableUrlError` for a text without servers."""
    if "@" in servers:
        raise UnusableUrlError("the address must not contain a login; use the options username and password")
    try:
        collect_hosts(servers)
    except ValueError as error:
        raise UnusableUrlError(
            f"not valid ZooKeeper servers (expected host:port,host:port/path): {error}", key=servers
        ) from error

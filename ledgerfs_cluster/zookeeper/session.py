"""One session with ZooKeeper: kazoo connects, keeps it alive and comes back to it; what kazoo leaves open is closed here.

Its thread ends for good at a reply that it does not understand, and leaves requests without an answer; it believes any length; it waits as
long for one server as for all; its `stop` waits without end. So every request has an answer here, if only that the session is over; lengths
are bounded; each server has its share of the time; and whoever ends a session does not wait for it.
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
    """A client that does not go back: kazoo forgets with a session what it has seen, and may send to the next one what it still holds."""

    def _reset(self) -> None:
        newest = getattr(self, "last_zxid", 0)
        super()._reset()
        self.last_zxid = newest


class Answer:
    """What comes of one request, in kazoo's thread: a reply or an error, whichever is first."""

    __slots__ = ("_came", "_unanswered", "error", "reply")

    def __init__(self, unanswered: "dict[Answer, None]") -> None:
        self._came = Event()
        self._unanswered = unanswered
        unanswered[self] = None
        self.reply: Reply | None = None
        self.error: Exception | None = None

    def set(self, reply: Reply) -> None:
        """Take the reply."""
        if not self._came.is_set():
            self.reply = reply
            self._arrived()

    def set_exception(self, error: Exception) -> None:
        """Take the error; raises the interruption that kazoo takes for one: its ``_call`` catches whatever comes while it sends."""
        interruption = sys.exc_info()[1]
        if interruption is not None and not isinstance(interruption, Exception):
            raise interruption
        if not self._came.is_set():
            self.error = error
            self._arrived()

    def wait(self, seconds: float) -> bool:
        """Wait for either, and return whether it came."""
        return self._came.wait(seconds)

    def _arrived(self) -> None:
        self._unanswered.pop(self, None)
        self._came.set()


class Session:
    """A session of this process, used by all its threads; it ends when its server reports that it is over, where kazoo would begin another.

    Reads in it are never older than reads in it before, nor than ``newest``, whichever server it is connected to: one that is behind
    refuses a client that has seen more.

    Parameters
    ----------
    newest
        The last transaction that was seen before, as another session's `newest` has it; 0 for none.

    Attributes
    ----------
    is_inherited
        Whether a forked child has it from its parent: it has no threads there.
    was_connected
        Whether a server ever answered.
    is_over
        Whether no request is sent any more.
    trouble
        What went wrong last, in kazoo's words.

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
        # Until its thread runs, kazoo takes itself for closed, and refuses what it is asked.
        self._client._state = KeeperState.CONNECTING  # noqa: SLF001
        self._client.start_async()

    def after_fork(self) -> None:
        """Note that its threads are the parent's."""
        self.is_inherited = True

    @property
    def newest(self) -> int:
        """The last transaction that an answer has told of; also once the session is over, and in a forked child."""
        newest: int = self._client.last_zxid
        return newest

    def ask(self, request: Request) -> Answer:
        """Send a request as soon as there is a connection, unless this session is over."""
        answer = Answer(self._unanswered)
        if self.is_over:
            answer.set_exception(SessionExpiredError())
            return answer
        self._client._call(request, answer)  # noqa: SLF001  (kazoo's own requests go this way, and it has no public one)
        if self.is_over:
            answer.set_exception(ConnectionLoss())
        return answer

    def leave(self) -> Thread | None:
        """End it in a thread, which may take its time; return that. In a forked child close the inherited sockets: the parent goes on."""
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
        """Have the server end the session, once."""
        with self._lock:
            if self._ending is None:
                self._ending = Thread(target=self._stop, name="ledgerfs-zookeeper-end", daemon=True)
                self._ending.start()
            return self._ending

    def _make_handler(self, seconds: float) -> Any:  # noqa: ANN401  (kazoo is not typed)
        """Return what kazoo makes threads and connections with."""
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
        """Return a logger that keeps the last warning, and shows none: logins are among what kazoo logs."""
        logger = logging.Logger("ledgerfs.zookeeper", logging.WARNING)  # noqa: LOG001  (each session has its own)
        logger.addHandler(_LastWarning(self))
        return logger

    def _changed(self, state: str) -> None:
        self.was_connected = self.was_connected or state == "CONNECTED"
        if state == "LOST" and not self.is_over:
            self.is_over = True
            # kazoo's thread, which this is, has to go on to be stopped, and to answer what it holds.
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
    """Keeps the last warning as the trouble of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.msg != _GOING_ON:
            self._session.trouble = f"{type(error).__name__}: {error}" if error else record.getMessage()


class _BoundedSocket:
    """A socket that receives a packet in pieces, and none of a size that no ZooKeeper sends."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Any) -> None:  # noqa: ANN401
        self._socket = socket

    def recv(self, size: int) -> bytes:
        """Receive at most ``size`` bytes."""
        if size > _MOST_REPLY_BYTES:
            raise ConnectionError(f"the server claims to send {size:,} bytes")
        received: bytes = self._socket.recv(min(size, _MOST_AT_ONCE))
        return received

    def pending(self) -> int:
        """Return how many bytes were received and decrypted, and not yet taken."""
        pending = getattr(self._socket, "pending", None)
        return 0 if pending is None else pending()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._socket, name)


def _ready(reading: list[Any], writing: list[Any], _: list[Any], seconds: float | None) -> tuple[list[Any], ...]:
    """Do what ``select`` does for kazoo, which makes an epoll for each of its waits, and forgets what TLS has decrypted already."""
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
    """Raise `UnusableUrlError` for a text that names no servers."""
    if "@" in servers:
        raise UnusableUrlError("an address of ZooKeeper has no login; use the options username and password")
    try:
        collect_hosts(servers)
    except ValueError as error:
        raise UnusableUrlError(f"no servers of ZooKeeper (host:port,host:port/folder): {error}", key=servers) from error

"""Serve one mount from start to unmount, in its own process.

libfuse answers the kernel in its own threads; the main thread handles signals, which libfuse's loop would not pass to Python. So SIGTERM
can wait for open files, and SIGUSR1 can list the bucket.

A mount from ``/etc/fstab`` reads its credentials from a file of variables (``AWS_ACCESS_KEY_ID=…``) in systemd's format. A service of
``Type=notify`` notifies systemd when the mount answers, and when it stops.
"""

import atexit
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.cache.cache_folder import folder_of_environment
from ledgerfs.cache.untrusted_folders import open_own
from ledgerfs.errors import LedgerfsError, MountFailedError
from ledgerfs.fuse_mount.mount_request import MountRequest
from ledgerfs.fuse_mount.mountpoint import mounted_at
from ledgerfs.fuse_mount.noticed_signals import NoticedSignals
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.fuse_mount.unmounting import detach

logger = logging.getLogger("ledgerfs.mount")

DRAIN_SECONDS = 10.0
"""Seconds that open files stay usable after a signal to stop."""

_START_SECONDS = 60.0
_OPEN_FILES = 1 << 16
_ENDED = 0
_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def serve_bucket(request: MountRequest, ready: Callable[[Bucket], None]) -> None:
    """Mount a bucket and serve it until an unmount or a signal; call ``ready`` when the mount answers.

    Raises `LedgerfsError` if it cannot be mounted; then nothing is mounted.
    """
    binding = _binding()
    if request.env_file is not None:
        load_environment(request.env_file)
    bucket = open_bucket(
        request.url,
        request.storage_options,
        cache_dir=request.cache_dir,
        scan_options=request.scan_options,
        layout=request.layout,
        on_unreadable=request.on_unreadable,
    )
    bucket.load_catalog(listed=True)
    options = MountOptions(request.write, request.refresh, request.block_size)
    served = _Served(request, MountedBucket(bucket, options), binding)
    _leave_folder()
    with served.events.noticing([*_STOPPING, signal.SIGUSR1]):
        try:
            served.start()
            with _pid_file(request.pid_file):
                ready(bucket)
                logger.info("%s is mounted on %s", request.shown_url, request.mountpoint)
                served.until_ended()
        except BaseException:
            served.take_down()
            raise
        finally:
            if request.stats:
                _log_stats(bucket)
        served.end()


def load_environment(path: str) -> None:
    """Set the variables of a file in this process, hidden from ``ps`` and ``/proc``. Raises `MountFailedError`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file in UTF-8"
        raise MountFailedError(f"cannot read the environment variables: {reason}", key=path) from error
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith(("#", ";")):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise MountFailedError(f"line {number} is not NAME=VALUE", key=path)
        value = value.strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        os.environ[name.strip()] = value[1:-1] if is_quoted else value


def tell_systemd(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to systemd, if it started this process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), address)


class _Served:
    """The libfuse threads of one mount, and the events that the main thread waits for."""

    def __init__(self, request: MountRequest, mounted: MountedBucket, binding: ModuleType) -> None:
        self._request = request
        self._mounted = mounted
        self._binding = binding
        self.events = NoticedSignals()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="ledgerfs-serve", daemon=True)

    def start(self) -> None:
        """Mount, and return when the mount answers; raises `MountFailedError`."""
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while True:
            entry = mounted_at(self._request.mountpoint)
            if entry is not None and entry.is_ours:
                break
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise MountFailedError("libfuse could not mount the bucket", key=self._request.mountpoint)
            time.sleep(0.005)
        try:
            self._binding.widen_readahead(self._request.mountpoint)
        except OSError as error:
            raise MountFailedError("the mount does not answer", key=self._request.mountpoint) from error

    def until_ended(self) -> None:
        """Wait for an unmount, or for a signal and then unmount."""
        while True:
            event = self.events.next()
            if event == signal.SIGUSR1:
                self._mounted.refresh_in_background(logging.INFO)
            elif event in _STOPPING:
                logger.info("stopping because of %s", signal.Signals(event).name)
                self._drain()
                return
            else:
                return

    def end(self) -> None:
        """Drop unfinished files, and return; if libfuse still serves open files, exit the process."""
        self._drop_uploads()
        self._thread.join(0.5)
        logger.info("%s is no longer mounted on %s", self._request.shown_url, self._request.mountpoint)
        if self._thread.is_alive():
            # Only the exit of the process stops libfuse; readers of open files then get an error.
            atexit._run_exitfuncs()  # noqa: SLF001  (os._exit leaves them out)
            logging.shutdown()
            os._exit(0)
        if self._error is not None:
            raise MountFailedError("libfuse stopped with an error", key=self._request.mountpoint) from self._error

    def take_down(self) -> None:
        """Remove the mount after an error."""
        entry = mounted_at(self._request.mountpoint)
        if self._thread.is_alive() and entry is not None and entry.is_ours:
            with contextlib.suppress(OSError, LedgerfsError):
                detach(self._request.mountpoint, lazy=True)
        self._drop_uploads()

    def _drop_uploads(self) -> None:
        try:
            self._mounted.close()
        except OSError as error:
            logger.error("an unfinished upload could not be removed; `ledgerfs repair` removes it: %s", error)  # noqa: TRY400

    def _serve(self) -> None:
        request = self._request
        try:
            self._binding.serve(self._mounted, request.mountpoint, request.shown_url, request.fuse_options)
        except BaseException as error:  # noqa: BLE001  (the thread that waits for this one raises it)
            self._error = error
        finally:
            self.events.put(_ENDED)

    def _drain(self) -> None:
        """Unmount; detach a mount in use at once, and give open files some time."""
        if self._is_detached():
            return
        if self._is_detached(lazy=True):
            self._wait_for_files()

    def _is_detached(self, *, lazy: bool = False) -> bool:
        try:
            detach(self._request.mountpoint, lazy=lazy)
        except OSError as error:
            if lazy or error.errno != errno.EBUSY:
                logger.error("cannot unmount: %s", error)  # noqa: TRY400  (the reason is enough)
            return False
        return True

    def _wait_for_files(self) -> None:
        """Wait until no file is open, at most `DRAIN_SECONDS`, or until a second signal."""
        deadline = time.monotonic() + DRAIN_SECONDS
        if self._mounted.open_handles:
            logger.info("waiting %.0f s for %d open files", DRAIN_SECONDS, self._mounted.open_handles)
        while self._mounted.open_handles and time.monotonic() < deadline:
            if self.events.next(0.05) in {_ENDED, *_STOPPING}:
                break
        if self._mounted.open_handles:
            logger.warning("unmounting although %d files are still open", self._mounted.open_handles)


def _binding() -> ModuleType:
    """Return the binding to the kernel; raises `MountFailedError` if its libraries are not installed."""
    try:
        from ledgerfs.fuse_mount import binding
    except ImportError as error:
        raise MountFailedError("mounting needs mfusepy; pip install '.[fuse]' in a clone") from error
    except (OSError, AttributeError) as error:
        raise MountFailedError("mounting needs libfuse 3; apt-get install fuse3") from error
    return binding


@contextmanager
def _pid_file(path: str | None) -> Iterator[None]:
    if path is None:
        yield
        return
    try:
        # A killed mount may have left a file. Never write through a symbolic or hard link.
        descriptor = open_own(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise MountFailedError(f"cannot write the process id: {error.strerror}", key=path) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _log_stats(bucket: Bucket) -> None:
    stats = bucket.stats()
    logger.info(
        "stats: requests %d, bytes asked %d, bytes used %d, hits %d, waits %d, retries %d",
        *(stats.requests, stats.bytes_asked, stats.bytes_used, stats.hits, stats.waits, stats.retries),
    )


def _leave_folder() -> None:
    """Leave the current folder, which would stay busy, and raise the limit of open files."""
    cache = folder_of_environment()
    if cache is not None:
        os.environ["LEDGERFS_CACHE_DIR"] = str(cache)
    os.chdir("/")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))

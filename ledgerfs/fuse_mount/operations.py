"""The operations of a mount, without the kernel: attributes, listings, reads, and files copied in.

The mounted tree is one snapshot of the catalog. When it is too old, a background thread lists the bucket and replaces the whole tree, so
no call waits for a listing; open files stay open.
"""

import errno
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.missing_ledgers import refused_text, unplaced_text
from ledgerfs.errors import (
    LedgerExistsError,
    LedgerfsError,
    NotADirectoryPathError,
    NotFoundError,
    ObjectNotFoundError,
    ReadOnlyError,
    StaleObjectError,
)
from ledgerfs.fuse_mount.attributes import Attributes, attributes_of, directory, extended_attributes
from ledgerfs.fuse_mount.incoming_file import IncomingFile
from ledgerfs.fuse_mount.incoming_files import IncomingFiles
from ledgerfs.fuse_mount.read_files import ReadFile, ReadFiles
from ledgerfs.vfs.removal import remove_ledgers
from ledgerfs.vfs.target import require_writable, target_of
from ledgerfs.vfs.tree import Node, Tree, tree_of

if TYPE_CHECKING:
    from ledgerfs.catalog.catalog import Catalog

logger = logging.getLogger("ledgerfs.mount")

_TOPIC_DEPTH = 4
"""Path components of a topic's directory below ``entries``."""

_ATTEMPTS = 20
"""Attempts to open a file, or to find its size, while new listings replace the tree."""

_OUTDATED_SECONDS = 1.0
"""Minimum age of a listing before a replaced or removed object causes a new one."""


@dataclass(frozen=True, slots=True)
class MountOptions:
    """Options of a mounted bucket.

    Attributes
    ----------
    is_writable
        Whether files may be copied into ``entries``.
    refresh_seconds
        Age of a listing at which the bucket is listed again.
    block_size
        Block size of written ledgers, bytes; None for 64 MiB.

    """

    is_writable: bool = False
    refresh_seconds: float = 60.0
    block_size: int | None = None


class MountedBucket:
    """The operations of one mount. Thread-safe."""

    def __init__(self, bucket: Bucket, options: MountOptions) -> None:
        self._bucket = bucket
        self.options = options
        self._handles = itertools.count(1)
        self._open: dict[int, ReadFile | IncomingFile] = {}
        self.reads = ReadFiles()
        """Files that are open for reading."""
        self.incoming = IncomingFiles()
        """Files and directories that the mount shows besides the listing."""
        self._refreshing = threading.Lock()
        self._catalog: Catalog = bucket.catalog
        self._tree = tree_of(bucket)
        self._totals: tuple[int, int] | None = None
        self._listed = self._began = time.monotonic()
        self._is_outdated = self._is_refreshing = False
        self._reported: tuple[set[str], set[int], set[tuple[str, int]]] = (set(), set(), set())
        self._say_hidden()

    @property
    def open_handles(self) -> int:
        """Number of open files."""
        return len(self._open)

    def attributes(self, path: str | None, handle: int | None = None) -> Attributes:
        """Return the attributes of a path. Reads no ledger: the size of a file that is not materialized yet is an estimate.

        An open file has attributes until it is closed, even if its path is removed (None). Raises `StaleObjectError` for a replaced
        file, since the path has the size of another version.
        """
        opened = None if handle is None else self._open.get(handle)
        if path is None:
            if opened is None:
                raise _os_error(errno.ENOENT)
            return opened.shown
        try:
            shown = self._attributes(path.strip("/"))
        except NotFoundError:
            if not isinstance(opened, ReadFile):
                raise
            return opened.shown
        if isinstance(opened, ReadFile):
            _require_not_replaced(opened)
        return shown

    def entries(self, path: str) -> Iterator[tuple[str, Attributes]]:
        """Yield the names and attributes in a directory, with known sizes. Sends no request.

        Omits files that are being written.
        """
        path = path.strip("/")
        seen: set[str] = set()
        prefix = f"{path}/" if path else ""
        for node in self._children(path):
            name = node.path[len(prefix) :]
            seen.add(name)
            yield name, attributes_of(node)
        yield from self.incoming.entries(path, seen)

    def open(self, path: str) -> int:
        """Open a file for reading, materialize it if needed, and return its handle."""
        path = path.strip("/")
        self._list_if_outdated()
        if self.incoming.is_being_written(path):
            raise OSError(errno.EBUSY, f"{path}: the file is being written")
        self._find_written(path)
        for _ in range(_ATTEMPTS):
            tree = self.tree()
            opened = self._open_in(tree, path)
            if self.reads.add(opened, self._is_shown(tree)):
                return self._keep(opened)
        raise StaleObjectError("the file was replaced while it was opened; open it again", key=path)

    def read_file(self, handle: int) -> ReadFile:
        """Return the file that is open for reading; raises ``EBADF`` for any other handle."""
        opened = self._opened(handle)
        if isinstance(opened, IncomingFile):
            raise _os_error(errno.EBADF)
        return opened

    def read_into(self, handle: int, offset: int, buffer: memoryview, *, is_for_cache: bool = False) -> int:
        """Fill a buffer with bytes of an open file, and return their number, smaller than the buffer only at the end of the file.

        Reads with ``is_for_cache``, whose bytes all readers of the path get, fail while another version of it is open.
        """
        opened = self.read_file(handle)
        count = max(0, min(len(buffer), opened.file.size - offset))
        try:
            _require_not_replaced(opened)
            if is_for_cache and not self.reads.may_be_cached(opened):
                reason = "the file cannot be memory-mapped while an older version of it is open"
                raise OSError(errno.EINVAL, f"{opened.path}: {reason}")
            if count:
                opened.file.read_into(offset, buffer[:count])
            _require_not_replaced(opened)
        except (StaleObjectError, ObjectNotFoundError):
            self._is_outdated = True
            raise
        return count

    def create(self, path: str, thread: int) -> int:
        """Open a new file of ``entries`` for writing; raises for an invalid name, and if the ledger exists."""
        path = path.strip("/")
        self._require_writable(path)
        self._require_directory(path.rpartition("/")[0])
        size = self.options.block_size
        return self._keep(self.incoming.create(path, lambda: IncomingFile(self._bucket, path, thread, size)))

    def write(self, handle: int, data: bytes, offset: int, thread: int = 0) -> int:
        """Accept the next bytes of a created file."""
        opened = self._opened(handle)
        if not isinstance(opened, IncomingFile):
            raise _os_error(errno.EBADF)
        return opened.write(data, offset, thread)

    def flush(self, handle: int, thread: int) -> None:
        """Complete a file when its last writer closes it."""
        opened = self._opened(handle)
        if isinstance(opened, IncomingFile):
            self.incoming.flush(opened, thread)

    def sync(self, handle: int) -> None:
        """Raise the error of a file that is being written, if there is one. The ledger is in the bucket only after its close."""
        opened = self._opened(handle)
        if isinstance(opened, IncomingFile):
            opened.sync()

    def release(self, handle: int) -> None:
        """Release a file after its last close."""
        opened = self._open.pop(handle, None)
        if isinstance(opened, IncomingFile):
            self.incoming.release(opened)
        elif opened is not None:
            self.reads.discard(opened)

    def make_directory(self, path: str) -> None:
        """Make a directory for new files; it exists until the unmount, or while it has files."""
        path = path.strip("/")
        self._require_writable(path)
        if path.count("/") >= _TOPIC_DEPTH:
            raise OSError(errno.EPERM, f"{path}: only directories of tenants, namespaces and topics can be created")
        if path.count("/") == _TOPIC_DEPTH - 1:
            target_of(f"{path}/0.entries")
        self._require_directory(path.rpartition("/")[0])
        if path in self.incoming.made or self._is_known(path):
            raise _os_error(errno.EEXIST)
        self.incoming.made.add(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory that was made here."""
        path = path.strip("/")
        self._require_writable(path)
        if self.incoming.any_within(path) or next(iter(self.entries(path)), None) is not None:
            raise _os_error(errno.ENOTEMPTY)
        self.incoming.made.discard(path)

    def remove(self, path: str) -> None:
        """Delete a ledger, its index first, then its data object; abort a file that is being written. Its directories stay for now.

        Deletes the ledger of a new listing. Then raises `LedgerExistsError` if another writer has put a ledger there meanwhile.
        """
        path = path.strip("/")
        self._require_writable(path)
        if self.incoming.abort(path):
            return
        with self._refreshing:
            self._list()
            left = remove_ledgers(self._bucket, [path])
            self.incoming.removed(path)
            self._show(self._bucket.catalog)
        for one in left:
            logger.warning("%s", one)
            if one.is_new:
                raise LedgerExistsError(f"the ledger was removed; {one}", key=path)

    def refuse_change(self, path: str) -> None:
        """Raise for a change of an existing path: only new files of ``entries`` are writable."""
        path = path.strip("/")
        self._require_writable(path)
        raise OSError(errno.EPERM, f"{path}: ledgers cannot be changed; copy a new file into the directory")

    def refuse_writing(self, path: str) -> None:
        """Raise for opening an existing file for writing; for a removed path ``ESTALE`` makes the kernel look it up again."""
        path = path.strip("/")
        self._require_writable(path)
        if path not in self.incoming and not self._is_known(path):
            raise _os_error(errno.ESTALE)
        self.refuse_change(path)

    def resize(self, path: str, size: int) -> None:
        """Raise, unless the path is a file being written that already has this size: some tools set the size."""
        incoming = self.incoming.get(path.strip("/"))
        if incoming is None or incoming.is_there:
            self.refuse_change(path)
        else:
            incoming.resize(size)

    def require_new(self, path: str) -> None:
        """Raise unless a ledger may be written at this path, whether it exists or not."""
        self._require_writable(path.strip("/"))
        target_of(path)

    def require_incoming(self, path: str) -> None:
        """Raise as `refuse_change` unless the file is being written, or was just completed."""
        if path.strip("/") not in self.incoming:
            self.refuse_change(path)

    def extended_attributes(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes of a ledger's file; none for a directory."""
        path = path.strip("/")
        node = None if path in self.incoming else self._node(path)
        return {} if node is None or node.ref is None else extended_attributes(node.ref)

    def totals(self) -> tuple[int, int]:
        """Return the number of ledgers, and of bytes of their entries."""
        totals = self._totals
        if totals is None:
            topics = self._catalog.topics()
            totals = sum(topic.ledgers for topic in topics), sum(topic.bytes for topic in topics)
            self._totals = totals
        return totals

    def tree(self) -> Tree:
        """Return the mounted tree; if it is too old, list the bucket in the background."""
        if time.monotonic() - self._listed > self.options.refresh_seconds and not self._is_refreshing:
            self.refresh_in_background()
        return self._tree

    def refresh_in_background(self, level: int = logging.DEBUG) -> None:
        """List the bucket in a thread, and log that at ``level``. After an error, log it and show the old tree."""
        self._is_refreshing = True
        wanted = (time.monotonic(), level)
        try:
            threading.Thread(target=self._refresh, args=wanted, name="ledgerfs-refresh", daemon=True).start()
        except RuntimeError as error:  # the system cannot start another thread
            self._listed, self._is_refreshing = time.monotonic(), False
            logger.warning("the bucket could not be listed again, so the previous listing is shown: %s", error)

    def refresh(self) -> None:
        """List the bucket now, and show the new listing."""
        with self._refreshing:
            self._list()

    def close(self) -> None:
        """Drop files that are being written; files open for reading stay readable."""
        for opened in list(self._open.values()):
            if isinstance(opened, IncomingFile):
                opened.abort()

    def _refresh(self, wanted: float, level: int) -> None:
        """List the bucket, unless a listing has begun since the time ``wanted``."""
        try:
            with self._refreshing:
                if self._began < wanted:
                    self._list()
            logger.log(level, "the bucket was listed again")
        except LedgerfsError as error:
            logger.warning("the bucket could not be listed again, so the previous listing is shown: %s", error)
        except Exception:
            logger.exception(
                "the bucket could not be listed again, so the previous listing is shown: a bug in ledgerfs"
            )
        finally:
            self._listed, self._is_refreshing = time.monotonic(), False

    def _list(self) -> None:
        began = time.monotonic()
        self._is_outdated = False
        written = self.incoming.complete()
        self._show(self._bucket.refresh())
        self._began = began
        for incoming in written:
            if not self._is_known(incoming.path):
                self._look_for(incoming)

    def _look_for(self, incoming: IncomingFile) -> None:
        """Stop showing a ledger that was written here, if another client has removed it."""
        try:
            self.incoming.look_for(incoming)
        except LedgerfsError as error:
            logger.warning(
                "%s was written here but is not listed, and ledgerfs could not check whether it was deleted: %s",
                incoming.path,
                error,
            )

    def _show(self, catalog: "Catalog") -> None:
        """Show the tree of a listing."""
        self._catalog = catalog
        self._tree, self._totals = tree_of(self._bucket), None
        self._listed = time.monotonic()
        self._say_hidden()
        self.incoming.listed(self._is_known)

    def _say_hidden(self) -> None:
        """Log ledgers that no directory shows, if they changed: refused, of unknown topic, or the first of a topic and unfinished."""
        url, refused = self._bucket.url, self._catalog.refused()
        shown = set(self._catalog.managed_ledgers)
        hidden = [name for name in self._catalog.known_names if name not in shown]
        unplaced, being_written = self._catalog.unplaced(), self._catalog.being_written(hidden)
        reported = {str(one) for one in refused}, {*unplaced}, {(one.topic, one.ledger_id) for one in being_written}
        if reported != self._reported:
            if refused:
                logger.warning("%s", refused_text(url, refused))
            if unplaced or being_written:
                logger.warning("%s", unplaced_text(url, unplaced, being_written))
        self._reported = reported

    def _list_if_outdated(self) -> None:
        """List the bucket after finding an object replaced or removed, so that a retry works; at most every `_OUTDATED_SECONDS`."""
        if self._is_outdated and time.monotonic() - self._listed > _OUTDATED_SECONDS:
            try:
                self.refresh()
            except LedgerfsError as error:
                logger.warning("the bucket could not be listed again, so the previous listing is shown: %s", error)

    def _find_written(self, path: str) -> None:
        """Show the listing from the time when a file was written, if the tree lacks the file."""
        incoming = self.incoming.get(path)
        if incoming is not None and incoming.is_there and not self._is_known(path):
            with self._refreshing:
                self._show(self._bucket.catalog)
            # The mount may still show it although it was removed.
            self._is_outdated |= not self._is_known(path)

    def _attributes(self, path: str) -> Attributes:
        """Return the attributes to show; mark open files with another size as replaced."""
        for _ in range(_ATTEMPTS):
            self._list_if_outdated()
            tree = self.tree()
            incoming = self.incoming.get(path)
            if incoming is not None:
                found = incoming.shown
            else:
                node = self._node(path)
                found = directory(path) if node is None else attributes_of(node)
            shown = self.reads.show(path, found, self._is_shown(tree))
            if shown is not None:
                return shown
        raise StaleObjectError("the file was replaced while its size was read; try again", key=path)

    def _node(self, path: str) -> Node | None:
        """Return the node at a path; None for a directory that exists only in this mount."""
        try:
            return self.tree().node(path)
        except NotFoundError:
            if path in self.incoming.made:
                return None
            raise

    def _children(self, path: str) -> Iterator[Node]:
        try:
            yield from self.tree().children(path)
        except NotFoundError:
            if path not in self.incoming.made:
                raise

    def _is_known(self, path: str) -> bool:
        try:
            self._tree.node(path)
        except NotFoundError:
            return False
        return True

    def _open_in(self, tree: Tree, path: str) -> ReadFile:
        try:
            node, file = tree.node(path), tree.open(path)
        except (StaleObjectError, ObjectNotFoundError):
            self._is_outdated = True
            raise
        return ReadFile(path, file, replace(attributes_of(node), size=file.size, is_estimate=False))

    def _is_shown(self, tree: Tree) -> Callable[[], bool]:
        """Return a function that checks whether ``tree`` is still the mounted tree."""
        return lambda: self._tree is tree

    def _keep(self, opened: ReadFile | IncomingFile) -> int:
        handle = next(self._handles)
        self._open[handle] = opened
        return handle

    def _opened(self, handle: int) -> ReadFile | IncomingFile:
        try:
            return self._open[handle]
        except KeyError:
            raise _os_error(errno.EBADF) from None

    def _require_writable(self, path: str) -> None:
        if not self.options.is_writable:
            raise ReadOnlyError("the bucket is mounted read-only; mount it with --write to allow changes", key=path)
        require_writable(path)

    def _require_directory(self, path: str) -> None:
        node = self._node(path)
        if node is not None and not node.is_directory:
            raise NotADirectoryPathError("not a directory", key=path)


def _require_not_replaced(opened: ReadFile) -> None:
    if opened.is_replaced:
        raise StaleObjectError("the file was replaced after it was opened; open it again", key=opened.path)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))

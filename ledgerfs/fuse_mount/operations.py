"""What a mount does, as methods that need no kernel: attributes, listings, reads, and files copied in.

The tree that is shown is one state of the catalog. It is replaced as a whole, in the background, when it is older than it may be, so that
nobody waits for a listing; what is open stays open.
"""

import errno
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.errors import (
    LedgerExistsError,
    LedgerfsError,
    NotADirectoryPathError,
    NotFoundError,
    ReadOnlyError,
)
from ledgerfs.fuse_mount.attributes import Attributes, attributes_of, directory, extended_attributes, inode_of
from ledgerfs.fuse_mount.incoming import IncomingFile
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.tree import Node, OpenFile, Tree
from ledgerfs.vfs.writing.target import removable, require_writable, target_of
from ledgerfs.vfs.writing.write import remove_ledger

logger = logging.getLogger("ledgerfs.mount")

_TOPIC_DEPTH = 4
"""Components of a topic's directory in the view ``entries``."""


@dataclass(frozen=True, slots=True)
class MountOptions:
    """How a bucket is mounted.

    Attributes
    ----------
    is_writable
        Whether files may be copied into ``entries``.
    refresh_seconds
        How old a listing may be before the bucket is listed again.
    block_size
        Of ledgers that are written, bytes; None for 64 MiB.

    """

    is_writable: bool = False
    refresh_seconds: float = 60.0
    block_size: int | None = None


class MountedBucket:
    """The operations of one mount. Any number of threads may call them."""

    def __init__(self, bucket: Bucket, options: MountOptions) -> None:
        self._bucket = bucket
        self.options = options
        self._handles = itertools.count(1)
        self._open: dict[int, OpenFile | IncomingFile] = {}
        self._incoming: dict[str, IncomingFile] = {}
        self._made: set[str] = set()
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._tree = bucket.tree
        self._listed = time.monotonic()

    @property
    def open_handles(self) -> int:
        """How many files are open."""
        return len(self._open)

    def attributes(self, path: str) -> Attributes:
        """Return what ``stat`` shows. A file that was never rendered is rendered for it: a wrong size would cut it off for its reader."""
        path = path.strip("/")
        incoming = self._incoming.get(path)
        if incoming is not None:
            return Attributes(inode_of(path), False, incoming.size, int(time.time() * 1000))
        node = self._node(path)
        if node is None:
            return directory(path)
        shown = attributes_of(node)
        if shown.size is None:
            size = self.tree().open(path).size
            shown = Attributes(shown.inode, False, size, shown.changed_ms, shown.created_ms)
        return shown

    def names(self, path: str) -> Iterator[tuple[str, bool, int]]:
        """Yield what is in a directory: name, whether it is a directory, inode. Costs no request."""
        path = path.strip("/")
        seen: set[str] = set()
        prefix = f"{path}/" if path else ""
        for node in self._children(path):
            name = node.path[len(prefix) :]
            seen.add(name)
            yield name, node.is_directory, inode_of(node.path)
        for made in [*self._made, *self._incoming]:
            name = made[len(prefix) :]
            if made.startswith(prefix) and name and "/" not in name and name not in seen:
                yield name, made in self._made, inode_of(made)

    def open(self, path: str) -> int:
        """Open a file for reading, rendered if need be; returns its handle."""
        path = path.strip("/")
        try:
            opened = self.tree().open(path)
        except NotFoundError:
            if not self._has_come(path):
                raise
            self.refresh()
            opened = self.tree().open(path)
        return self._keep(opened)

    def read(self, handle: int, size: int, offset: int) -> bytes:
        """Return bytes of an open file, fewer than asked for only at its end."""
        opened = self._open[handle]
        if isinstance(opened, IncomingFile):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return opened.read(offset, offset + size)

    def create(self, path: str, process: int) -> int:
        """Open a new file of ``entries`` for writing; raises what is wrong with its name, or that there is such a ledger."""
        path = path.strip("/")
        self._require_writable(path)
        self._require_directory(path.rpartition("/")[0])
        with self._lock:
            if path in self._incoming and not self._incoming[path].is_there:
                raise LedgerExistsError("this file is being written already", key=path)
            incoming = IncomingFile(self._bucket, path, process, self.options.block_size)
            self._incoming[path] = incoming
        return self._keep(incoming)

    def write(self, handle: int, data: bytes, offset: int) -> int:
        """Take bytes of a file that was created."""
        return self._writing(handle).write(data, offset)

    def flush(self, handle: int, process: int) -> None:
        """Complete a file that whoever created it closes."""
        opened = self._open[handle]
        if isinstance(opened, IncomingFile):
            opened.flush(process)

    def release(self, handle: int) -> None:
        """Let go of a file that nobody has open any more."""
        opened = self._open.pop(handle)
        if isinstance(opened, IncomingFile):
            try:
                opened.release()
            finally:
                self._forget_unless_there(opened)

    def make_directory(self, path: str) -> None:
        """Make a directory for files to come; it is there as long as the mount, or something is in it."""
        path = path.strip("/")
        self._require_writable(path)
        if path.count("/") >= _TOPIC_DEPTH:
            raise OSError(errno.EPERM, "directories are tenants, namespaces and topics")
        if path.count("/") == _TOPIC_DEPTH - 1:
            target_of(f"{path}/0.entries")
        self._require_directory(path.rpartition("/")[0])
        if path in self._made or self._is_known(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._made.add(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that was made and has nothing in it."""
        path = path.strip("/")
        self._require_writable(path)
        if next(iter(self.names(path)), None) is not None:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self._made.discard(path)

    def remove(self, path: str) -> None:
        """Delete a ledger: its index, then its data object."""
        path = path.strip("/")
        self._require_writable(path)
        remove_ledger(self._bucket, removable(self.tree(), path))
        self._incoming.pop(path, None)
        self.refresh()

    def refuse_change(self, path: str) -> None:
        """Raise for whoever wants to change what is there: nothing but new files of ``entries`` can be written."""
        path = path.strip("/")
        self._require_writable(path)
        raise OSError(errno.EPERM, "ledgers never change; copy a new file in")

    def require_incoming(self, path: str) -> None:
        """Raise as `refuse_change` unless the file is being written, or just was."""
        if path.strip("/") not in self._incoming:
            self.refuse_change(path)

    def extended_attributes(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes of a ledger's file; none for a directory."""
        path = path.strip("/")
        node = None if path in self._incoming else self._node(path)
        return {} if node is None or node.ref is None else extended_attributes(node.ref)

    def totals(self) -> tuple[int, int]:
        """Return how many ledgers there are, and how many bytes their entries have."""
        topics = self._bucket.topics() if not self._refreshing.locked() else []
        return sum(topic.ledgers for topic in topics), sum(topic.bytes for topic in topics)

    def tree(self) -> Tree:
        """Return the tree that is shown, and have it looked for anew in the background if it is too old."""
        if time.monotonic() - self._listed > self.options.refresh_seconds and self._refreshing.acquire(blocking=False):
            threading.Thread(target=self._refresh, name="ledgerfs-refresh", daemon=True).start()
        return self._tree

    def refresh(self) -> None:
        """List the bucket now, and show what is there."""
        with self._refreshing:
            self._list()

    def close(self) -> None:
        """Drop what is being written; files that are read stay readable."""
        for opened in list(self._open.values()):
            if isinstance(opened, IncomingFile):
                opened.abort()

    def _refresh(self) -> None:
        try:
            self._list()
        except LedgerfsError as error:
            logger.warning("the bucket could not be listed again, what was known is shown: %s", error)
            self._listed = time.monotonic()
        finally:
            self._refreshing.release()

    def _list(self) -> None:
        began = time.monotonic()
        self._bucket.refresh()
        self._tree, self._listed = self._bucket.tree, began
        for path, incoming in list(self._incoming.items()):
            if incoming.is_there and self._is_known(path):
                self._incoming.pop(path, None)
        self._made -= {path for path in self._made if self._is_known(path)}

    def _node(self, path: str) -> Node | None:
        """Return what is at a path; None for a directory that was only made."""
        try:
            return self.tree().node(path)
        except NotFoundError:
            if path in self._made:
                return None
            raise

    def _children(self, path: str) -> Iterator[Node]:
        try:
            yield from self.tree().children(path)
        except NotFoundError:
            if path not in self._made:
                raise

    def _is_known(self, path: str) -> bool:
        try:
            self._tree.node(path)
        except NotFoundError:
            return False
        return True

    def _has_come(self, path: str) -> bool:
        incoming = self._incoming.get(path)
        return incoming is not None and incoming.is_there

    def _keep(self, opened: OpenFile | IncomingFile) -> int:
        handle = next(self._handles)
        self._open[handle] = opened
        return handle

    def _writing(self, handle: int) -> IncomingFile:
        opened = self._open[handle]
        if not isinstance(opened, IncomingFile):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return opened

    def _forget_unless_there(self, incoming: IncomingFile) -> None:
        if not incoming.is_there:
            for path, one in list(self._incoming.items()):
                if one is incoming:
                    self._incoming.pop(path, None)

    def _require_writable(self, path: str) -> None:
        if not self.options.is_writable:
            raise ReadOnlyError("the bucket is mounted for reading; --write allows more", key=path)
        require_writable(path)

    def _require_directory(self, path: str) -> None:
        node = self._node(path)
        if node is not None and not node.is_directory:
            raise NotADirectoryPathError("not a directory", key=path)

"""The tree: ``<view>/<tenant>/<namespace>/<topic>/<ledger id><suffix>``, and the node at each path (``docs/reference/tree.md``).

Paths are computed from the catalog, not stored: a topic costs a dictionary entry, a ledger nothing. A bucket has one tree for each snapshot
of its catalog, shared in the process.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import merge
from itertools import takewhile
from operator import itemgetter

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind, MissingLedger, missing_error
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import IsADirectoryPathError, LedgerfsError, NotADirectoryPathError, NotFoundError
from ledgerfs.forked import ForkLock
from ledgerfs.formats.record_header import records_size
from ledgerfs.formats.topic_names import directory_of
from ledgerfs.vfs.views import FileReader, View, make_views
from ledgerfs.vfs.views.entries import EntriesView
from ledgerfs.vfs.views.ledger_tables import LedgerTables

_MAGIC = re.compile(r"[*?[]")
_FILE_NAME = re.compile(r"(0|[1-9][0-9]{0,18})(?:@([0-9a-f-]{36}))?(\.[a-z]+)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Node:
    """One path of the tree.

    Attributes
    ----------
    path
        Path without leading or trailing slash; empty for the root.
    ref
        The ledger of a file; None for a directory, and for the file of a missing ledger.
    size
        Bytes; None for a file that must be materialized before its size is known; 0 for a directory.
    estimate
        Approximate bytes of a file of unknown size.
    missing
        The missing ledger of a file. The file is listed, so that the gap is visible, and opening it raises `MissingLedgerError`.

    """

    path: str
    ref: LedgerRef | None
    size: int | None
    estimate: int = 0
    missing: MissingLedger | None = None

    @property
    def is_directory(self) -> bool:
        """Whether the path is a directory."""
        return self.ref is None and self.missing is None

    @property
    def times_ms(self) -> tuple[int, int | None]:
        """When the ledger was complete in the bucket, and created in BookKeeper (None if unknown); ms since 1970 UTC."""
        if self.missing is not None:
            return self.missing.modified_ms, self.missing.created_ms
        return (0, None) if self.ref is None else (self.ref.uploaded_ms, self.ref.created_ms)

    def require_there(self) -> None:
        """Raise `MissingLedgerError` for the file of a missing ledger."""
        if self.missing is not None:
            error = missing_error(self.missing.topic, [self.missing])
            error.path = self.path
            raise error


@dataclass(frozen=True, slots=True)
class _Topic:
    """A directory with the files of a managed ledger's ledgers."""

    managed_ledger: str | None


_Directory = dict[str, "_Directory | _Topic"]


class Tree:
    """The paths of one snapshot of the catalog.

    Attributes
    ----------
    catalog
        The snapshot.

    ``on_read`` is called at each open, with the file's managed ledger in a tuple, and the catalog.
    """

    __slots__ = ("_on_read", "_open_ledger", "_root", "_views", "catalog")

    def __init__(
        self,
        catalog: Catalog,
        open_ledger: Callable[[LedgerRef], LedgerReader],
        views: Mapping[str, View],
        on_read: Callable[[tuple[str | None], Catalog], None] = lambda *_: None,
    ) -> None:
        self.catalog = catalog
        self._on_read = on_read
        self._open_ledger = open_ledger
        self._views = views
        self._root = _directories(catalog)

    def node(self, path: str) -> Node:
        """Return the node at ``path``; raises `NotFoundError`."""
        parts = _parts(path)
        found = self._directory(parts)
        if found is not None:
            return Node("/".join(parts), None, 0)
        return self._file(parts)

    def children(self, path: str) -> Iterator[Node]:
        """Yield the nodes of a directory: directories by name, ledgers by id. Raises `NotFoundError`, `NotADirectoryPathError`."""
        parts = _parts(path)
        found = self._directory(parts)
        if found is None:
            self._file(parts)
            raise NotADirectoryPathError("not a directory", key=path)
        prefix = "".join(f"{part}/" for part in parts)
        if isinstance(found, _Topic):
            yield from self._files(prefix, self._views[parts[0]], found)
        else:
            for name in found:
                yield Node(prefix + name, None, 0)

    def walk(self, path: str) -> Iterator[Node]:
        """Yield every node below ``path``, a directory before its contents."""
        for node in self.children(path):
            yield node
            if node.is_directory:
                yield from self.walk(node.path)

    def matching(self, path: str) -> Iterator[Node]:
        """Yield the files that a path selects: itself, all below a directory, or with ``*``, ``?`` or ``[`` those that match.

        Ledgers of a topic come by id, without further copies unless the pattern has an ``@``. Raises `NotFoundError` if there is none.
        """
        try:
            node = self.node(path)
        except NotFoundError:
            found = _MAGIC.search(path) and self._matching(path)
            if not found:
                raise
            yield from found
            return
        yield from (one for one in self.walk(node.path) if _is_first(one)) if node.is_directory else (node,)

    def _matching(self, pattern: str) -> list[Node]:
        parts = _parts(pattern)
        plain = list(takewhile(lambda part: not _MAGIC.search(part), parts))
        return [
            node
            for node in self.walk("/".join(plain))
            if _is_match(node.path.split("/"), parts)
            and (_is_first(node) or ("@" in pattern and not node.is_directory))
        ]

    def open(self, path: str) -> FileReader:
        """Open a file for reading; materialize it if needed.

        Raises `NotFoundError`, `IsADirectoryPathError`, `MissingLedgerError`, and errors of materializing, with the path in the error.
        """
        node = self.node(path)
        node.require_there()
        if node.ref is None:
            raise IsADirectoryPathError("is a directory", key=path)
        self._on_read((node.ref.managed_ledger,), self.catalog)
        view = self._views[node.path.partition("/")[0]]
        try:
            return view.open(self._open_ledger(node.ref))
        except LedgerfsError as error:
            error.path = node.path
            raise

    def _directory(self, parts: list[str]) -> "_Directory | _Topic | None":
        if not parts:
            return dict.fromkeys(self._views, self._root)
        if parts[0] not in self._views:
            raise NotFoundError(f"no such path; the top folders are {', '.join(self._views)}", key="/".join(parts))
        found: _Directory | _Topic | None = self._root
        for part in parts[1:]:
            if not isinstance(found, dict):
                return None
            found = found.get(part)
        return found

    def _file(self, parts: list[str]) -> Node:
        topic = self._directory(parts[:-1])
        view = self._views[parts[0]]
        match = _FILE_NAME.match(parts[-1])
        if isinstance(topic, _Topic) and parts[-1].endswith(view.suffix):
            for missing in self._missing_of(topic, view):
                if _missing_name(missing, view) == parts[-1]:
                    return _missing_node("/".join(parts), missing, view)
        if isinstance(topic, _Topic) and match is not None and match[3] == view.suffix:
            for ref in self.catalog.copies_of(topic.managed_ledger, int(match[1])):
                if (ref.copy == 0 and match[2] is None) or (ref.copy > 0 and match[2] == ref.uuid):
                    return Node("/".join(parts), ref, view.size(ref), view.estimate(ref))
        raise NotFoundError("no such file or directory", key="/".join(parts))

    def _files(self, prefix: str, view: View, topic: _Topic) -> Iterator[Node]:
        missing = self._missing_of(topic, view)
        unread = {one.ledger_id for one in missing if one.kind == GapKind.CONTRADICTED}
        there = (
            (ref.ledger_id, Node(f"{prefix}{_file_name(ref, view)}", ref, view.size(ref), view.estimate(ref)))
            for ref in self.catalog.refs_of(topic.managed_ledger)
            if view.lists_copies or not (ref.copy or ref.ledger_id in unread)
        )
        lacking = ((one.ledger_id, _missing_node(f"{prefix}{_missing_name(one, view)}", one, view)) for one in missing)
        yield from (node for _, node in merge(there, lacking, key=itemgetter(0)))

    def _missing_of(self, topic: _Topic, view: View) -> list[MissingLedger]:
        """Return the missing ledgers without their own file, ascending by id; contradictory copies have files."""
        missing = self.catalog.missing_of(topic.managed_ledger)
        if view.lists_copies:
            return [one for one in missing if one.kind != GapKind.CONTRADICTED]
        once = {one.ledger_id: one for one in missing if one.kind == GapKind.CONTRADICTED}
        return [one for one in missing if one.kind != GapKind.CONTRADICTED or once[one.ledger_id] is one]


def _file_name(ref: LedgerRef, view: View) -> str:
    copy = f"@{ref.uuid}" if ref.copy else ""
    return f"{ref.ledger_id}{copy}{view.suffix}"


def _missing_name(missing: MissingLedger, view: View) -> str:
    # A contradictory copy prevents reads of the ledger itself, so the gap has the ledger's own name.
    copy = f"@{missing.uuid}" if missing.is_beside and missing.kind != GapKind.CONTRADICTED else ""
    ledger = "unknown" if missing.known_id is None else missing.ledger_id
    return f"{ledger}{copy}{view.suffix}"


def _missing_node(path: str, missing: MissingLedger, view: View) -> Node:
    """Return a file that cannot be opened; its size is known only below ``entries``."""
    is_reported = view.suffix == EntriesView.suffix and missing.entries is not None and missing.bytes is not None
    size = records_size(missing.bytes or 0, (missing.entries or 0) - 1) if is_reported else None
    return Node(path, None, size, missing.bytes or 0, missing)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _directories(catalog: Catalog) -> _Directory:
    """Return the directories of every file format, each level sorted by name."""
    root: _Directory = {}
    for directory, name in sorted((directory_of(name), name or "") for name in catalog.managed_ledgers):
        level = root
        for component in directory[:-1]:
            below = level.setdefault(component, {})
            if isinstance(below, dict):
                level = below
        level[directory[-1]] = _Topic(name or None)
    return root


def tree_of(bucket: Bucket) -> Tree:
    """Return the tree of the bucket's catalog; raises as `Bucket.load_catalog`."""
    return bucket.attached(_BucketTree).tree()


class _BucketTree:
    """The file formats of one bucket, and the tree of its current catalog."""

    __slots__ = ("_bucket", "_lock", "_tree", "_views")

    def __init__(self, bucket: Bucket) -> None:
        tables = LedgerTables(bucket, bucket.scan_options)
        self._bucket = bucket
        self._views = make_views(tables, RenderedFiles(DiskFiles(cache_folder("files", bucket.cache_dir))))
        self._tree: Tree | None = None
        self._lock = ForkLock()

    def tree(self) -> Tree:
        bucket = self._bucket
        catalog = bucket.catalog  # without the lock, which would block another thread's listing
        with self._lock:
            if self._tree is None or self._tree.catalog is not catalog:
                self._tree = Tree(catalog, bucket.reader, self._views, bucket.warn_of_unplaced)
            return self._tree


def _is_match(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _is_first(node: Node) -> bool:
    """Whether a node is a file, and not of a further copy of its ledger."""
    return not node.is_directory and (node.ref is None or node.ref.copy == 0)

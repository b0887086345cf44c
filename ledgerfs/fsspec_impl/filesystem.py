"""`LedgerFileSystem`: the tree of a bucket for fsspec.

This module only adapts ``vfs`` to fsspec. It raises errors of the store, where fsspec's own ``walk``, ``find`` and ``exists`` would report
an empty directory.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fsspec
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike, stringify_path

from ledgerfs.bucket.opening import shared_bucket
from ledgerfs.cache.block_cache import process_cache
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.time_arguments import time_of
from ledgerfs.errors import (
    IsADirectoryPathError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedWriteError,
    UnusableUrlError,
)
from ledgerfs.formats.local_paths import local_path, local_text
from ledgerfs.fsspec_impl.expansion import Paths, expand, pairs, require_names
from ledgerfs.fsspec_impl.ledger_file import LedgerFile
from ledgerfs.fsspec_impl.ledger_transaction import LedgerTransaction
from ledgerfs.fsspec_impl.long_names import leaving_out_long_names, telling_long_names_at_the_end
from ledgerfs.fsspec_impl.ranges import inside, read_ranges
from ledgerfs.vfs.target import is_file_of_ledger, require_writable
from ledgerfs.vfs.tree import Node, Tree, tree_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.current_catalog import OnUnreadable
    from ledgerfs.fsspec_impl.ledger_upload import LedgerUpload
    from ledgerfs.fsspec_impl.tree_writes import TreeWrites
    from ledgerfs.writing.admission import Admission

_URL = ("ledger://", "ledger::")
_CHAINED = re.compile(r"::[A-Za-z][A-Za-z0-9+.-]*://.*\Z", re.DOTALL)
"""The part of a chained URL that only names the bucket, which an instance already has."""

_BLOCK_SIZE = 1 << 20
_COPY_SIZE = 8 << 20


class LedgerFileSystem(AbstractFileSystem):
    """Offloaded Pulsar ledgers as files, chained over any filesystem that contains a bucket.

    ``fsspec.open("ledger://entries/public/default/orders/58.entries::s3://tier")``, or
    ``fsspec.filesystem("ledger", fo="tier", target_protocol="s3", target_options={"endpoint_url": …})``.

    Instances for the same bucket and options share one catalog, which is loaded once; `invalidate_cache`, or ``ls(…, refresh=True)``, lists
    the bucket again. Instances are thread-safe, usable after a fork, and picklable.

    Parameters
    ----------
    fo
        The bucket, or a folder in it: a path of the target filesystem, or a whole URL.
    target_protocol, target_options
        Filesystem of the bucket, and its options (credentials, ``endpoint_url``).
    fs
        The filesystem itself, instead of ``target_protocol`` and ``target_options``.
    cache_dir
        Folder of the disk cache: catalogs, files of ``jsonl/``, ``arrow/``, ``parquet/``, and byte ranges of remote objects. None
        for ``$LEDGERFS_CACHE_DIR``, else ``~/.cache/ledgerfs`` without byte ranges.
    scan_options
        Options of `ledgerfs.bucket.topic.Topic.scan` for these files: ``{"private_keys": …}``, ``{"transactions": "all"}``, ….
    catalog_max_age
        Maximum age in seconds of a listing by any local process; None for ``$LEDGERFS_CATALOG_MAX_AGE``, else 0 (`open_bucket`).
    cache_bytes
        Maximum bytes of remote objects in memory, for all filesystems of this process together (`open_bucket`).
    layout
        Layout of the ledgers (`open_bucket`).
    on_unreadable
        ``skip`` lists the rest of a bucket if the store refuses objects or folders (`open_bucket`).
    write_options
        Options of all writes: ``{"block_size": bytes}`` (64 MiB), ``{"if_exists": "fail" | "skip" | "new-copy"}``. A single ``open``,
        ``put``, ``cp`` or ``pipe`` accepts them, too, and ``transform`` (`ledgerfs.messages.transforms.unbatch`).

    """

    protocol = "ledger"
    root_marker = ""
    transaction_type = LedgerTransaction
    blocksize = _COPY_SIZE

    def __init__(
        self,
        fo: str = "",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fs: AbstractFileSystem | None = None,
        *,
        cache_dir: str | None = None,
        scan_options: dict[str, Any] | None = None,
        catalog_max_age: float | None = None,
        cache_bytes: int | None = None,
        write_options: dict[str, Any] | None = None,
        layout: str = AUTO,
        on_unreadable: "OnUnreadable" = "raise",
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> None:
        super().__init__(**options)
        if fs is None and target_protocol is None:
            if "://" not in fo:
                raise UnusableUrlError(
                    "the bucket is missing: expected ledger://<path>::s3://<bucket>, or fo= and target_protocol="
                )
            fs, root = fsspec.core.url_to_fs(fo, **(target_options or {}))
        else:
            fs = fs if fs is not None else fsspec.filesystem(target_protocol, **(target_options or {}))
            root = fs._strip_protocol(fo)  # noqa: SLF001
        if cache_bytes is not None:
            process_cache.resize(cache_bytes)
        self.bucket: Bucket = shared_bucket(
            fs, root, cache_dir, scan_options, catalog_max_age, layout=layout, on_unreadable=on_unreadable
        )
        self._write_options = dict(write_options or {})

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401  (a path or a list of them)
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        stripped: str = super()._strip_protocol(_CHAINED.sub("", text) if text.startswith(_URL) else text)
        return stripped.strip("/")

    @property
    def _writes(self) -> "TreeWrites":
        # This imports numba, which reading does not need.
        from ledgerfs.fsspec_impl.tree_writes import TreeWrites

        return TreeWrites(self.bucket, self._write_options, self.transaction if self._intrans else None)

    def _together(self) -> "AbstractContextManager[Admission]":
        # This imports numba, which reading does not need.
        from ledgerfs.writing.admission import together

        return together(self.bucket)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Make the next use list the bucket again, without reading unchanged indexes."""
        self.bucket.expire()
        super().invalidate_cache(path)

    def stats(self) -> dict[str, int]:
        """Return counts of requests to the store in this process, as in `ledgerfs.storage.traffic.TrafficStats`.

        Instances for the same bucket and options count together.
        """
        return self.bucket.stats().as_dict()

    @property
    def _tree(self) -> Tree:
        return tree_of(self.bucket)

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:  # noqa: ANN401
        """List a directory, topics by name and ledgers by id; for a file, itself."""
        if refresh:
            self.invalidate_cache()
        path = self._strip_protocol(path)
        node = self._tree.node(path)
        nodes = self._tree.children(path) if node.is_directory else [node]
        return [_info(one) for one in nodes] if detail else [one.path for one in nodes]

    def info(self, path: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        """Describe one path: size, times, and for a ledger its id, topic, uuid and number of entries."""
        return _info(self._tree.node(self._strip_protocol(path)))

    def size(self, path: str) -> int:
        """Return a file's size, bytes. Materializes a file whose size is None in `info`."""
        tree = self._tree
        node = tree.node(self._strip_protocol(path))
        return tree.open(node.path).size if node.size is None else node.size

    def exists(self, path: str, **_: Any) -> bool:  # noqa: ANN401
        """Whether the path exists; raises if the store is unreachable."""
        return self._node_or_none(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether the path is a directory; needs no listing for the name of a ledger's file."""
        if is_file_of_ledger(self._strip_protocol(path)):
            return False
        node = self._node_or_none(path)
        return node is not None and node.is_directory

    def isfile(self, path: str) -> bool:
        """Whether the path is a file."""
        node = self._node_or_none(path)
        return node is not None and not node.is_directory

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: str | Callable[[OSError], object] = "omit",
        **kwargs: Any,  # noqa: ANN401
    ) -> Iterator[tuple[str, Any, Any]]:
        """Walk as ``os.walk``. ``on_error`` handles only a missing ``path``; all other errors are raised."""
        path = self._strip_protocol(path)
        tree = self._tree
        try:
            tree.node(path)
        except NotFoundError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            return
        yield from super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error="raise", **kwargs)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401  (names, or infos by name)
        """List all files below a path, sorted; for a file, itself."""
        if maxdepth is not None or "refresh" in kwargs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        path = self._strip_protocol(path)
        node = self._node_or_none(path)
        if node is None:
            return {} if detail else []
        nodes = [node] if not node.is_directory or (withdirs and path) else []
        if node.is_directory:
            nodes += [one for one in self._tree.walk(path) if withdirs or not one.is_directory]
        nodes.sort(key=lambda one: one.path)
        return {one.path: _info(one) for one in nodes} if detail else [one.path for one in nodes]

    def du(self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **_: Any) -> Any:  # noqa: ANN401
        """Sum sizes; files that are not materialized yet count as 0."""
        infos = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: info["size"] or 0 for name, info in infos.items()}
        return sum(sizes.values()) if total else sizes

    def expand_path(
        self,
        path: Paths,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> list[str]:
        """Return the matches of paths and patterns, sorted. An existing path is never a pattern; `glob` accepts only patterns."""
        return expand(self, path, recursive=recursive, maxdepth=maxdepth, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:  # noqa: ANN401
        """Return a file's bytes from ``start`` to ``end``; negative offsets count from its end."""
        opened = self._tree.open(self._strip_protocol(path))
        return opened.read_ranges([inside(opened, start, end)])[0]

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | list[int | None] | None,
        ends: int | list[int | None] | None,
        max_gap: int | None = None,  # noqa: ARG002  (adjacent ranges are always read together)
        on_error: str = "return",
        **_: Any,  # noqa: ANN401
    ) -> list[Any]:
        """Read many ranges concurrently; with ``on_error="return"`` an error replaces its range."""
        return read_ranges(lambda path: self._tree.open(self._strip_protocol(path)), paths, starts, ends, on_error)

    def get(
        self,
        rpath: Any,  # noqa: ANN401  (a path, or a list of them)
        lpath: Any,  # noqa: ANN401
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        maxdepth: int | None = None,
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> None:
        """Copy files to a local folder, as fsspec's filesystems do; patterns as in `expand_path`.

        Skips files whose names are too long for the local folder, and raises `NameTooLongError` with them at the end. Raises
        `InvalidOptionError` for a URL of a store.
        """
        lpath = [local_text(one, "lpath") for one in lpath] if isinstance(lpath, list) else local_text(lpath, "lpath")
        rpath, lpath = pairs(self, rpath, LocalFileSystem(), lpath, recursive=recursive, maxdepth=maxdepth)
        with telling_long_names_at_the_end():
            super().get(rpath, lpath, recursive=recursive, callback=callback, maxdepth=maxdepth, **options)

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,  # noqa: ANN401  (a path or a file)
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        outfile: Any = None,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        """Copy a file to a local path, under a temporary name until it is whole: a failed copy changes nothing."""
        path = self._strip_protocol(rpath)
        with leaving_out_long_names(path):
            if outfile is not None or isfilelike(lpath) or self.isdir(path):
                super().get_file(path, lpath, callback=callback, outfile=outfile, **kwargs)
            else:
                self._get_whole(path, local_path(lpath, "lpath"), callback)

    def _get_whole(self, path: str, target: Path, callback: Any) -> None:  # noqa: ANN401  (fsspec's)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Raises for a name that is too long, before the file is materialized or read.
        target.exists()
        opened = self._tree.open(path)
        callback.set_size(opened.size)
        part = target.with_name(f".{uuid4().hex}.part")
        try:
            with part.open("xb") as out:
                for start in range(0, opened.size, _COPY_SIZE):
                    end = min(start + _COPY_SIZE, opened.size)
                    opened.send(start, end, out.fileno())
                    callback.relative_update(end - start)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def put(
        self,
        lpath: Any,  # noqa: ANN401
        rpath: Any,  # noqa: ANN401  (a path, or a list of them)
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        maxdepth: int | None = None,
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> None:
        """Copy local files of records into the bucket, as fsspec's filesystems do; patterns as in `expand_path`.

        Lists the bucket once after all files; with ``if_exists="skip"`` also before.
        """
        local = LocalFileSystem()
        lpath, rpath = pairs(local, lpath, self, rpath, recursive=recursive, maxdepth=maxdepth)
        require_names(local, lpath, rpath, recursive=recursive, maxdepth=maxdepth)
        with self._together():
            super().put(lpath, rpath, recursive=recursive, callback=callback, maxdepth=maxdepth, **options)

    def pipe(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  (fsspec's)
        """Write bytes as files, as fsspec does; lists the bucket as `put` does."""
        with self._together():
            super().pipe(*arguments, **named)

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,  # noqa: ANN401
        mode: str = "overwrite",  # noqa: ARG002  (nothing is ever overwritten)
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> None:
        """Offload a local file of records: write it as a ledger of the bucket. ``options`` as for `open` with mode ``wb``.

        Checks the whole file before sending anything. Raises `LedgerExistsError`, `RefusedLedgerError`, `InvalidNameError`.
        """
        if Path(lpath).is_dir():
            self.makedirs(rpath, exist_ok=True)
            return
        callback.set_size(Path(lpath).stat().st_size)
        self._writes.put(self._strip_protocol(rpath), lpath, callback.relative_update, options)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:  # noqa: ANN401, ARG002
        """Write bytes of records as a ledger of the bucket, as `put_file`."""
        self._writes.pipe(self._strip_protocol(path), value, options)

    def copy(
        self,
        path1: Any,  # noqa: ANN401  (a path, or a list of them)
        path2: Any,  # noqa: ANN401
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **options: Any,  # noqa: ANN401  (fsspec is not typed)
    ) -> None:
        """Copy ledgers within the bucket; patterns as in `expand_path`. Raises if a listed ledger has been removed meanwhile.

        Lists the bucket as `put` does.
        """
        with self._together():
            path1, path2 = pairs(self, path1, self, path2, recursive=recursive, maxdepth=maxdepth)
            require_names(self, path1, path2, recursive=recursive, maxdepth=maxdepth)
            super().copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error=on_error or "raise", **options)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:  # noqa: ANN401
        """Copy a ledger within the bucket, as `put_file`, with its BookKeeper metadata."""
        self._writes.copy(self._strip_protocol(path1), self._strip_protocol(path2), options)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:  # noqa: ANN401
        """Delete ledgers, the index object first, then the data object. The directory of a topic without ledgers disappears.

        Deletes the ledgers of a new listing; in a transaction at its end, if all writes are confirmed. Then raises `LedgerExistsError`
        if another writer has put ledgers there meanwhile.
        """
        self.bucket.refresh()
        found = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        directories = {one for one in found if recursive and self.isdir(one)}
        self._writes.remove([one for one in found if one not in directories], sorted(directories))

    def rm_file(self, path: str) -> None:
        """Delete one ledger, as `rm`."""
        self.bucket.refresh()
        self._writes.remove([self._strip_protocol(path)])

    _rm = rm_file

    def makedirs(self, path: str, exist_ok: bool = True) -> None:  # noqa: ARG002
        """Do nothing, as object stores do: a directory exists while it has files. Refuses outside ``entries``."""
        require_writable(self._strip_protocol(path))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:  # noqa: ANN401, ARG002
        """Do nothing, as `makedirs`."""
        self.makedirs(path)

    def mv(self, path1: str, path2: str, *_: Any, **__: Any) -> None:  # noqa: ANN401, ARG002
        """Refuse: a ledger's topic is in its index object, so a rename would be a copy and a deletion, and each may fail."""
        raise UnsupportedWriteError(
            "ledgers cannot be renamed; copy the ledger to another id, then remove the old one", key=path1
        )

    def created(self, path: str) -> datetime:
        """Return when the ledger was created in BookKeeper; if unknown, when it was uploaded."""
        return time_of(self._ref(path).created_ms) or self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when the ledger's index object, and so the ledger, was complete in the bucket."""
        return time_of(self._ref(path).uploaded_ms) or datetime.fromtimestamp(0, UTC)

    def ukey(self, path: str) -> str:
        """Return a text that changes with the file: UUID of the offload, and versions of its objects."""
        info = self.info(path)
        key: str = fsspec.utils.tokenize(info["name"], info.get("uuid"), info.get("version"))
        return key

    def checksum(self, path: str) -> int:
        """Return `ukey` as a number."""
        return int(self.ukey(path), 16)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        *,
        size: int | None = None,  # noqa: ARG002  (in fsspec's pickles of files; the tree has the exact size)
        **kwargs: Any,  # noqa: ANN401
    ) -> "LedgerFile | LedgerUpload":
        path = self._strip_protocol(path)
        if mode in {"wb", "xb"}:
            return self._writes.create(path, block_size=block_size, **kwargs)
        if mode != "rb":
            raise ReadOnlyError.at(path)
        return LedgerFile(self, path, self._tree.open(path), block_size=block_size or _BLOCK_SIZE, **kwargs)

    def _node_or_none(self, path: str) -> Node | None:
        tree = self._tree  # a missing bucket is an error, not a missing path
        try:
            return tree.node(self._strip_protocol(path))
        except NotFoundError:
            return None

    def _ref(self, path: str) -> LedgerRef:
        node = self._tree.node(self._strip_protocol(path))
        node.require_there()
        if node.ref is None:
            raise IsADirectoryPathError("a directory has no creation or modification time", key=node.path)
        return node.ref

    def _refuse(self, path: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401
        raise ReadOnlyError.at(", ".join(path) if isinstance(path, list | dict) else str(path))

    touch = rmdir = _refuse


def _info(node: Node) -> dict[str, Any]:
    """Return a path's description; times are seconds since 1970 UTC, as ``fsspec.fuse`` and others expect."""
    ref, missing = node.ref, node.missing
    info: dict[str, Any] = {"name": node.path, "size": node.size, "type": "directory" if node.is_directory else "file"}
    if missing is not None:
        of_ledger = {"ledger_id": missing.known_id, "topic": missing.topic, "missing": missing.why}
        return {**info, "mtime": missing.modified_ms / 1000, **of_ledger}
    if ref is None:
        return info
    info |= {name: getattr(ref, name) for name in ("ledger_id", "topic", "entries", "uuid")}
    info |= {"mtime": ref.uploaded_ms / 1000, "version": "/".join(stat.version for _, stat in reversed(ref.objects))}
    return info if ref.created_ms is None else {**info, "created": ref.created_ms / 1000}

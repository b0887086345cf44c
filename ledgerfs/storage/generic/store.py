"""Use any fsspec filesystem as an object store: Google Cloud Storage, Azure, memory, SFTP, a cache in front of another one.

fsspec has no argument for the version of a read. For Google and Azure, obstore reads with a version; elsewhere this store compares the
version if a read is too short, and the caller if the bytes are inconsistent. A try cannot be interrupted; the filesystem sets its time-out.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

from ledgerfs.errors import AccessDeniedError, BucketNotFoundError, LedgerfsError, ObjectNotFoundError, StoreError
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.descriptors import write_all
from ledgerfs.storage.failures import replaced, status_of, translate, wrong_length
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.generic.info import seconds_of, stat_of_info
from ledgerfs.storage.generic.obstore_client import CloudClient, cloud_client
from ledgerfs.storage.generic.writes import FsspecWrites
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.obstore_gets import UnexplainedError, is_usable
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs.storage.reading_threads import FILESYSTEM_THREADS, outcome_of, read_at_once
from ledgerfs.storage.retries import Tries, retry
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ledgerfs.formats.buffers import Buffer

_log = logging.getLogger("ledgerfs.store")

Result = TypeVar("Result")

_WITHOUT_FOLDERS = (("gcsfs.core", "GCSFileSystem"), ("adlfs.spec", "AzureBlobFileSystem"))
_THREADS = 16
_METADATA_KEYS = ("metadata", "Metadata")


class FsspecStore:
    """A folder of any fsspec filesystem."""

    __slots__ = ("_cloud", "_handle", "_has_answered", "_in_memory", "_may_use_obstore", "_root", "traffic")

    def __init__(self, handle: FsspecHandle, root: str) -> None:
        self._handle = handle
        self._root = root
        self._in_memory = handle.is_kind("fsspec.implementations.memory", "MemoryFileSystem")
        self._has_answered = False
        self._cloud: CloudClient | None = None
        self._may_use_obstore = any(handle.is_kind(*kind) for kind in _WITHOUT_FOLDERS)
        self.traffic = Traffic()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._handle, self._root))

    @property
    def url(self) -> str:
        """The folder as a URL."""
        return without_credentials(str(self._handle.fs.unstrip_protocol(self._root)))

    @property
    def is_remote(self) -> bool:
        """True, except for a filesystem in memory."""
        return not self._in_memory

    @property
    def writes(self) -> FsspecWrites:
        """The write side."""
        return FsspecWrites(self._handle, self._root, self.traffic)

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield the filesystem's listing, without its cache; fsspec lists whole folders."""
        items = self._ask(Asked("LIST", self.url), lambda _: self._listed())
        found = {stat.key: stat for stat in map(self._sized, items) if stat.key.startswith(prefix)}
        yield list(found.values())

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield the filesystem's listing of everything below a folder, or list folder by folder."""
        if not has_own_find(self._handle.fs):
            yield from self._walked(folder)
            return
        path = self._path(folder.rstrip("/"))
        try:
            found = self._ask(Asked("LIST", folder), lambda _: self._found(path))
        except AccessDeniedError as error:
            yield [ObjectStat(folder, 0, 0, "", error.reason)]
            return
        yield [replace(self._sized(info), key=folder + below) for below, info in found if below]

    def _walked(self, folder: str) -> Iterator[list[ObjectStat]]:
        """List folder by folder; fsspec's own walk silently omits folders that it cannot list."""
        waiting = [folder]
        while waiting:
            key = waiting.pop()
            try:
                items = self._listed_folder(key)
            except AccessDeniedError as error:
                yield [ObjectStat(key, 0, 0, "", error.reason)]
                continue
            except ObjectNotFoundError:  # deleted since it was listed
                continue
            found = [replace(stat, key=key + stat.key) for stat in map(self._sized, items)]
            waiting += [stat.key for stat in found if stat.key.endswith("/")]
            yield [stat for stat in found if not stat.key.endswith("/")] if found else [ObjectStat(key, 0, 0, "")]

    def head(self, key: str) -> ObjectHead:
        """Request one object's information."""
        info = self._info(key, self._path(key))
        metadata = next((info[name] for name in _METADATA_KEYS if isinstance(info.get(name), Mapping)), None)
        return ObjectHead(replace(stat_of_info({**info, "name": key}), key=key), metadata)

    def read(self, request: ReadRequest) -> bytes:
        """Read one range, with retries."""
        return bytes(self._read(request))

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Read in another thread, or at once from memory."""
        return read_at_once(self._read, request) if self._in_memory else FILESYSTEM_THREADS.start(self._read, request)

    def _read(self, request: ReadRequest) -> "Buffer":
        if request.end <= request.start:
            return b""
        return self._ask(Asked.to_read(request), lambda sent: self._cat(request, sent))

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Read into memory, then write to the descriptor."""
        write_all(descriptor, self.read(request))

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Read in threads, even for asynchronous filesystems, since some wrap a synchronous one."""
        outcome = partial(outcome_of, self.read)
        return map(outcome, requests) if self._in_memory else ordered_map(outcome, requests, _THREADS, "ledgerfs-read")

    def _sized(self, info: Mapping[str, Any]) -> ObjectStat:
        """Return the listed object; request its size if the listing has none (HTTP)."""
        if info.get("type") == "directory" or info.get("size") is not None:
            return stat_of_info(info)
        single = self._info(str(info["name"]), info["name"])
        if single.get("size") is None:
            raise StoreError(
                "this store does not report the sizes of objects, which ledgerfs needs", key=str(info["name"])
            )
        return stat_of_info({**info, **single, "name": info["name"]})

    def _ask(self, asked: Asked, exchange: Callable[[Sent], Result]) -> Result:
        """Make one request with the retries of `retries`; raises only our errors."""
        tries = Tries(asked.size, is_first_contact=not self._has_answered)

        def attempt() -> Result:
            with Sent(asked, self.traffic, tries.number) as sent:
                return exchange(sent)

        try:
            result = retry(attempt, tries, asked.tell_retry)
        except Exception as error:
            raise tries.given_up(error, translate(error, asked.key, asked.offset)) from error
        self._has_answered = True
        return result

    def _listed(self) -> list[dict[str, Any]]:
        fs = self._handle.fs
        fs.invalidate_cache(self._root)
        try:
            items: list[dict[str, Any]] = fs.ls(self._root, detail=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            if self._is_empty_prefix():
                return []
            raise BucketNotFoundError("no such bucket or folder", key=self.url) from error
        return items

    def _is_empty_prefix(self) -> bool:
        """Return whether this is an empty prefix in an existing bucket, since Google's and Azure's stores have no folders."""
        bucket, slash, _ = self._root.partition("/")
        is_flat = any(self._handle.is_kind(*kind) for kind in _WITHOUT_FOLDERS)
        return bool(slash) and is_flat and bool(self._handle.fs.exists(bucket))

    def _listed_folder(self, key: str) -> list[dict[str, Any]]:
        path = self._path(key.rstrip("/"))
        return self._ask(Asked("LIST", key), lambda _: self._children(path))

    def _children(self, path: str) -> list[dict[str, Any]]:
        """Return the items directly in a folder; none if it is no longer a folder."""
        fs = self._handle.fs
        fs.invalidate_cache(path)
        try:
            items: list[dict[str, Any]] = fs.ls(path, detail=True)
        except NotADirectoryError:
            return []
        # Some filesystems list the folder itself.
        return [item for item in items if item["name"].strip("/") != path.strip("/")]

    def _found(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the objects below a path, each with its relative path."""
        fs = self._handle.fs
        fs.invalidate_cache(path)
        items: dict[str, dict[str, Any]] = fs.find(path, detail=True)
        return [(name.partition(f"{path}/")[2], info) for name, info in items.items()]

    def _info(self, key: str, path: str) -> dict[str, Any]:
        info: dict[str, Any] = self._ask(Asked("HEAD", key), lambda _: self._handle.fs.info(path))
        return info

    def _cat(self, request: ReadRequest, sent: Sent) -> "Buffer":
        cloud = self._cloud_client()
        if cloud is None:
            return self._cat_by_fsspec(request, sent)
        try:
            return cloud.get(request, sent, lambda: self.head(request.key))
        except UnexplainedError as error:
            self.traffic.count(requests=1, retries=1, bytes_asked=request.end - request.start)
            body = self._cat_by_fsspec(request, sent)
            # The filesystem succeeded, so obstore failed and not the store.
            _log.debug("%s is read through fsspec and not through obstore: %s", self.url, error)
            self._may_use_obstore = False
            return body
        except OSError as error:
            if status_of(error) == 416:
                raise self._wrong_length(request, 0) from error
            raise

    def _cloud_client(self) -> CloudClient | None:
        """Return obstore's client, created once in each process."""
        if not self._may_use_obstore or not is_usable():
            return None
        if self._cloud is None:
            self._cloud = cloud_client(self._handle, self._root)
            self._may_use_obstore = self._cloud is not None
        return self._cloud

    def _cat_by_fsspec(self, request: ReadRequest, sent: Sent) -> bytes:
        data: bytes = self._handle.fs.cat_file(self._path(request.key), start=request.start, end=request.end)
        sent.received = len(data)
        if self._in_memory and request.version:
            # Here asking costs nothing.
            created = seconds_of(self._handle.fs.created(self._path(request.key)))
            if not request.version.startswith(f"{created:.6f}/"):
                raise replaced(request.key, request.start)
        if len(data) != request.end - request.start:
            raise self._wrong_length(request, len(data))
        return data

    def _wrong_length(self, request: ReadRequest, got: int) -> LedgerfsError:
        """Return the error for a body of the wrong length."""
        try:
            return wrong_length(request, self.head(request.key).stat, got)
        except LedgerfsError as error:
            return error

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def has_own_find(fs: AbstractFileSystem) -> bool:
    """Return whether a filesystem has its own ``find``; for a wrapper, whether the wrapped one has."""
    while isinstance(inner := getattr(fs, "fs", None), AbstractFileSystem):
        fs = inner
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is not AsyncFileSystem._find  # noqa: SLF001  (the method that filesystems override)
    return type(fs).find is not AbstractFileSystem.find

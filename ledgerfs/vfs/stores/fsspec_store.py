"""Any fsspec filesystem as an object store: Google Cloud Storage, Azure, memory, SFTP, a cache in front of another one.

A read cannot name a version here, since fsspec has no word for it: the version is compared when a read comes out short, and by the caller
when what was read contradicts itself.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ledgerfs.errors import BucketNotFoundError, LedgerfsError, StaleObjectError, StoreError
from ledgerfs.vfs.descriptors import write_all
from ledgerfs.vfs.object_store import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.vfs.stores.concurrent_reads import read_in_threads
from ledgerfs.vfs.stores.failures import ShortBodyError, is_transient, retry_delays, short_body, translate
from ledgerfs.vfs.stores.fsspec_handle import FsspecHandle, without_credentials

_TIME_KEYS = ("LastModified", "last_modified", "updated", "modified", "mtime", "created")
_VERSION_KEYS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "uid")
_METADATA_KEYS = ("metadata", "Metadata")


class FsspecStore:
    """A folder of a filesystem that fsspec knows."""

    __slots__ = ("_handle", "_in_memory", "_root")

    def __init__(self, handle: FsspecHandle, root: str) -> None:
        self._handle = handle
        self._root = root
        self._in_memory = handle.is_kind("fsspec.implementations.memory", "MemoryFileSystem")

    @property
    def url(self) -> str:
        """The folder as a URL."""
        return without_credentials(str(self._handle.fs.unstrip_protocol(self._root)))

    def list_pages(self) -> Iterator[list[ObjectStat]]:
        """Yield the filesystem's own listing, asked anew."""
        fs = self._handle.fs
        try:
            fs.invalidate_cache(self._root)
            items = fs.ls(self._root, detail=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BucketNotFoundError("no such bucket or folder", key=self.url) from error
        except Exception as error:
            raise translate(error, self.url) from error
        yield [self._sized(item) for item in items]

    def head(self, key: str) -> ObjectHead:
        """Ask for one object's information."""
        try:
            info = self._handle.fs.info(self._path(key))
        except Exception as error:
            raise translate(error, key) from error
        metadata = next((info[name] for name in _METADATA_KEYS if isinstance(info.get(name), Mapping)), None)
        return ObjectHead(_stat_of({**info, "name": key}), metadata)

    def read(self, request: ReadRequest) -> bytes:
        """Read one range, tried again when it breaks."""
        if request.end <= request.start:
            return b""
        delays = retry_delays()
        while True:
            try:
                data = self._handle.fs.cat_file(self._path(request.key), start=request.start, end=request.end)
                return self._checked(request, data)
            except Exception as error:
                delay = next(delays, None)
                if delay is None or not is_transient(error):
                    raise self._final(error, request) from error
                time.sleep(delay)

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Read, and write what was read."""
        write_all(descriptor, self.read(request))

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Read in threads: also asynchronous filesystems, since some of them only wrap one that is not."""
        if self._in_memory:
            return (self._outcome(request) for request in requests)
        return read_in_threads(self.read, requests)

    def _sized(self, info: Mapping[str, Any]) -> ObjectStat:
        """Return the listed object; one of a listing without sizes (HTTP) is asked for by itself."""
        if info.get("type") == "directory" or info.get("size") is not None:
            return _stat_of(info)
        try:
            single = self._handle.fs.info(info["name"])
        except Exception as error:
            raise translate(error, str(info["name"])) from error
        if single.get("size") is None:
            raise StoreError("this store tells no sizes, without which nothing can be read", key=str(info["name"]))
        return _stat_of({**info, **single, "name": info["name"]})

    def _outcome(self, request: ReadRequest) -> bytes | LedgerfsError:
        try:
            return self.read(request)
        except LedgerfsError as error:
            return error

    def _checked(self, request: ReadRequest, data: bytes) -> bytes:
        if self._in_memory and request.version:
            # Here asking costs nothing.
            created = _seconds(self._handle.fs.created(self._path(request.key)))
            if not request.version.startswith(f"{created:.6f}/"):
                raise StaleObjectError("the object was replaced; open it again", key=request.key)
        if len(data) != request.end - request.start:
            raise short_body(request.key, request.start, request.end - request.start, len(data))
        return data

    def _final(self, error: Exception, request: ReadRequest) -> LedgerfsError:
        """Return what to raise in the end: a short body may mean that the object was replaced."""
        if isinstance(error, ShortBodyError) and request.version:
            try:
                self._require_version(request)
            except LedgerfsError as changed:
                return changed
        return translate(error, request.key)

    def _require_version(self, request: ReadRequest) -> None:
        if self.head(request.key).stat.version != request.version:
            raise StaleObjectError("the object was replaced; open it again", key=request.key)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def _stat_of(info: Mapping[str, Any]) -> ObjectStat:
    key = str(info["name"]).rstrip("/").rpartition("/")[2]
    if info.get("type") == "directory":
        return ObjectStat(f"{key}/", 0, 0, "")
    modified = next((_seconds(info[name]) for name in _TIME_KEYS if info.get(name) is not None), 0.0)
    size = int(info.get("size") or 0)
    # Listings and single look-ups of one filesystem differ in quotes and in how they write a time.
    version = next((str(info[name]).strip('"') for name in _VERSION_KEYS if info.get(name)), f"{modified:.6f}/{size}")
    return ObjectStat(key, size, int(modified * 1000), version)


def _seconds(moment: Any) -> float:  # noqa: ANN401  (each filesystem has its own)
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return 0.0
    return float(moment)

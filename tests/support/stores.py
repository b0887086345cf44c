"""Stores that remember what was asked of them, and a filesystem as those of clouds."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from fsspec.implementations.memory import MemoryFileSystem

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import ArchivedObjectError
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest


class CountingStore:
    """Passes reads on, and remembers them."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.requests: list[ReadRequest] = []

    def read(self, request: ReadRequest) -> bytes:
        self.requests.append(request)
        return self.store.read(request)

    def start(self, request: ReadRequest) -> Any:
        self.requests.append(request)
        return self.store.start(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    @property
    def bytes_read(self) -> int:
        return sum(request.end - request.start for request in self.requests)


class LateStore(CountingStore):
    """Lists the objects of an earlier moment, as pages of a listing are of different ones.

    Attributes
    ----------
    unlisted
        Keys that are not listed yet.
    listed_still
        Objects that are listed, although they may have gone.
    is_refusing
        Whether HEAD of what is not listed is refused.
    heads
        How many objects were asked for by HEAD.

    """

    unlisted: tuple[str, ...] = ()
    listed_still: tuple[ObjectStat, ...] = ()
    is_refusing = False
    heads = 0

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        for page in self.store.list_pages(prefix):
            yield [stat for stat in page if stat.key not in self.unlisted]
        yield list(self.listed_still)

    def head(self, key: str) -> ObjectHead:
        self.heads += 1
        if self.is_refusing and key in self.unlisted:
            raise ArchivedObjectError("the object is archived", key=key)
        found: ObjectHead = self.store.head(key)
        return found


def counting_bucket(url: str) -> tuple[Bucket, CountingStore]:
    """Return a bucket whose catalog is loaded, and the store that counts from now on."""
    store = CountingStore(open_bucket(url).store)
    bucket = Bucket(store)
    bucket.load_catalog()
    store.requests.clear()
    return bucket, store


class LateFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """As Google's and Azure's: nothing of a file shows before it is closed, and files have user metadata."""

    protocol = "late"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    metadata: ClassVar[dict[str, dict[str, str]]] = {}

    def _open(self, path: str, mode: str = "rb", *_: Any, **options: Any) -> Any:
        if mode != "wb" or "data" in options:
            return super()._open(path, mode, data=options.get("data"))
        return _LateFile(self, path, options.get("metadata", {}))

    def info(self, path: str, **options: Any) -> Any:
        found = super().info(path, **options)
        return {**found, "metadata": self.metadata.get(found["name"])}


class _LateFile:
    def __init__(self, fs: LateFileSystem, path: str, metadata: dict[str, str]) -> None:
        self._fs, self._path, self._data, self._metadata, self.closed = fs, path, b"", metadata, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: Any) -> int:
        self._data += bytes(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with MemoryFileSystem._open(self._fs, self._path, "wb") as file:
                file.write(self._data)
            self._fs.metadata[self._path] = self._metadata

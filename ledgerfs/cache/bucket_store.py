"""The store for reads of a bucket: caches bytes of remote objects, and reports changed objects."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ledgerfs.cache.block_cache import BlockCache, process_cache
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.disk_ranges import DiskRanges
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.descriptors import write_all
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectHead, ObjectStat, Pending, ReadRequest
from ledgerfs.storage.traffic import Traffic


class BucketStore:
    """`ObjectStore` that caches bytes of remote objects, and shares reads under way.

    Caches only requests with a version: the cache key is bucket, object key and version, so its bytes are never stale.

    Parameters
    ----------
    store
        The underlying store.
    identity
        Identity of the bucket; None if it has none: then this store does not share cached bytes with other stores.
    on_change
        Called if an object was replaced or deleted after the listing.
    files
        The disk cache, shared with other processes; only with an identity.
    cache_dir
        The folder of the disk cache, as the user named it.

    """

    __slots__ = ("_cache", "_disk", "_identity", "_on_change", "cache_dir", "store")

    def __init__(
        self,
        store: RawStore,
        identity: str | None = None,
        on_change: Callable[[], None] = lambda: None,
        files: DiskFiles | None = None,
        *,
        cache: BlockCache = process_cache,
        cache_dir: str | None = None,
    ) -> None:
        self.store = store
        self._identity: Hashable = object() if identity is None else identity
        self._on_change = on_change
        self._disk = None if files is None or identity is None else DiskRanges(store, files, identity)
        self._cache = cache
        self.cache_dir = cache_dir

    def __reduce__(self) -> tuple[object, ...]:
        identity = self._identity if isinstance(self._identity, str) else None
        # A pickled store caches only in memory.
        return (partial(BucketStore, cache_dir=self.cache_dir), (self.store, identity))

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return self.store.url

    @property
    def traffic(self) -> Traffic:
        """The counts of the store and of the used bytes."""
        return self.store.traffic

    @property
    def is_remote(self) -> bool:
        """Whether reads are slow, and therefore cached."""
        return self.store.is_remote

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """List the underlying store."""
        return self.store.list_pages(prefix)

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """List a folder of the underlying store."""
        return self.store.list_folder(folder)

    def head(self, key: str) -> ObjectHead:
        """Send the request to the underlying store."""
        with self._watching():
            return self.store.head(key)

    def read(self, request: ReadRequest) -> bytes:
        """Return the bytes, from memory if cached."""
        if self.store.is_remote:
            data = self.start(request).result()
            return data if isinstance(data, bytes) else bytes(data)
        with self._watching():
            data = self.store.read(request)
        self.traffic.count(bytes_used=len(data))
        return data

    def start(self, request: ReadRequest) -> Pending:
        """Begin to read the ranges that are neither cached nor under way."""
        if not (self.store.is_remote and request.version):
            return _WatchedRead(self, self.store.start(request))

        def fetch(start: int, end: int) -> Future[Buffer]:
            return (self._disk or self.store).start(replace(request, start=start, end=end))

        name = self._name(request.key, request.version)
        read = self._cache.begin(name, request.start, request.end, fetch, keep=request.is_kept)
        self.traffic.count(hits=not (read.fetched or read.waits), waits=read.waits)
        return _WatchedRead(self, read)

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Write the bytes, in the kernel if the store is a local folder."""
        if self.store.is_remote:
            write_all(descriptor, self.read(request))
            return
        with self._watching():
            self.store.send(request, descriptor)
        self.traffic.count(bytes_used=request.end - request.start)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Read from the underlying store: small objects, read whole and once."""
        for outcome in self.store.read_many(requests):
            if isinstance(outcome, bytes):
                self.traffic.count(bytes_used=len(outcome))
            yield outcome

    def keep(self, request: ReadRequest, data: bytes) -> None:
        """Cache the bytes of a request that was read by `read_many`, if this store caches."""
        if not (self.store.is_remote and request.version):
            return

        def fetched(start: int, end: int) -> Future[Buffer]:
            done: Future[Buffer] = Future()
            done.set_result(data[start - request.start : end - request.start])
            return done

        self._cache.begin(self._name(request.key, request.version), request.start, request.end, fetched).cancel()

    def forget(self, stat: ObjectStat) -> None:
        """Drop the cached ranges of an object."""
        self._cache.forget(self._name(stat.key, stat.version))
        if self._disk is not None:
            self._disk.forget(stat)

    def expire(self) -> None:
        """Expire the bucket's listing: the next use lists it again."""
        self._on_change()

    def is_current(self, stat: ObjectStat) -> bool:
        """Ask the underlying store for the version; return true if it has none."""
        is_current = not stat.version or self.head(stat.key).stat.version == stat.version
        if not is_current:
            self._on_change()
        return is_current

    def _name(self, key: str, version: str) -> Hashable:
        return self._identity, key, version

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            yield
        except (StaleObjectError, ObjectNotFoundError):
            self._on_change()
            raise


@dataclass(frozen=True, slots=True)
class _WatchedRead:
    """A read that counts its bytes."""

    store: BucketStore
    read: Pending

    def result(self) -> Buffer:
        """Return the bytes."""
        with self.store._watching():  # noqa: SLF001  (closely related classes)
            data = self.read.result()
        self.store.traffic.count(bytes_used=len(data))
        return data

    def cancel(self) -> object:
        """Cancel the read."""
        return self.read.cancel()

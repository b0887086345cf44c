"""The store that a bucket is read through: with a cache if reads are slow, and with a notice when objects change."""

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
    """`ObjectStore` that keeps bytes of remote objects in the process's cache, and shares reads under way.

    Only requests that name a version are kept: bytes are named by bucket, key and version, so they are never out of date.

    Parameters
    ----------
    store
        The store itself.
    identity
        Identity of the bucket; None if it has none: then this store shares the cache with no other.
    on_change
        Called when an object was replaced or deleted since it was listed.
    files
        Where ranges are kept for other processes, too; only with an identity.
    cache_dir
        The folder for what is kept on disk, as the user named it.

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
        # A pickled store keeps ranges in memory alone.
        return (partial(BucketStore, cache_dir=self.cache_dir), (self.store, identity))

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return self.store.url

    @property
    def traffic(self) -> Traffic:
        """The counts of the store, and of the bytes that were used."""
        return self.store.traffic

    @property
    def is_remote(self) -> bool:
        """Whether reads are slow, and therefore kept."""
        return self.store.is_remote

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """List the store itself."""
        return self.store.list_pages(prefix)

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """List a folder of the store itself."""
        return self.store.list_folder(folder)

    def head(self, key: str) -> ObjectHead:
        """Ask the store itself."""
        with self._watching():
            return self.store.head(key)

    def read(self, request: ReadRequest) -> bytes:
        """Return the bytes, from memory if they are there."""
        if self.store.is_remote:
            data = self.start(request).result()
            return data if isinstance(data, bytes) else bytes(data)
        with self._watching():
            data = self.store.read(request)
        self.traffic.count(bytes_used=len(data))
        return data

    def start(self, request: ReadRequest) -> Pending:
        """Begin to read the ranges that are neither here nor under way."""
        if not (self.store.is_remote and request.version):
            return _WatchedRead(self, self.store.start(request))

        def fetch(start: int, end: int) -> Future[Buffer]:
            return (self._disk or self.store).start(replace(request, start=start, end=end))

        name = self._name(request.key, request.version)
        read = self._cache.begin(name, request.start, request.end, fetch, keep=request.is_kept)
        self.traffic.count(hits=not (read.fetched or read.waits), waits=read.waits)
        return _WatchedRead(self, read)

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Write the bytes, by the kernel if the store is a local folder."""
        if self.store.is_remote:
            write_all(descriptor, self.read(request))
            return
        with self._watching():
            self.store.send(request, descriptor)
        self.traffic.count(bytes_used=request.end - request.start)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Read from the store itself: these are small objects, read whole and once."""
        for outcome in self.store.read_many(requests):
            if isinstance(outcome, bytes):
                self.traffic.count(bytes_used=len(outcome))
            yield outcome

    def keep(self, request: ReadRequest, data: bytes) -> None:
        """Cache the bytes of a request that was read by `read_many`, if others would be."""
        if not (self.store.is_remote and request.version):
            return

        def fetched(start: int, end: int) -> Future[Buffer]:
            done: Future[Buffer] = Future()
            done.set_result(data[start - request.start : end - request.start])
            return done

        self._cache.begin(self._name(request.key, request.version), request.start, request.end, fetched).cancel()

    def forget(self, stat: ObjectStat) -> None:
        """Drop the kept ranges of an object."""
        self._cache.forget(self._name(stat.key, stat.version))
        if self._disk is not None:
            self._disk.forget(stat)

    def expire(self) -> None:
        """Have the bucket listed again when it is next used."""
        self._on_change()

    def is_current(self, stat: ObjectStat) -> bool:
        """Ask the store itself for the version; true if it has none."""
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
    """A read of a bucket, which counts its bytes."""

    store: BucketStore
    read: Pending

    def result(self) -> Buffer:
        """Return the bytes."""
        with self.store._watching():  # noqa: SLF001  (the two are one subject)
            data = self.read.result()
        self.store.traffic.count(bytes_used=len(data))
        return data

    def cancel(self) -> object:
        """Give the read up."""
        return self.read.cancel()

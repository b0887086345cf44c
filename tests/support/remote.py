"""A local folder that passes for a remote store, and remembers what it was asked for."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import LedgerfsError
from ledgerfs.forked import ForkLock
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from ledgerfs.formats.buffers import Buffer


class RemoteFolder:
    """`RawStore` whose reads are done at once, or wait until they are told to be done."""

    cluster = None
    disks = None

    is_remote = True

    def __init__(self, folder: Path | str, *, at_once: bool = True) -> None:
        self._store = LocalStore(str(folder))
        self.at_once = at_once
        self._lock = ForkLock()
        self.url = f"remote://{folder}"
        self.traffic = Traffic()
        self.requests: list[ReadRequest] = []
        self.futures: list[Future[Buffer]] = []

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        return self._store.list_pages(prefix)

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        return self._store.list_folder(folder)

    def head(self, key: str) -> ObjectHead:
        return self._store.head(key)

    def read(self, request: ReadRequest) -> bytes:
        return bytes(self.start(request).result())

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        future: Future[Buffer] = Future()
        with self._lock:
            self.requests.append(request)
            self.futures.append(future)
        if self.at_once:
            self._answer(request, future)
        return future

    def answer(self) -> None:
        """Do what waits."""
        with self._lock:
            waiting = list(zip(self.requests, self.futures, strict=True))
        for request, future in waiting:
            if not future.done():
                self._answer(request, future)

    def _answer(self, request: ReadRequest, future: "Future[Buffer]") -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(self._store.read(request))
            except LedgerfsError as error:
                future.set_exception(error)

    def send(self, request: ReadRequest, descriptor: int) -> None:
        self._store.send(request, descriptor)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        return self._store.read_many(requests)

    def clear(self) -> None:
        """Forget what was asked for."""
        self.requests.clear()
        self.futures.clear()

    @property
    def data_requests(self) -> list[ReadRequest]:
        return [request for request in self.requests if not request.key.endswith("-index")]

    @property
    def bytes_asked(self) -> int:
        return sum(request.end - request.start for request in self.data_requests)


def remote_ledger(url: str, ledger_id: int = 1, budget: int = 1 << 30) -> tuple[LedgerReader, RemoteFolder]:
    """Return the reader of a ledger in a local bucket as if that was remote, and the store."""
    remote = RemoteFolder(url.removeprefix("file://"))
    ref = Bucket(remote).catalog.find(ledger_id)
    return PulsarLedgerReader(BucketStore(remote, cache=BlockCache(budget)), ref), remote

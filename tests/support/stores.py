"""Stores that remember what was asked of them."""

from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.storage.objects import ReadRequest


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


def counting_bucket(url: str) -> tuple[Bucket, CountingStore]:
    """Return a bucket whose catalog is loaded, and the store that counts from now on."""
    store = CountingStore(open_bucket(url).store)
    bucket = Bucket(store)
    bucket.load_catalog()
    store.requests.clear()
    return bucket, store

"""The read interface of object stores.

Keys are relative to the opened bucket, or folder in it. All implementations (in the folders beside this module) raise only errors of
`ledgerfs.errors`, never return a body of the wrong length, and work in several threads and after a fork.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from ledgerfs.errors import LedgerfsError
from ledgerfs.storage.objects import ObjectHead, ObjectStat, Pending, ReadRequest
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ledgerfs.formats.buffers import Buffer
    from ledgerfs.storage.object_writes import WritableStore


class ObjectStore(Protocol):
    """A bucket of opaque objects, read side."""

    @property
    def url(self) -> str:
        """The bucket's URL, without credentials."""
        ...

    @property
    def traffic(self) -> Traffic:
        """The counts of this process's requests to the store."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a request takes as long as many kilobytes, so that read-ahead, joined reads and caching help."""
        ...

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield all objects whose keys begin with ``prefix``, some thousand at a time, in any order; raises `BucketNotFoundError`.

        A folder appears as one object, whose key ends with ``/``.
        """
        ...

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield all objects below a folder (its key ends with ``/``); empty folders only if the store has them.

        A folder below it that refuses access appears as one object with the reason in ``refused``; the listing goes on.
        """
        ...

    def head(self, key: str) -> ObjectHead:
        """Request one object's size, version and user metadata; raises `ObjectNotFoundError`."""
        ...

    def read(self, request: ReadRequest) -> bytes:
        """Return exactly the requested bytes.

        Raises `StaleObjectError` if the object no longer has ``request.version``, `ObjectNotFoundError`, `AccessDeniedError`, and
        `StoreError` if the store still fails, or sends other bytes, after retries in bounded time.
        """
        ...

    def start(self, request: ReadRequest) -> Pending:
        """Begin to read; its result equals that of `read`.

        Cancelling frees the connection of an interruptible store (S3); for others it only prevents a waiting read from beginning.
        """
        ...

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Write exactly the requested bytes to a file descriptor; raises as `read`, and `OSError` of the descriptor unchanged.

        After an error some of the bytes may have been written.
        """
        ...

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Yield the bytes of each request in order, with several requests under way.

        For a failed request, yields its error and goes on.
        """
        ...


class RawStore(ObjectStore, Protocol):
    """A writable store without a cache; its reads are futures."""

    @property
    def writes(self) -> "WritableStore":
        """The write side."""
        ...

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Begin to read."""
        ...


class KeepingStore(ObjectStore, Protocol):
    """A store with a cache."""

    @property
    def cache_dir(self) -> str | None:
        """The folder of the disk cache, as the user named it; None for the default."""
        ...

    def keep(self, request: ReadRequest, data: bytes) -> None:
        """Cache the bytes of a request that was read by `read_many`."""
        ...

    def forget(self, stat: ObjectStat) -> None:
        """Drop the cached bytes of a damaged object, so that the next read goes to the store."""
        ...

    def expire(self) -> None:
        """Expire the bucket's listing after a change: the next use lists it again."""
        ...

    def is_current(self, stat: ObjectStat) -> bool:
        """Ask the store whether an object still has this version; if not, expire the bucket's listing."""
        ...

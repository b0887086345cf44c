"""The seam to storage: what ledgerfs needs of any object store.

Keys are relative to the bucket (or the folder in it) that was opened. Implementations are in the folders beside this module; all of them
raise only errors of `ledgerfs.errors`, never return a body of the wrong length, and may be used from several threads and after a fork.
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
        """Where the bucket is, without credentials."""
        ...

    @property
    def traffic(self) -> Traffic:
        """The counts of this process's requests to the store."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a request costs as much time as many kilobytes: then reading ahead, joining reads and keeping bytes pay off."""
        ...

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield all objects whose keys begin with ``prefix``, some thousand at a time, in any order; raises `BucketNotFoundError`.

        A folder is one object, whose key ends with ``/``.
        """
        ...

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield all objects in a folder (its key ends with ``/``) and in those below it; empty folders only if the store has them.

        A folder among them that may not be listed is one object, whose ``refused`` says why; the others are still listed.
        """
        ...

    def head(self, key: str) -> ObjectHead:
        """Ask for one object's size, version and user metadata; raises `ObjectNotFoundError`."""
        ...

    def read(self, request: ReadRequest) -> bytes:
        """Return exactly the requested bytes.

        Raises `StaleObjectError` when the object is not of ``request.version`` any more, `ObjectNotFoundError`, `AccessDeniedError`, and
        `StoreError` when the store still fails, or sends other bytes, after retries in bounded time.
        """
        ...

    def start(self, request: ReadRequest) -> Pending:
        """Begin to read; the result is what `read` returns or raises.

        Cancelling it frees the connection if the store can be interrupted (S3); otherwise it only keeps a waiting read from beginning.
        """
        ...

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Write exactly the requested bytes to a file descriptor; raises as `read`, and `OSError` of the descriptor unchanged.

        After an error some of the bytes may have been written.
        """
        ...

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Yield the bytes of each request in order, with several requests under way at a time.

        A request that fails yields its error instead, so that one bad object does not hide the others.
        """
        ...


class RawStore(ObjectStore, Protocol):
    """A store without a cache, whose reads are futures, and which can be written to."""

    @property
    def writes(self) -> "WritableStore":
        """Its write side."""
        ...

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Begin to read."""
        ...


class KeepingStore(ObjectStore, Protocol):
    """A store with a cache."""

    @property
    def cache_dir(self) -> str | None:
        """The folder for what is kept on disk, as the user named it; None for the usual one."""
        ...

    def keep(self, request: ReadRequest, data: bytes) -> None:
        """Cache the bytes of a request that was read by `read_many`."""
        ...

    def forget(self, stat: ObjectStat) -> None:
        """Drop the cached bytes of an object, in which damage was found: the next read asks the store itself."""
        ...

    def expire(self) -> None:
        """Have the bucket listed again when it is next used: who reads it knows that it has changed."""
        ...

    def is_current(self, stat: ObjectStat) -> bool:
        """Ask the store whether an object is still of this version; if not, the bucket will be listed again."""
        ...

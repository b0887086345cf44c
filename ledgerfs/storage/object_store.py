"""The seam to storage: what ledgerfs asks of any object store.

Keys are relative to the bucket (or the folder in it) that was opened. Implementations are in the rooms below; all of them raise only
errors of `ledgerfs.errors`, never return a body of another length than asked, and may be used from several threads and after a fork.
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
        """What was asked of the store in this process."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a read costs the time of many kilobytes: then reading ahead, joining reads and keeping bytes pay."""
        ...

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield all objects whose keys begin so, some thousand at a time, in any order; raises `BucketNotFoundError`.

        What is in folders is one object each, whose key ends with ``/``.
        """
        ...

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield all objects in a folder (its key ends with ``/``) and in those below it; empty folders only where the store has such.

        A folder among them that may not be listed is one object, whose ``refused`` says why; the others are listed all the same.
        """
        ...

    def head(self, key: str) -> ObjectHead:
        """Ask for one object's size, version and user metadata; raises `ObjectNotFoundError`."""
        ...

    def read(self, request: ReadRequest) -> bytes:
        """Return exactly the bytes asked for.

        Raises `StaleObjectError` when the object is not of ``request.version`` any more, `ObjectNotFoundError`, `AccessDeniedError`, and
        `StoreError` when the store still fails, or sends other bytes than those, after retries in bounded time.
        """
        ...

    def start(self, request: ReadRequest) -> Pending:
        """Begin to read; the result is what `read` returns or raises.

        Cancelling it gives the connection back where the store can be interrupted (S3), and else keeps a read from beginning.
        """
        ...

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Write exactly the bytes asked for to a file descriptor; raises as `read`, and `OSError` of the descriptor as it is.

        After an error some of the bytes may have been written.
        """
        ...

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Yield the bytes of each request in order, several requests being under way at a time.

        A request that fails yields its error in its place, so that one bad object does not hide the others.
        """
        ...


class RawStore(ObjectStore, Protocol):
    """A store that keeps nothing, tells when a read is done, and can be written to."""

    @property
    def writes(self) -> "WritableStore":
        """Its write side."""
        ...

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Begin to read."""
        ...


class KeepingStore(ObjectStore, Protocol):
    """A store that may keep what it read."""

    def forget(self, stat: ObjectStat) -> None:
        """Drop what is kept of an object, in which damage was found: the next read asks the store itself."""
        ...

    def is_current(self, stat: ObjectStat) -> bool:
        """Ask the store whether an object is still of this version, and have the bucket listed again where it is not."""
        ...

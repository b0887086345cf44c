"""The write side of the seam to storage: what writing ledgers needs of an object store.

An object appears whole or not at all, and never replaces another one: the second of two writers gets `ObjectExistsError`. Keys are as in
`ledgerfs.storage.object_store`; the folders of a key that has any are made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was begun and not ended: it takes space, and no listing shows it.

    Attributes
    ----------
    key
        The object that it would become.
    token
        The store's name for the upload.
    begun_ms
        When it began, ms since 1970 UTC; if the store does not tell, when it was last written to.

    """

    key: str
    token: str
    begun_ms: int


class Upload(Protocol):
    """One object that is uploaded part by part. For one thread.

    Nothing is sent before the first part ends. Every upload has to be completed or aborted.
    """

    def write(self, data: Buffer) -> None:
        """Add bytes to the current part; they are copied, or sent, when this returns."""
        ...

    def replace_front(self, data: bytes) -> None:
        """Overwrite the first bytes of the current part."""
        ...

    def end_part(self) -> None:
        """End the current part, and begin to send it; the next write begins another. Raises the error of an earlier part that failed."""
        ...

    def complete(self) -> ObjectStat:
        """Wait for all parts, and make the object of them.

        Returns the object that the store then has, its size and number of parts checked. Raises `ObjectExistsError` if the object exists by
        now, and `StoreError`, after which there is no object; after its subclass `UncertainWriteError` there may be one.
        """
        ...

    def abort(self) -> None:
        """Give the upload up and free its parts in the store; logs a failure to do so. May be called at any time."""
        ...


@runtime_checkable
class CopyingUpload(Protocol):
    """An `Upload` whose store makes parts of other objects itself: their bytes do not come here."""

    def copy_part(self, source: ObjectStat, start: int, end: int) -> None:
        """Make bytes ``start`` to ``end``, exclusive, of an object of the same bucket the next part.

        Between ends of parts only. Raises `StaleObjectError` when the object is not of this version any more, `ObjectNotFoundError`, and
        the store's errors.
        """
        ...


class WritableStore(Protocol):
    """A bucket, write side."""

    @property
    def smallest_part(self) -> int:
        """Least bytes of every part of an upload, except the last."""
        ...

    @property
    def most_parts(self) -> int:
        """How many parts an upload has at most."""
        ...

    @property
    def keeps_metadata(self) -> bool:
        """Whether objects keep user metadata, which a broker requires."""
        ...

    @property
    def can_set_metadata(self) -> bool:
        """Whether `set_metadata` works."""
        ...

    def make_folder(self) -> None:
        """Make the folder that was opened, if the store has folders; a bucket of an object store is for its owner to make."""
        ...

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> Upload:
        """Return an upload whose parts have at most ``part_size`` bytes; costs no request. It holds up to four parts in memory."""
        ...

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        """Write a small object in one request; raises as `Upload.complete`."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        ...

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:
        """Change the user metadata of an object of exactly this version; its bytes stay. Raises `UnsupportedWriteError` if it cannot."""
        ...

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield the uploads that were begun and not ended, by any writer."""
        ...

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Abort an upload of another writer; one that has ended meanwhile is not an error."""
        ...

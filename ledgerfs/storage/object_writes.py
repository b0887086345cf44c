"""The write interface of object stores.

An object appears whole or not at all, and never replaces another one: the second of two writers gets `ObjectExistsError`. Keys are as in
`ledgerfs.storage.object_store`; a write creates the folders of its key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was begun and not ended: it uses space, but listings of objects omit it.

    Attributes
    ----------
    key
        The key of the object that it would create.
    token
        The store's name for the upload.
    begun_ms
        Start of the upload, ms since 1970 UTC; the time of the last write if the store does not report the start.

    """

    key: str
    token: str
    begun_ms: int


class Upload(Protocol):
    """An upload of one object, part by part. For one thread.

    Sends nothing before the first part ends. The caller must complete or abort every upload.
    """

    def write(self, data: Buffer) -> None:
        """Add bytes to the current part; copies or sends them before it returns."""
        ...

    def replace_front(self, data: bytes) -> None:
        """Overwrite the first bytes of the current part."""
        ...

    def end_part(self) -> None:
        """End the current part and begin to send it; the next write begins another. Raises the error of an earlier part."""
        ...

    def complete(self) -> ObjectStat:
        """Wait for all parts, create the object, and check its size and number of parts.

        Raises `ObjectExistsError` if the object already exists, and `StoreError`, after which there is no object; after its subclass
        `UncertainWriteError` there may be one.
        """
        ...

    def abort(self) -> None:
        """Abort the upload and free its parts in the store, at any time; logs a failure."""
        ...


@runtime_checkable
class CopyingUpload(Protocol):
    """An `Upload` whose store copies parts from other objects itself, without a download."""

    def copy_part(self, source: ObjectStat, start: int, end: int) -> None:
        """Use bytes ``start`` to ``end``, exclusive, of an object of the same bucket as the next part.

        Call it only between parts. Raises `StaleObjectError` if the object no longer has this version, `ObjectNotFoundError`, and the
        store's errors.
        """
        ...


class WritableStore(Protocol):
    """A bucket, write side."""

    @property
    def smallest_part(self) -> int:
        """Least size of each part of an upload except the last, in bytes."""
        ...

    @property
    def most_parts(self) -> int:
        """Largest number of parts of an upload."""
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
        """Create the opened folder, if the store has folders; never creates a bucket of an object store."""
        ...

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> Upload:
        """Return an upload with parts of at most ``part_size`` bytes, up to four of them in memory; sends no request."""
        ...

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        """Write a small object in one request; raises as `Upload.complete`."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        ...

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:
        """Change the user metadata of an object of exactly this version, not its bytes; raises `UnsupportedWriteError`."""
        ...

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield the uploads that were begun and not ended, by any writer."""
        ...

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Abort an upload of another writer; not an error if it has ended meanwhile."""
        ...

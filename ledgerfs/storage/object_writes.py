"""The write side of the seam to storage: what offloading asks of an object store.

An object appears whole or not at all, and never in the place of another one: whoever comes second gets `ObjectExistsError`. Keys are as in
`ledgerfs.storage.object_store`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that somebody began and did not end; nobody sees it in a listing, and it takes space.

    Attributes
    ----------
    key
        The object that it was to become.
    token
        The store's name for the upload.
    begun_ms
        When it began, ms since 1970 UTC; where the store does not tell, when it was last written to.

    """

    key: str
    token: str
    begun_ms: int


class Upload(Protocol):
    """One object on its way into a store, part by part. For one thread.

    Nothing is sent before the first part ends. Whoever begins an upload completes or aborts it.
    """

    def write(self, data: Buffer) -> None:
        """Add bytes to the present part; they are copied, or gone, when this returns."""
        ...

    def replace_front(self, data: bytes) -> None:
        """Put bytes in the place of the first ones of the present part."""
        ...

    def end_part(self) -> None:
        """End the present part, and begin to send it; the next write begins another. Raises what sending earlier parts raised."""
        ...

    def complete(self) -> ObjectStat:
        """Wait for all parts, and make them the object.

        Returns what the store has then, its size and the number of its parts checked. Raises `ObjectExistsError` when there is such an
        object by now, and `StoreError`, after which nothing is there, or, with `UncertainWriteError`, perhaps the object.
        """
        ...

    def abort(self) -> None:
        """Give the upload up and free what the store holds of it; logs when the store does not let us. May be called at any time."""
        ...


class WritableStore(Protocol):
    """A bucket, write side."""

    @property
    def smallest_part(self) -> int:
        """Bytes that every part of an upload has at least, but for the last."""
        ...

    @property
    def most_parts(self) -> int:
        """How many parts an upload has at most."""
        ...

    @property
    def keeps_metadata(self) -> bool:
        """Whether objects keep user metadata, which a broker looks for."""
        ...

    @property
    def can_set_metadata(self) -> bool:
        """Whether `set_metadata` works."""
        ...

    def make_folder(self) -> None:
        """Make the folder that was opened, where the store has such things; a bucket of an object store is for its owner to make."""
        ...

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> Upload:
        """Return an upload whose parts have at most ``part_size`` bytes; costs no request. It holds up to four parts in memory."""
        ...

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        """Write a small object at once; raises as `Upload.complete`."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
        ...

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:
        """Give an object, of exactly this version, other user metadata; its bytes stay. Raises `UnsupportedWriteError` where it cannot."""
        ...

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield the uploads that were begun and not ended, by whomever."""
        ...

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Abort an upload of somebody else; one that is not there any more is no error."""
        ...

"""Objects of a store as values: an entry of a listing, a request for bytes, and the bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ledgerfs.formats.buffers import Buffer


class Pending(Protocol):
    """A read under way."""

    def result(self) -> "Buffer":
        """Wait for the bytes; raises the error of the read."""
        ...

    def cancel(self) -> object:
        """Give the bytes up."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """One object in a listing.

    Attributes
    ----------
    key
        Relative to the opened bucket; that of a folder ends with ``/``, and its other fields are unknown.
    size
        Bytes.
    modified_ms
        Last modification, ms since 1970 UTC; 0 if the store does not tell.
    version
        The ETag, or this store's equivalent: changes whenever the object does. Empty if the store has none.
    refused
        Why the content of a folder, or of a link that may lead to one, is unknown; its other fields are unknown, too. Otherwise empty.
    archived
        The storage class, if the object must be restored from an archive before it can be read. A listing also has it for objects that
        were restored, or that may be in no archive: only the answer to a HEAD is exact. Otherwise empty.

    """

    key: str
    size: int
    modified_ms: int
    version: str
    refused: str = ""
    archived: str = ""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """The answer to a HEAD of one object; ``metadata`` is None in stores that keep no user metadata."""

    stat: ObjectStat
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Bytes ``start`` (included) to ``end`` (excluded) of an object; with ``version``, only of that version.

    ``is_kept`` says whether a cache may keep them: one pass over many bytes would push all others out of it. With ``is_checked`` they are
    compared with the checksum that the store keeps of the whole object, if it sends one (S3); that takes ten times as long for small ones.
    """

    key: str
    start: int
    end: int
    version: str = ""
    is_kept: bool = True
    is_checked: bool = False

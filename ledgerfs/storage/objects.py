"""Values of object stores: an entry of a listing, a request for bytes, and a pending read."""

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
        """Cancel the read."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """One object in a listing.

    Attributes
    ----------
    key
        Relative to the opened bucket. A folder's key ends with ``/``; its other fields are unknown.
    size
        Bytes.
    modified_ms
        Last modification, ms since 1970 UTC; 0 if the store does not report it.
    version
        The ETag, or this store's equivalent, which changes with the object. Empty if the store has none.
    refused
        The reason why a folder, or a link that may lead to one, was not read; its other fields are unknown. Otherwise empty.
    archived
        The storage class, if the object must be restored from an archive before it can be read; otherwise empty. Exact only from a HEAD:
        a listing also shows it for restored objects, and for some that are not in an archive.

    """

    key: str
    size: int
    modified_ms: int
    version: str
    refused: str = ""
    archived: str = ""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """The answer to a HEAD of one object; ``metadata`` is None in stores without user metadata."""

    stat: ObjectStat
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Bytes ``start`` (inclusive) to ``end`` (exclusive) of an object; with ``version``, only of that version.

    Without ``is_kept``, a cache does not store them: one iteration over many bytes would evict all others. With ``is_checked``, they are
    compared with the store's checksum of the whole object, if it sends one (S3); for small objects that takes ten times as long.
    """

    key: str
    start: int
    end: int
    version: str = ""
    is_kept: bool = True
    is_checked: bool = False

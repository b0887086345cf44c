"""Objects of a store as values: what a listing tells, what is asked for, and the bytes that come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ledgerfs.formats.buffers import Buffer


class Pending(Protocol):
    """A read that was begun."""

    def result(self) -> "Buffer":
        """Wait for the bytes; raises what reading them raised."""
        ...

    def cancel(self) -> object:
        """Tell that nobody wants them any more."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What a listing tells of an object.

    Attributes
    ----------
    key
        Relative to the opened bucket; ends with ``/`` for a folder, of which nothing else is known.
    size
        Bytes.
    modified_ms
        Last modification, ms since 1970 UTC; 0 where the store does not tell.
    version
        The ETag, or what stands in its place in this store: changes whenever the object does. Empty where the store has nothing.
    refused
        Why nobody can tell what is in a folder, or behind a link that may lead to one: nothing else is known of it. Empty for all others.

    """

    key: str
    size: int
    modified_ms: int
    version: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What the store tells of one object when asked for it; ``metadata`` is None in stores that keep no user metadata."""

    stat: ObjectStat
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Bytes ``start`` (included) to ``end`` (excluded) of an object; with ``version``, of that version or not at all.

    ``is_kept`` says whether they are worth a place in memory afterwards: what passes over many bytes once would push out all others.
    """

    key: str
    start: int
    end: int
    version: str = ""
    is_kept: bool = True

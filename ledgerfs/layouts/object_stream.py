"""Read ledgers in objects: the common part of their readers, and streams of several ledgers.

Fetches parts of the next ledger while the end of one is read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ledgerfs.cache.object_window import Parts, open_parts
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnDamage, Span, Stream
from ledgerfs.errors import EntryRangeError, LedgerfsError
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

_OPENED_AHEAD = 4


class ObjectLedgerReader(LedgerReader, ABC):
    """`LedgerReader` of a ledger with a data and an index object, which plans its reads ahead."""

    __slots__ = ("ref", "store")

    def __init__(self, store: KeepingStore, ref: LedgerRef) -> None:
        self.ref = ref
        self.store = store

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.store, self.ref))

    @property
    def is_remote(self) -> bool:
        """Whether the store is remote."""
        return self.store.is_remote

    @property
    def stream(self) -> Stream:
        """`stream_objects`, the same for all ledgers in objects."""
        return stream_objects

    @property
    def data(self) -> ObjectStat:
        """The object with the entries."""
        return self.ref.object("data")

    @abstractmethod
    def expect(self) -> None:
        """Begin to fetch the objects for the first read; returns at once."""

    @abstractmethod
    def plan(self, first: int, last: int, *, is_known: bool = False) -> Iterator[ReadRequest]:
        """Yield the reads that `batches_of` needs for many entries: small ones first, unless all will be read."""

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the same entries as `read`, some MiB at a time; with ``on_damage``, which is called, skips damaged ones."""
        return self.batches_of(None, first, last, on_damage)

    @abstractmethod
    def batches_of(
        self, parts: Parts | None, first: int, last: int, on_damage: OnDamage | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield the same from the parts of `plan`; other ledgers' parts may surround them. Opens its own parts for None."""

    def reread(self) -> None:
        """Drop the data object from caches."""
        self.store.forget(self.data)

    def request(self, start: int, end: int, *, is_kept: bool = True) -> ReadRequest:
        """Return a request for bytes of the data object, in the version of the catalog."""
        return ReadRequest(self.data.key, start, end, self.data.version, is_kept)

    @property
    def index_request(self) -> ReadRequest:
        """A request for all of the index object."""
        stat = self.ref.object("index")
        return ReadRequest(stat.key, 0, stat.size, stat.version)

    def require_range(self, first: int, last: int) -> None:
        """Raise `EntryRangeError` for entries that the ledger does not have."""
        if not 0 <= first <= last <= self.last_entry:
            reason = f"entries {first} to {last} were requested; the ledger has entries 0 to {self.last_entry}"
            raise EntryRangeError(reason, key=self.data.key)


def stream_objects(spans: Sequence[Span]) -> "Iterator[tuple[int, EntryBatch]]":
    """Read spans of ledgers in one store (`ledgerfs.catalog.reader.Stream`); each is of an `ObjectLedgerReader`."""
    readers = [cast("ObjectLedgerReader", span.ledger) for span in spans]
    if not readers:
        return
    with open_parts(readers[0].store, _plan(readers, spans)) as parts:
        for number, (reader, span) in enumerate(zip(readers, spans, strict=True)):
            for batch in reader.batches_of(parts, span.first, span.last, span.on_damage):
                yield number, batch


def leads_to(parts: Parts, key: str, offset: int) -> bool:
    """Whether the next part is of this object, and begins at or before the offset."""
    part = parts.peek()
    return part is not None and part.key == key and part.start <= offset


def _plan(readers: Sequence[ObjectLedgerReader], spans: Sequence[Span]) -> Iterator[ReadRequest]:
    for i, (reader, span) in enumerate(zip(readers, spans, strict=True)):
        for ahead in readers[i + 1 : i + 1 + _OPENED_AHEAD] if i == 0 else readers[i + _OPENED_AHEAD :][:1]:
            ahead.expect()
        try:
            yield from reader.plan(span.first, span.last, is_known=i > 0)
        except LedgerfsError:
            # The error is raised again when this ledger is read.
            continue

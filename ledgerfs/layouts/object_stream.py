"""Reading several ledgers one after the other: parts of the next one are fetched while the end of one is read."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ledgerfs.cache.object_window import Parts, open_parts
from ledgerfs.catalog.reader import OnDamage, Span
from ledgerfs.errors import LedgerfsError
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ReadRequest

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

_OPENED_AHEAD = 4


class PlannedReader(Protocol):
    """A `LedgerReader` that knows which parts of objects it will read."""

    @property
    def store(self) -> KeepingStore:
        """The store of its objects."""
        ...

    def expect(self) -> None:
        """Begin to fetch what the first read needs; returns at once."""
        ...

    def plan(self, first: int, last: int, *, is_known: bool = False) -> Iterator[ReadRequest]:
        """Yield the reads that `batches_of` needs for many entries: small ones first, unless it is known that all will be read."""
        ...

    def batches_of(
        self, parts: Parts, first: int, last: int, on_damage: OnDamage | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield entries as `LedgerReader.batches`, from the parts of `plan`; other ledgers' parts may come before and after them."""
        ...


def stream_objects(spans: Sequence[Span]) -> "Iterator[tuple[int, EntryBatch]]":
    """Read spans of ledgers in one store (`ledgerfs.catalog.reader.Stream`); each ledger is a `PlannedReader`."""
    readers = [cast("PlannedReader", span.ledger) for span in spans]
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


def _plan(readers: Sequence[PlannedReader], spans: Sequence[Span]) -> Iterator[ReadRequest]:
    for i, (reader, span) in enumerate(zip(readers, spans, strict=True)):
        for ahead in readers[i + 1 : i + 1 + _OPENED_AHEAD] if i == 0 else readers[i + _OPENED_AHEAD :][:1]:
            ahead.expect()
        try:
            yield from reader.plan(span.first, span.last, is_known=i > 0)
        except LedgerfsError:
            # Raised again when it is this ledger's turn to be read.
            continue

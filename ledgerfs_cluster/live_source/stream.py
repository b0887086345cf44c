"""Reading ledgers of a cluster one after the other, so that bookies have something to do between two of them.

Where a ledger is, ZooKeeper is asked twice for, and only then are its bookies asked. With small ledgers that would take as long as reading
them, so the next one is begun while the end of one is read.
"""

from typing import TYPE_CHECKING, cast

from ledgerfs.storage.reading_threads import ReadingThreads

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from concurrent.futures import Future

    from ledgerfs.catalog.reader import Span
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.live_source.reader import LiveReader

_AHEAD_BYTES = 2 << 20
"""So much of a ledger is left to be read when the next one is begun."""

_THREADS = ReadingThreads(8, "ledgerfs-ledgers")
"""Not those of stores, which a ledger that is begun may wait for."""


def stream_live(spans: "Sequence[Span]") -> "Iterator[tuple[int, EntryBatch]]":
    """Read spans of ledgers one after the other (`ledgerfs.catalog.reader.Stream`)."""
    begun: _Begun | None = None
    try:
        for number, span in enumerate(spans):
            batches = _batches(span) if begun is None else begun.batches()
            begun = None
            following = spans[number + 1] if number + 1 < len(spans) else None
            if following is not None and _is_near_end(span, span.first):
                begun = _Begun(following)
            for batch in batches:
                if following is not None and begun is None and _is_near_end(span, batch.last_entry):
                    begun = _Begun(following)
                yield number, batch
    finally:
        if begun is not None:
            begun.abandon()


def _batches(span: "Span") -> "Generator[EntryBatch, None, None]":
    batches = span.ledger.batches(span.first, span.last, span.on_damage)
    return cast("Generator[EntryBatch, None, None]", batches)


def _is_near_end(span: "Span", entry: int) -> bool:
    entry_bytes = span.ledger.length // max(1, span.ledger.ref.entries)
    return (span.last - entry) * entry_bytes <= _AHEAD_BYTES


class _Begun:
    """A span that a thread has begun to read, as far as its first batch; what is raised there is raised when it is read on."""

    __slots__ = ("_batches", "_first", "_span")

    def __init__(self, span: "Span") -> None:
        self._span = span
        self._batches = _batches(span)
        self._first: Future[EntryBatch | None] = _THREADS.start(self._begin)

    def batches(self) -> "Iterator[EntryBatch]":
        """Yield all of the span; raises as the ledger's `batches`."""
        # While all threads wait for others, this one need not.
        if not self._first.cancel():
            first = self._first.result()
            if first is not None:
                yield first
        yield from self._batches

    def abandon(self) -> None:
        """Drop it, as soon as the thread is done with it: nobody waits for that."""
        batches = self._batches
        if not self._first.cancel():
            self._first.add_done_callback(lambda _: batches.close())

    def _begin(self) -> "EntryBatch | None":
        """Look where the ledger is, and read on if bookies have it.

        A bucket's ledgers have a prefetch of their own, and what is told of damage is told in order.
        """
        is_hot = cast("LiveReader", self._span.ledger).expect()
        return next(self._batches, None) if is_hot and self._span.on_damage is None else None

"""Read ledgers of a cluster one after the other.

Locating a ledger takes two requests to ZooKeeper before the first one to bookies. With small ledgers that would take as long as reading
them, so the next one is located while the end of one is read.
"""

from typing import TYPE_CHECKING, cast

from ledgerfs.storage.reading_threads import ReadingThreads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ledgerfs.catalog.reader import Span
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.live_source.reader import LiveReader

_AHEAD_BYTES = 2 << 20
"""The next ledger is located when so many bytes of the current one are left."""

_THREADS = ReadingThreads(8, "ledgerfs-ledgers")


def stream_live(spans: "Sequence[Span]") -> "Iterator[tuple[int, EntryBatch]]":
    """Read spans of ledgers one after the other (`ledgerfs.catalog.reader.Stream`)."""
    for number, span in enumerate(spans):
        following = spans[number + 1].ledger if number + 1 < len(spans) else None
        entry_bytes = span.ledger.length // max(1, span.ledger.ref.entries)
        for batch in span.ledger.batches(span.first, span.last, span.on_damage):
            if following is not None and (span.last - batch.last_entry) * entry_bytes <= _AHEAD_BYTES:
                _THREADS.start(cast("LiveReader", following).expect)
                following = None
            yield number, batch

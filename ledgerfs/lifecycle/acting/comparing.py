"""Whether the objects of an offloaded ledger hold what BookKeeper holds: other entries may have the same totals and sound sums."""

from collections.abc import Iterator

from ledgerfs.dialects.closed_ledgers import ClosedLedgers, StoredLedger
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.transforms.entry_transform import EntryTransform, recompress
from ledgerfs.offload.record_digest import cryptographic, digest_of
from ledgerfs.writing.sources import OffloadedLedger, Watch


def require_same(
    ledgers: ClosedLedgers,
    stored: StoredLedger,
    reader: LedgerReader,
    from_store: Watch,
    from_bookies: Watch,
) -> None:
    """Read all of a ledger from its objects and from its bookies, batch by batch, and compare each entry.

    Objects whose payloads were compressed again are compared by what the payloads decompress to. ``from_store`` and ``from_bookies``
    see what is read, each time that it is, and may have it wait.

    Raises `CorruptLedgerError` for objects that are not whole, or that hold something else, and as the reader, `ClosedLedgers.batches` and
    those two.
    """

    def ours() -> Iterator[EntryBatch]:
        return from_store(OffloadedLedger(reader).checked())

    def theirs() -> Iterator[EntryBatch]:
        return from_bookies(ledgers.batches(stored))

    found = digest_of(ours, cryptographic)
    entries, length, _ = found
    kept = stored.node.last_entry + 1, stored.node.length
    if (entries, length) == kept and found == digest_of(theirs, cryptographic):
        return
    if entries != kept[0]:
        raise CorruptLedgerError(f"they have {entries:,} entries, BookKeeper {kept[0]:,}", key=reader.ref.key)
    plain = digest_of(lambda: _plain(ours()), cryptographic)
    if plain != digest_of(lambda: _plain(theirs()), cryptographic):
        raise CorruptLedgerError("they hold other entries than BookKeeper", key=reader.ref.key)


def _plain(batches: Iterator[EntryBatch]) -> Iterator[EntryBatch]:
    """Yield entries in the one form that they have without compression, whatever they were compressed by."""
    # Entries that were never compressed have no size of their payload: only what is compressed before gets the same fields as the others.
    packed = _transformed(batches, recompress("lz4", most_grown=None))
    return _transformed(packed, recompress("none", most_grown=None))


def _transformed(batches: Iterator[EntryBatch], transform: EntryTransform) -> Iterator[EntryBatch]:
    entries = 0
    for batch in batches:
        for made in transform(batch.framed(), entries):
            entries += len(made)
            yield made

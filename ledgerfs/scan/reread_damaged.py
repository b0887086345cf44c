"""Reread entries with wrong checksums once before they count as damaged: a bit may have flipped on the way, or in a cache."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptMessageError
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table
from ledgerfs.scan.topic_entries import Place


class Walked(NamedTuple):
    """Entries after a walk of their metadata: the place of the first one, and the result of `TopicDecoder.walk`."""

    place: Place
    batch: EntryBatch
    entries: Int64Table
    keep: Mask


def walk_entries(
    decoder: TopicDecoder, ledgers: Sequence[LedgerReader], found: Iterable[tuple[Place, EntryBatch]]
) -> Iterator[Walked]:
    """Walk the metadata of entries; those that are damaged in the store itself raise `CorruptMessageError`, or are skipped by the decoder.

    When an entry is damaged, the cached bytes of its object are dropped, so that no later read gets them.
    """
    for place, batch in found:
        ledger = ledgers[place.number]
        walked = _walk(decoder, ledger, batch)
        if walked is not None:
            yield Walked(place, batch, *walked)
            continue
        ledger.reread()
        try:
            for again in ledger.batches(batch.first_entry, batch.last_entry):
                yield Walked(Place(place.number, again.first_entry), again, *decoder.walk(again, ledger.ref.ledger_id))
        except CorruptMessageError:
            ledger.reread()
            raise


def _walk(decoder: TopicDecoder, ledger: LedgerReader, batch: EntryBatch) -> tuple[Int64Table, Mask] | None:
    """Return the result of a walk; None if an entry is damaged, and a second read is possible."""
    reported = len(decoder.skipped)
    try:
        walked = decoder.walk(batch, ledger.ref.ledger_id)
    except CorruptMessageError:
        if not ledger.is_remote:
            raise
        return None
    if len(decoder.skipped) == reported or not ledger.is_remote:
        return walked
    del decoder.skipped[reported:]
    return None

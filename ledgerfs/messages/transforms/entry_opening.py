"""What transforms do first with entries: see that they are sound, make payloads plain."""

import numpy as np

from ledgerfs.errors import CorruptMessageError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.messages.decode.payloads import PlainPayloads, Workspace
from ledgerfs.messages.kernels.wire import ABSENT

NO_LEDGER = 0
"""A transform does not know the ledger that its entries are of."""


def sound_entries(batch: EntryBatch) -> Int64Table:
    """Return the metadata of the entries; raise for the first that a reader of messages would refuse, its checksum included."""
    reader = TopicDecoder("", DecodeOptions(include_markers=True, on_corrupt="skip"))
    entries, _ = reader.walk(batch, NO_LEDGER)
    for skipped in reader.skipped:
        raise corrupt_entry(skipped.first_entry, skipped.reason)
    return entries


def corrupt_entry(entry_id: int, reason: str) -> CorruptMessageError:
    """Return the error for an entry of a ledger whose id whoever catches it may know."""
    return CorruptMessageError(reason, key=f"entry {entry_id}")


def are_transparent(entries: Int64Table) -> Mask:
    """Return which entries hold, compressed or not, all of a user's message or batch, for everybody to read."""
    is_whole = entries[Meta.CHUNKS] <= 1
    transparent: Mask = (entries[Meta.ENCRYPTION_KEYS] == 0) & (entries[Meta.MARKER] == ABSENT) & is_whole
    return transparent


def opened_payloads(batch: EntryBatch, entries: Int64Table, rows: Int64, limit: int) -> PlainPayloads:
    """Return the payloads of some entries, plain but for those that a kernel decompresses; raise for the first that cannot be.

    Those claim no more than ``limit`` bytes, and have what they claim.
    """
    table = np.ascontiguousarray(entries[:, rows])
    payloads = PlainPayloads(Workspace(batch.buffer), table, batch.ids_of(rows), NO_LEDGER)
    payloads.decompress(limit)
    for row, reason, kind in payloads.failures:
        raise kind(reason, key=f"entry {payloads.ids[row]}")
    return payloads

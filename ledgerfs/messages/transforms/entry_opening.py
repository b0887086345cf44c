"""The first step of transforms: check that entries are sound, make payloads plain."""

import numpy as np

from ledgerfs.errors import CorruptMessageError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status
from ledgerfs.messages.decode.payloads import PlainPayloads, Workspace
from ledgerfs.messages.kernels.wire import ABSENT

NO_LEDGER = 0
"""Ledger id of the entries: a transform does not know it."""


def sound_entries(batch: EntryBatch) -> Int64Table:
    """Return the metadata of the entries; raise `CorruptMessageError` for the first that is damaged, by its checksum too."""
    reader = TopicDecoder("", DecodeOptions(include_markers=True, on_corrupt="skip"))
    entries, _ = reader.walk(batch, NO_LEDGER)
    for skipped in reader.skipped:
        raise corrupt_entry(skipped.first_entry, skipped.reason)
    return entries


def corrupt_entry(entry_id: int, reason: str) -> CorruptMessageError:
    """Return the error for an entry; the caller may know its ledger."""
    return CorruptMessageError(reason, key=f"entry {entry_id}")


def are_transparent(entries: Int64Table) -> Mask:
    """Return which entries are a whole message or batch of a user that is neither encrypted nor Kafka's; it may be compressed."""
    is_whole = (entries[Meta.CHUNKS] <= 1) & (entries[Meta.STATUS] == Status.VALID)
    transparent: Mask = (entries[Meta.ENCRYPTION_KEYS] == 0) & (entries[Meta.MARKER] == ABSENT) & is_whole
    return transparent


def opened_payloads(batch: EntryBatch, entries: Int64Table, rows: Int64, limit: int) -> PlainPayloads:
    """Return the payloads of some entries, plain except those that a kernel decompresses; raise for the first that cannot be read.

    Compressed ones claim no more than ``limit`` bytes, and large claims are checked.
    """
    table = np.ascontiguousarray(entries[:, rows])
    payloads = PlainPayloads(Workspace(batch.buffer), table, batch.ids_of(rows), NO_LEDGER)
    payloads.decompress(limit)
    for row, reason, kind in payloads.failures:
        raise kind(reason, key=f"entry {payloads.ids[row]}")
    return payloads

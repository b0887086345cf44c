"""A transform of entries: messages of transactions become plain messages, or markers that brokers and readers pass over.

It is for topics that a cluster serves which has not seen their transactions (``docs/formats/settled-copies.md``). Each entry stays one with
its id and its size, so that blocks and index of its ledger stay, too.

* A message of a committed transaction keeps every byte but the numbers of the two fields with its transaction's id: they become fields that
  nobody knows, so that it is a message of no transaction.
* A message of another one becomes a marker: it keeps producer, sequence ids, publish time, cluster of origin, unknown fields, and the
  transaction's id under the same numbers, so that it ends no transaction; the rest is zeros. Where that leaves no room for the marker's
  three bytes, the transaction's id goes.

The broker's metadata stays as it is, and the checksum is new.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entry_fields import messages_in_transactions
from ledgerfs.messages.kernels.arrays import borrowed, empty
from ledgerfs.messages.transforms.entry_opening import sound_entries
from ledgerfs.messages.transforms.entry_writing import (
    after_broker_metadata,
    dropped_fields,
    finish_record,
    next_field,
    put_as_it_is,
    put_kept_fields,
    put_number,
)

_OF_PAYLOAD = ((8, 9, 11, 12, 17, 19, 25, 27, 28, 29, 30, 31), (4, 6, 7, 13, 14, 15, 16, 18, 26, 31, 32))
"""Fields that tell of a payload, its key and properties, with a varint or with bytes: a marker has none."""

_DROPS = dropped_fields(*_OF_PAYLOAD)
_DROPS_IN_NEED = dropped_fields((*_OF_PAYLOAD[0], 22, 23), _OF_PAYLOAD[1])
_AS_IT_IS, _PLAIN, _HIDDEN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Settle:
    """See the module; each message of a transaction in the ledger has to be one of these.

    Attributes
    ----------
    hidden, plain
        Ids of the entries that become markers, and of those that become plain messages; ascending, shape (entries,).

    """

    hidden: Int64
    plain: Int64

    @property
    def keeps_ids(self) -> bool:
        """Each entry stays one."""
        return True

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that replace those of ``batch``.

        Raises `CorruptMessageError` for the first that is damaged, and `RefusedLedgerError` for one that is not what was told of it.
        """
        entries = sound_entries(batch)
        ids = batch.ids_of(np.arange(len(batch)))
        hides, plains = _are_in(ids, self.hidden), _are_in(ids, self.plain)
        _require_told(ids, messages_in_transactions(entries), hides, plains)
        if first_entry == batch.first_entry and not (hides | plains).any():
            if len(batch):
                yield batch
            return
        changes = np.where(hides, _HIDDEN, np.where(plains, _PLAIN, _AS_IT_IS)).astype(np.int64)
        out = empty(int(batch.lengths.sum()) + RECORD_HEADER_BYTES * len(batch), np.uint8)
        offsets = np.empty(len(batch), np.int64)
        source = (np.frombuffer(batch.buffer, np.uint8), batch.offsets, batch.lengths)
        _write(source, changes, entries, (_DROPS, _DROPS_IN_NEED), (out, offsets), first_entry)
        yield EntryBatch(first_entry, out.data.toreadonly(), offsets, batch.lengths, is_framed=True)


def _are_in(ids: Int64, wanted: Int64) -> Mask:
    low, high = np.searchsorted(wanted, [ids[0], ids[-1] + 1]) if ids.size else (0, 0)
    return np.isin(ids, wanted[low:high])


def _require_told(ids: Int64, is_message: Mask, hides: Mask, plains: Mask) -> None:
    """Raise `RefusedLedgerError` for the first entry that is both hidden and plain, or one of them and no message of a transaction."""
    wrong = np.flatnonzero((hides & plains) | ((hides | plains) != is_message))
    if not wrong.size:
        return
    first = int(wrong[0])
    if is_message[first]:
        reason = "a message of a transaction, and it is not told, or told twice, how that ended"
    else:
        reason = "no message of a transaction, as was told of it"
    raise RefusedLedgerError(reason, key=f"entry {ids[first]}")


@kernel
def _write(source, changes, table, drops, made, first):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write all entries as records, each as long as it was."""
    data, offsets, lengths = borrowed(source[0]), borrowed(source[1]), borrowed(source[2])  # type: ignore[call-arg, var-annotated]
    changes, table, out, places = borrowed(changes), borrowed(table), borrowed(made[0]), borrowed(made[1])
    usual, in_need = borrowed(drops[0]), borrowed(drops[1])
    start = 0
    for i in range(offsets.size):
        end = put_as_it_is(out, start, data, offsets[i], lengths[i], first + i)
        places[i] = start + 12
        if changes[i] != 0:
            at, metadata_end = table[1, i], table[2, i]
            metadata_at = start + 12 + at - offsets[i]
            to = metadata_at + metadata_end - at
            if changes[i] == 1:
                _rename_transaction(out, data, at, metadata_end, metadata_at - at)
            else:
                to = put_kept_fields(out, metadata_at, data, at, metadata_end, usual)
                if to + 3 > end:
                    to = put_kept_fields(out, metadata_at, data, at, metadata_end, in_need)
                _rename_transaction(out, out, metadata_at, to, 0)
                to = put_number(out, to, 20, 22)
                out[to:end] = 0
            has_checksum = after_broker_metadata(data, offsets[i]) < at - 4
            finish_record(out, start, metadata_at, to, end, has_checksum, first + i)
        start = end


@inlined_kernel
def _rename_transaction(out, data, at, end, moved):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Give the fields 22 and 23 the numbers 2022 and 2023, each in as many bytes as it had.

    ``out`` has the fields ``moved`` bytes behind their place in ``data``, and may be the same.
    """
    while at < end:
        tag, _, after = next_field(data, at, end)
        if after < 0:
            break
        if tag in (176, 184):
            _put_tag(out, data, at, at + moved, tag + 16000)
        at = after


@inlined_kernel
def _put_tag(out, data, at, to, tag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write a tag over the one of ``data[at:]``, which may have more bytes than it needs; the last of them has no high bit."""
    is_last = False
    while not is_last:
        is_last = data[at] < 0x80
        out[to] = np.uint8(tag & 0x7F) | np.uint8(0 if is_last else 0x80)
        tag >>= 7
        at += 1
        to += 1

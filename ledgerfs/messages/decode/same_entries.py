"""Whether entries that were sent are those that are stored, as bytes.

A broker takes what it wrote in front of an entry away before it sends it, unless a client asks for that. Where the transactions of a
restored topic are settled, entries of committed ones have other tags in place of those of their transaction's id, and another checksum.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.crc import crc32c
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.managed_ledgers.wire_fields import WireField, fields_of
from ledgerfs.formats.memory_loads import load_little_int64
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.kernels.wire import uint32_be

_TRANSACTION = frozenset({22, 23})
_UNUSED = 21
_LAST_USED = 32
_VARINT = 0
_BROKER, _CHECKED = b"\x0e\x02", b"\x0e\x01"


def equal_entries(stored: EntryBatch, sent: EntryBatch) -> Mask:
    """Return which entries of one batch are those of the other one, row by row; shape (entries,).

    Both have as many entries; their ids are not looked at. What a broker wrote in front is compared if it was sent.
    """
    out = np.empty(len(stored), np.bool_)
    data, sent_data = np.frombuffer(stored.buffer, np.uint8), np.frombuffer(sent.buffer, np.uint8)
    _compare(data, stored.offsets, stored.lengths, sent_data, sent.offsets, sent.lengths, out)
    return out


def is_settled(stored: bytes, sent: bytes) -> bool:
    """Whether an entry is the stored one but for the tags of its transaction's id and its checksum.

    The tags have to be of numbers that Pulsar does not use, and the checksum that of what was sent. What a broker wrote in front is
    compared if it was sent.
    """
    try:
        ours, theirs = _parts_of(stored), _parts_of(sent)
        fields, sent_fields = list(fields_of(ours.metadata)), list(fields_of(theirs.metadata))
    except ValueError:
        return False
    return (
        theirs.front in {ours.front, b""}
        and ours.payload == theirs.payload
        and ours.has_checksum == theirs.has_checksum
        and theirs.is_sound
        and len(fields) == len(sent_fields)
        and all(map(_is_same_field, fields, sent_fields))
    )


def _is_same_field(stored: WireField, sent: WireField) -> bool:
    if stored.data == sent.data:
        return True
    return (
        stored.number in _TRANSACTION
        and stored.wire == sent.wire == _VARINT
        and (sent.number == _UNUSED or sent.number > _LAST_USED)
        and len(stored.data) == len(sent.data)
        and stored.value == sent.value
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """An entry in parts, of which the first is what a broker wrote in front of it."""

    front: bytes
    has_checksum: bool
    is_sound: bool
    metadata: bytes
    payload: bytes


def _parts_of(entry: bytes) -> _Parts:
    """Return the parts of an entry; raises `ValueError` for one whose frame is broken."""
    front_size = 6 + int.from_bytes(entry[2:6], "big") if entry[:2] == _BROKER else 0
    front, entry = entry[:front_size], entry[front_size:]
    has_checksum = entry[:2] == _CHECKED
    checked = entry[6:] if has_checksum else entry
    end = 4 + int.from_bytes(checked[:4], "big")
    if end > len(checked):
        raise ValueError("the metadata is cut")
    is_sound = not has_checksum or crc32c(np.frombuffer(checked, np.uint8), 0, len(checked)) == int.from_bytes(
        entry[2:6], "big"
    )
    return _Parts(front, has_checksum, is_sound, checked[4:end], checked[end:])


@kernel
def _compare(stored, offsets, lengths, sent, sent_offsets, sent_lengths, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    for i in range(offsets.size):
        at, end = offsets[i], offsets[i] + lengths[i]
        sent_at, sent_end = sent_offsets[i], sent_offsets[i] + sent_lengths[i]
        if not _has_front(sent, sent_at, sent_end) and _has_front(stored, at, end):
            at += min(6 + uint32_be(stored, at + 2), end - at)
        out[i] = end - at == sent_end - sent_at and _is_equal(stored, at, sent, sent_at, end - at)


@inlined_kernel
def _has_front(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether an entry begins with what a broker wrote."""
    return at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02


@inlined_kernel
def _is_equal(one, at, other, other_at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    words = size // 8
    for i in range(words):
        if load_little_int64(one, at + 8 * i) != load_little_int64(other, other_at + 8 * i):  # type: ignore[call-arg]
            return False
    for i in range(8 * words, size):  # noqa: SIM110  (numba compiles this)
        if one[at + i] != other[other_at + i]:
            return False
    return True

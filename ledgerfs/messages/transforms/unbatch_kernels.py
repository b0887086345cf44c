"""The kernels of `unbatch`: collect the shared metadata of a batch once, then write each message with its own."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.messages.kernels.arrays import borrowed, empty
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.transforms.entry_writing import (
    after_broker_metadata,
    dropped_fields,
    finish_record,
    next_field,
    put_as_it_is,
    put_checksum_frame,
    put_integer,
    put_kept_fields,
    put_number,
    put_stretch,
    put_text,
)

_OF_BROKER = dropped_fields(numbers=[2])
_OF_BATCH = dropped_fields(numbers=[2, 8, 9, 11, 12, 17, 24, 25, 30, 31], texts=[4, 6, 18, 31])


@dataclass(frozen=True, slots=True)
class Fronts:
    """The metadata that messages of a batch share: a column of ``places`` for each batch.

    The rows: start (-1 without it) and end in ``data`` of the broker's metadata, start and end of the message metadata's fields, and
    whether there is a checksum.
    """

    data: Bytes
    places: Int64Table

    def sizes(self) -> Int64:
        """Return the bytes of each."""
        sizes: Int64 = (
            self.places[3] - self.places[2] + np.where(self.places[0] < 0, 0, self.places[1] - self.places[0])
        )
        return sizes


def collect_fronts(data: Bytes, offsets: Int64, table: Int64Table) -> Fronts:
    """Return the shared metadata of the batches that begin at ``offsets``."""
    out = empty(int((table[Meta.METADATA_END] - offsets).sum()), np.uint8)
    places = np.empty((5, offsets.size), np.int64)
    _collect(data, offsets, table, (_OF_BROKER, _OF_BATCH), out, places)
    return Fronts(read_only_view(out), places)


def read_only_view(data: Bytes) -> Bytes:
    """Return a read-only view: the one type that kernels are compiled for."""
    view = data.view()
    view.flags.writeable = False
    return view


@kernel
def _collect(data, offsets, table, drops, out, places):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    data, table, out, places = borrowed(data), borrowed(table), borrowed(out), borrowed(places)  # type: ignore[call-arg]
    of_broker, of_batch = borrowed(drops[0]), borrowed(drops[1])
    to = 0
    for i in range(offsets.size):
        at = after_broker_metadata(data, offsets[i])
        places[0, i] = -1
        if at > offsets[i]:
            places[0, i] = to
            to = put_kept_fields(out, to, data, offsets[i] + 6, at, of_broker)
        places[1, i] = places[2, i] = to
        to = put_kept_fields(out, to, data, table[1, i], table[2, i], of_batch)
        places[3, i] = to
        places[4, i] = at < table[1, i] - 4


@kernel
def write_units(sources, units, tables, buffers, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write units as records; return the bytes written.

    Parameters
    ----------
    sources
        The bytes of entries, of the messages' metadata, of the shared metadata, and of payloads.
    units
        For each unit the entry, and the message or -1; for each entry start and length; for each message start and size of its payload,
        and its plain size.
    tables
        Tables of the entries that are batches, of the messages, and of the shared metadata.
    buffers
        The output, and the columns of start and length of each unit in it.
    wanted
        Codec of the payloads, and id of the first unit.

    """
    sources = (borrowed(sources[0]), borrowed(sources[1]), borrowed(sources[2]), borrowed(sources[3]))  # type: ignore[call-arg]
    rows, of_message, offsets, lengths = borrowed(units[0]), borrowed(units[1]), borrowed(units[2]), borrowed(units[3])
    payloads = (borrowed(units[4]), borrowed(units[5]), borrowed(units[6]))
    tables = (borrowed(tables[0]), borrowed(tables[1]), borrowed(tables[2]))
    out, places = borrowed(buffers[0]), borrowed(buffers[1])
    codec, first = wanted
    to = 0
    for k in range(rows.size):
        start, i, m = to, rows[k], of_message[k]
        if m < 0:
            to = put_as_it_is(out, to, sources[0], offsets[i], lengths[i], first + k)
        else:
            sizes = (payloads[0][m], payloads[1][m], payloads[2][m])
            to = _put_message(out, to, sources, tables, m, sizes, (codec, first + k))
        places[0, k] = start + 12
        places[1, k] = to - start - 12
    return to


@inner_kernel
def _put_message(out, start, sources, tables, m, payload, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write a message of a batch as an entry; return the index after it."""
    entries, messages, fronts = tables
    codec, entry_id = wanted
    i = messages[0, m]
    to = start + 12
    if fronts[0, i] >= 0:
        to = _put_broker_metadata(out, to, sources[2], fronts, entries, i, messages[1, m])
    metadata_at = put_checksum_frame(out, to, fronts[4, i])
    to = put_stretch(out, metadata_at, sources[2], fronts[2, i], fronts[3, i])
    to = _put_texts(out, to, sources[1], messages, m)
    payload_at = _put_numbers(out, to, messages, m, codec, payload[2])
    to = put_stretch(out, payload_at, sources[3], payload[0], payload[0] + payload[1])
    finish_record(out, start, metadata_at, payload_at, to, fronts[4, i], entry_id)
    return to


@inlined_kernel
def _put_broker_metadata(out, start, data, fronts, entries, i, index):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write the broker's metadata with the index of one message; the batch has that of its last message."""
    to = put_stretch(out, start + 6, data, fronts[0, i], fronts[1, i])
    if entries[6, i] != ABSENT:
        to = put_number(out, to, 2, entries[6, i] - entries[18, i] + 1 + index)
    put_integer(out, put_integer(out, start, 0x0E02, 2), to - start - 6, 4)
    return to


@inlined_kernel
def _put_texts(out, to, data, messages, m):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write properties, key and ordering key."""
    at, end = messages[2, m], messages[3, m]
    remaining = messages[6, m]
    while remaining > 0 and at < end:
        tag, value, after = next_field(data, at, end)
        if after < 0:
            break
        if tag == 10:
            to = put_text(out, to, 4, data, value, after - value)
            remaining -= 1
        at = after
    if messages[7, m] >= 0:
        to = put_text(out, to, 6, data, messages[7, m], messages[8, m])
    if messages[11, m] >= 0:
        to = put_text(out, to, 18, data, messages[11, m], messages[12, m])
    return to


@inlined_kernel
def _put_numbers(out, to, messages, m, codec, plain_size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write the fields of numbers, as Java's client does: with the payload's size even without compression."""
    to = put_number(out, to, 2, messages[14, m])
    if codec != 0:
        to = put_number(out, to, 8, codec)
    to = put_number(out, to, 9, plain_size)
    if messages[13, m] != 0:
        to = put_number(out, to, 12, messages[13, m])
    if messages[9, m] != 0:
        to = put_number(out, to, 17, messages[9, m])
    if messages[15, m] != 0:
        to = put_number(out, to, 25, messages[15, m])
    if messages[10, m] != 0:
        to = put_number(out, to, 30, messages[10, m])
    return to

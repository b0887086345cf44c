"""State of a subscription: the node of a cursor in ZooKeeper, and entries of its ledger (``docs/formats/managed-ledgers.md``).

While a broker has the topic loaded, and after a crash, the node is stale, and the last entry of the cursor's ledger has the state. After a
clean unload the node has the state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    Position,
    Properties,
    build_position,
    build_properties,
    parse_position,
    parse_properties,
)
from ledgerfs_cluster.formats.managed_ledgers.stored_values import uncompressed
from ledgerfs_cluster.formats.proto.metadata_pb2 import (
    CursorPositionRecord,
    CursorRecord,
    DeletedBitsRecord,
    DeletedRangeRecord,
    NumberPropertyRecord,
)

IN_THE_NODE = -1
"""`CursorInfo.cursors_ledger` of a cursor whose whole state is in the node."""

Hole = tuple[Position, Position]
"""Acknowledged entries after the mark-delete position: after the first position, up to and including the second."""

_WORD = np.dtype("<i8")
_PIECE_BYTES = 8 << 10
"""Bytes of a bitmap that are unpacked at once, each bit to a byte."""


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """The state of a cursor.

    Attributes
    ----------
    cursors_ledger
        The ledger whose last entry has the state, which may be newer than the rest of this; `IN_THE_NODE` if this is the state.
    mark_delete
        All entries up to this position are acknowledged; None if the node does not contain it.
    holes
        Further acknowledged ranges, in the order of the bytes. `acknowledged_ranges` returns both forms.
    deleted_bits
        Further acknowledged entries in the compact form: ids of ledgers, and bitmaps of their entries, the lowest bit first.
    last_active_ms
        When the subscription was last active, ms since 1970 UTC; None if unknown.
    properties
        Properties of the position, set by the broker, such as `CompactedTopicLedger`.
    cursor_properties
        Properties of the subscription, set by users, and of delayed messages.

    """

    cursors_ledger: int
    mark_delete: Position | None
    holes: tuple[Hole, ...] = ()
    last_active_ms: int | None = None
    properties: tuple[tuple[str, int], ...] = ()
    cursor_properties: Properties = ()
    deleted_bits: tuple[tuple[int, bytes], ...] = ()

    @property
    def is_in_the_node(self) -> bool:
        """Whether this is the state, not an older copy of it."""
        return self.cursors_ledger == IN_THE_NODE

    def acknowledged_ranges(self) -> Iterator[Hole]:
        """Yield the ranges acknowledged after the mark-delete position, from both forms, without loading all into memory."""
        yield from self.holes
        for ledger_id, bits in self.deleted_bits:
            for first, last in _runs(bits):
                yield Position(ledger_id, first - 1), Position(ledger_id, last)


def parse_cursor_info(data: bytes, *, key: str) -> CursorInfo:
    """Parse the value of the node of a cursor, plain or compressed.

    Raises `CorruptMetadataError` with ``key`` for other bytes, and for invalid ranges and positions.
    """
    try:
        record = CursorRecord.FromString(uncompressed(data, key=key))
    except DecodeError as error:
        raise CorruptMetadataError("the cursor node is not a valid protobuf message", key=key) from error
    if record.cursors_ledger < IN_THE_NODE:
        raise CorruptMetadataError("the cursor node has no valid cursor ledger id", key=key)
    has_position = record.HasField("ledger_id") or record.HasField("entry_id")
    return CursorInfo(
        record.cursors_ledger,
        _mark_delete(record, key) if has_position else None,
        _holes(record.deleted, key),
        record.last_active if record.last_active > 0 else None,
        _numbers(record.property),
        parse_properties(record.cursor_property),
    )


def parse_position_info(data: bytes, *, key: str) -> CursorInfo:
    """Parse the payload of an entry of a cursor's ledger; the result is the state, so `cursors_ledger` is `IN_THE_NODE`.

    Raises `CorruptMetadataError` with ``key`` as `parse_cursor_info`, and for an entry without a position.
    """
    try:
        record = CursorPositionRecord.FromString(uncompressed(data, key=key))
    except DecodeError as error:
        raise CorruptMetadataError("the cursor ledger's entry is not a valid protobuf message", key=key) from error
    return CursorInfo(
        IN_THE_NODE,
        _mark_delete(record, key),
        _holes(record.deleted, key),
        properties=_numbers(record.property),
        deleted_bits=tuple([_bits(one, key) for one in record.deleted_bits]),
    )


def build_cursor_info(cursor: CursorInfo) -> bytes:
    """Serialise the node without compression; the node has no compact form of holes."""
    record = CursorRecord(
        cursors_ledger=cursor.cursors_ledger,
        deleted=[
            DeletedRangeRecord(lower=build_position(lower), upper=build_position(upper))
            for lower, upper in cursor.holes
        ],
        property=[NumberPropertyRecord(name=name.encode(), value=value) for name, value in cursor.properties],
        last_active=cursor.last_active_ms,
        cursor_property=build_properties(cursor.cursor_properties),
    )
    if cursor.mark_delete is not None:
        record.ledger_id, record.entry_id = cursor.mark_delete
    return record.SerializeToString(deterministic=True)


def _mark_delete(record: CursorRecord | CursorPositionRecord, key: str) -> Position:
    position = Position(record.ledger_id, record.entry_id)
    if min(position) < -1:
        raise CorruptMetadataError("the cursor has an invalid position", key=key)
    return position


def _holes(records: Iterable[DeletedRangeRecord], key: str) -> tuple[Hole, ...]:
    holes = [(parse_position(one.lower, key), parse_position(one.upper, key)) for one in records]
    for lower, upper in holes:
        if lower > upper:
            raise CorruptMetadataError(
                f"the cursor has a range of acknowledged entries that ends before it begins: {lower} to {upper}",
                key=key,
            )
    return tuple(holes)


def _bits(record: DeletedBitsRecord, key: str) -> tuple[int, bytes]:
    if record.ledger_id < 0:
        raise CorruptMetadataError("the cursor has acknowledged entries without a valid ledger id", key=key)
    return record.ledger_id, np.array(record.words, _WORD).tobytes()


def _runs(bits: bytes) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each run of bits that are set."""
    first, last_bit = -1, np.uint8(0)
    for at in range(0, len(bits), _PIECE_BYTES):
        piece = np.unpackbits(np.frombuffer(bits[at : at + _PIECE_BYTES], np.uint8), bitorder="little")
        changes = np.flatnonzero(np.diff(piece, prepend=last_bit)) + 8 * at
        for index in changes.tolist():
            if first < 0:
                first = index
            else:
                yield first, index - 1
                first = -1
        last_bit = piece[-1]
    if first >= 0:
        yield first, 8 * len(bits) - 1


def _numbers(records: Iterable[NumberPropertyRecord]) -> tuple[tuple[str, int], ...]:
    return tuple([(one.name.decode("utf-8", "replace"), one.value) for one in records])

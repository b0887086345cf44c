"""Managed-ledger metadata: a topic's node in ZooKeeper with its ledger list (``docs/formats/managed-ledgers.md``), and edits of it.

A cluster has a hundred thousand of these nodes, so parsing is fast: values that most ledgers share are parsed once.

An edit changes contexts only, keeps all else as brokers wrote it, and removes no ledger. Unknown fields, such as those of later versions of
Pulsar, keep their bytes: protobuf writes them after the known fields of their message. The ledger with the greatest id is never changed: a
broker that loads the topic writes its record again from BookKeeper's metadata.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError, NotFoundError, UnsupportedWriteError
from ledgerfs.formats.record_header import records_size
from ledgerfs_cluster.formats.managed_ledgers.stored_values import codec_of, uncompressed
from ledgerfs_cluster.formats.proto.metadata_pb2 import (
    ManagedLedgerRecord,
    OffloadContextRecord,
    OffloadDriverRecord,
    PositionRecord,
    TextPropertyRecord,
)

Properties = tuple[tuple[str, str], ...]

_WORDS = struct.Struct(">qq")
_MAX_BYTES, _MAX_TOPIC_BYTES = 2**63 - 1, 2**62
"""File sizes are 64-bit: no ledger's records take more. The size of a topic's last ledger is added to that of its list."""


class Position(NamedTuple):
    """A position in a topic; ``entry_id`` -1 is before the first entry of a ledger."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class OffloadContext:
    """A broker's record of the offload of a ledger.

    Attributes
    ----------
    uuid
        Id of the attempt, as in the names of objects, with hyphens; None without an attempt.
    is_complete
        Whether the objects are complete. If not, the attempt is still running, or failed.
    is_deleted_from_bookkeeper
        Whether BookKeeper's copy is deleted, or about to be.
    offloaded_ms
        When it was complete, ms since 1970 UTC; None if unknown.
    driver
        Name of the offloader's driver, such as ``aws-s3``.
    properties
        Properties of the driver, such as ``bucket``, in the order of the bytes.
    segments
        Number of segments of a streaming offload (PIP-76), which has no ``uuid``.

    """

    uuid: str | None
    is_complete: bool
    is_deleted_from_bookkeeper: bool
    offloaded_ms: int | None
    driver: str | None
    properties: Properties = ()
    segments: int = 0

    def get(self, name: str) -> str | None:
        """Return a property of the driver; None without it."""
        return next((value for key, value in self.properties if key == name), None)


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger of a topic.

    Attributes
    ----------
    entries, size
        Number of entries, and their bytes in all; 0 while the ledger is open.
    closed_ms
        When it was closed, ms since 1970 UTC; 0 while it is open.

    """

    ledger_id: int
    entries: int
    size: int
    closed_ms: int
    context: OffloadContext | None = None
    properties: Properties = ()

    @property
    def is_offloaded(self) -> bool:
        """Whether an offload of it is complete."""
        return self.context is not None and self.context.is_complete


@dataclass(frozen=True, slots=True)
class ManagedLedgerInfo:
    """The ledgers of a topic.

    Attributes
    ----------
    ledgers
        By ascending id, in any order in the node. The last one is open while a broker has the topic loaded.
    terminated
        The last position of the topic, if it was terminated.

    """

    ledgers: tuple[LedgerInfo, ...]
    terminated: Position | None = None
    properties: Properties = ()


def parse_managed_ledger_info(data: bytes, *, key: str) -> ManagedLedgerInfo:
    """Parse the value of the node of a managed ledger, plain or compressed; an empty one has no ledgers.

    Raises `CorruptMetadataError` with ``key`` for other bytes, and for ledgers that are listed twice, have no id, negative numbers, or more
    entries and bytes, each or together, than 63 bits can count.
    """
    try:
        record = ManagedLedgerRecord.FromString(uncompressed(data, key=key))
    except DecodeError as error:
        raise CorruptMetadataError("the ledger list is not a valid protobuf message", key=key) from error
    ledgers = [_ledger(one, key) for one in record.ledger]
    if records_size(sum([one.size for one in ledgers]), sum([one.entries for one in ledgers]) - 1) > _MAX_TOPIC_BYTES:
        raise CorruptMetadataError("the ledger list has more entries or bytes than a topic can have", key=key)
    if len(ledgers) > 1:
        ledgers.sort(key=attrgetter("ledger_id"))
        for one, other in pairwise(ledgers):
            if one.ledger_id == other.ledger_id:
                raise CorruptMetadataError(f"the ledger list contains ledger {one.ledger_id} twice", key=key)
    return ManagedLedgerInfo(
        tuple(ledgers),
        parse_position(record.terminated, key) if record.HasField("terminated") else None,
        parse_properties(record.property),
    )


def build_managed_ledger_info(info: ManagedLedgerInfo) -> bytes:
    """Serialise without compression, the ledgers in the given order."""
    record = ManagedLedgerRecord(
        ledger=[_ledger_record(one) for one in info.ledgers],
        terminated=None if info.terminated is None else build_position(info.terminated),
        property=build_properties(info.properties),
    )
    return record.SerializeToString(deterministic=True)


def parse_position(record: PositionRecord, key: str) -> Position:
    """Return a position; raises `CorruptMetadataError` for one without ledger or entry, and for ids below -1."""
    position = Position(record.ledger_id, record.entry_id)
    if min(position) < -1:
        raise CorruptMetadataError("the node has an invalid position", key=key)
    return position


def build_position(position: Position) -> PositionRecord:
    """Return the record of a position."""
    return PositionRecord(ledger_id=position.ledger_id, entry_id=position.entry_id)


def parse_properties(records: Sequence[TextPropertyRecord]) -> Properties:
    """Return texts in the order of the bytes; bytes that are not UTF-8 become U+FFFD."""
    # Most ledgers have none.
    return (
        tuple([(one.key.decode("utf-8", "replace"), one.value.decode("utf-8", "replace")) for one in records])
        if records
        else ()
    )


def build_properties(properties: Properties) -> list[TextPropertyRecord]:
    """Return the records of texts."""
    return [TextPropertyRecord(key=key.encode(), value=value.encode()) for key, value in properties]


def build_context(context: OffloadContext) -> OffloadContextRecord:
    """Return the record of a context, as brokers write it."""
    driver = OffloadDriverRecord(
        name=None if context.driver is None else context.driver.encode(), property=build_properties(context.properties)
    ).SerializeToString(deterministic=True)
    record = OffloadContextRecord(
        timestamp=context.offloaded_ms, driver=driver or None, segment=[b""] * context.segments
    )
    if context.uuid is not None:
        record.uuid_high, record.uuid_low = _WORDS.unpack(bytes.fromhex(context.uuid.replace("-", "")))
    # Brokers omit fields that are false.
    if context.is_complete:
        record.complete = True
    if context.is_deleted_from_bookkeeper:
        record.bookkeeper_deleted = True
    return record


def _ledger(record: ManagedLedgerRecord.Ledger, key: str) -> LedgerInfo:
    ledger_id, entries, size = record.ledger_id, record.entries, record.size
    if ledger_id < 0 or entries < 0 or size < 0 or records_size(size, entries - 1) > _MAX_BYTES:
        reason = f"the ledger list has an impossible ledger: id {ledger_id}, {entries} entries, {size} bytes"
        raise CorruptMetadataError(reason, key=key)
    return LedgerInfo(
        ledger_id,
        entries,
        size,
        max(record.timestamp, 0),
        _context(record.context, key) if record.HasField("context") else None,
        parse_properties(record.property),
    )


def _context(record: OffloadContextRecord, key: str) -> OffloadContext:
    driver, properties = _driver(record.driver, key)
    offloaded_ms = record.timestamp
    return OffloadContext(
        _uuid(record.uuid_high, record.uuid_low) if record.HasField("uuid_high") else None,
        record.complete,
        record.bookkeeper_deleted,
        offloaded_ms if offloaded_ms > 0 else None,
        driver,
        properties,
        len(record.segment),
    )


def _uuid(high: int, low: int) -> str:
    digits = _WORDS.pack(high, low).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _driver(data: bytes, key: str) -> tuple[str | None, Properties]:
    try:
        return _parsed_driver(data)
    except DecodeError as error:
        raise CorruptMetadataError("the driver of an offload is not a valid protobuf message", key=key) from error


@lru_cache(maxsize=64)
def _parsed_driver(data: bytes) -> tuple[str | None, Properties]:
    record = OffloadDriverRecord.FromString(data)
    return record.name.decode("utf-8", "replace") or None, parse_properties(record.property)


def _ledger_record(ledger: LedgerInfo) -> ManagedLedgerRecord.Ledger:
    return ManagedLedgerRecord.Ledger(
        ledger_id=ledger.ledger_id,
        entries=ledger.entries or None,
        size=ledger.size or None,
        timestamp=ledger.closed_ms,
        context=None if ledger.context is None else build_context(ledger.context),
        property=build_properties(ledger.properties),
    )


@dataclass(frozen=True, slots=True)
class EditedList:
    """New value of a managed ledger's node.

    Attributes
    ----------
    plain
        The value without compression.
    codec
        Compression of the old value (`ledgerfs.formats.decompression.Compression`).

    """

    plain: bytes
    codec: int


def with_contexts(data: bytes, contexts: Mapping[int, OffloadContext], *, key: str) -> EditedList:
    """Return the list with these contexts of offloads; each replaces its ledger's context with all fields.

    Raises
    ------
    CorruptMetadataError
        ``data`` is not a ledger list.
    NotFoundError
        A ledger is not listed.
    UnsupportedWriteError
        A ledger has the greatest id of the list.

    """
    _require_changeable([one.ledger_id for one in parse_managed_ledger_info(data, key=key).ledgers], contexts, key)
    record = ManagedLedgerRecord.FromString(uncompressed(data, key=key))
    for ledger in record.ledger:
        if ledger.ledger_id in contexts:
            ledger.context.CopyFrom(build_context(contexts[ledger.ledger_id]))
    return EditedList(record.SerializeToString(), codec_of(data, key=key))


def _require_changeable(ledgers: Collection[int], ledger_ids: Collection[int], key: str) -> None:
    for one in ledger_ids:
        if one not in ledgers:
            raise NotFoundError(f"the ledger list does not contain ledger {one}", key=key)
    if ledger_ids and max(ledgers) in ledger_ids:
        reason = (
            f"ledger {max(ledgers)} is the last one of its topic and is never changed: a broker that loads the topic writes this record "
            "of the ledger list again, and removes it if BookKeeper lacks the ledger"
        )
        raise UnsupportedWriteError(reason, key=key)

"""What Pulsar and BookKeeper write and ledgerfs only reads, as bytes: ledger nodes, states of cursors, schemas, fronts of entry logs."""

import struct
from collections.abc import Iterable

import numpy as np

from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord
from ledgerfs.formats.schemas.schema_info import TYPE_NUMBERS, SchemaVersion
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import LOG_HEADER_BYTES, EntryLogHeader, LedgersMap
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.proto.metadata_pb2 import (
    CursorPositionRecord,
    CursorRecord,
    DeletedBitsRecord,
    PositionRecord,
    SchemaEntryRecord,
    SchemaIndexRecord,
    SchemaLocatorRecord,
    SchemaRecord,
    TextPropertyRecord,
)
from ledgerfs_cluster.formats.stored_schema import StoredVersion
from tests.support.entries import varint


def build_log_header(header: EntryLogHeader) -> bytes:
    """Return the first bytes of a log."""
    return struct.pack(">4siqi", b"BKLO", header.version, header.map_at, header.ledgers).ljust(LOG_HEADER_BYTES, b"\0")


def build_ledgers_map(ledgers: LedgersMap, most: int = 10_000) -> bytes:
    """Return a map, in parts of ``most`` ledgers."""
    table = np.stack([ledgers.ledger_ids, ledgers.sizes], axis=1)
    parts = [table[first : first + most] for first in range(0, len(table), most)]
    return b"".join(
        struct.pack(">iqqi", 20 + part.size * 8, -1, -2, len(part)) + part.astype(">i8").tobytes() for part in parts
    )


def build_ledger_node(node: LedgerNode) -> bytes:
    """Serialise as BookKeeper does since 4.9 (version 3), but for ``cToken``, which says who made the node."""
    record = LedgerMetadataRecord(
        write_quorum=node.write_quorum,
        ensemble_size=node.ensemble_size,
        length=node.length,
        last_entry=node.last_entry,
        state=node.state,
        ensemble=[
            LedgerMetadataRecord.Ensemble(first_entry=one.first_entry, bookie=[name.encode() for name in one.bookies])
            for one in node.ensembles
        ],
        digest_type=node.digest.kind,
        password=node.digest.password,
        ack_quorum=node.ack_quorum,
        created_ms=node.created_ms,
        custom=[LedgerMetadataRecord.CustomField(key=name.encode(), value=value) for name, value in node.custom],
    )
    message = record.SerializeToString(deterministic=True)
    return b"BookieMetadataFormatVersion\t3\n" + varint(len(message)) + message


def build_position_info(cursor: CursorInfo) -> bytes:
    """Return an entry of a cursor's ledger: what the node would have, and bits."""
    node = CursorRecord.FromString(build_cursor_info(cursor))
    mark_delete = cursor.mark_delete or Position(-1, -1)
    record = CursorPositionRecord(
        ledger_id=mark_delete.ledger_id,
        entry_id=mark_delete.entry_id,
        deleted=node.deleted,
        property=node.property,
        deleted_bits=[
            DeletedBitsRecord(ledger_id=ledger_id, words=np.frombuffer(bits, "<i8").tolist())
            for ledger_id, bits in cursor.deleted_bits
        ],
    )
    return record.SerializeToString(deterministic=True)


def build_locator(versions: Iterable[StoredVersion]) -> bytes:
    """Serialise a locator of versions by ascending number, of which there has to be one."""
    index = [_index_record(one) for one in versions]
    return SchemaLocatorRecord(newest=index[-1], index=index).SerializeToString(deterministic=True)


def build_stored_schema(topic: str, schema: SchemaVersion, before: Iterable[StoredVersion] = ()) -> bytes:
    """Serialise the entry of a version, with the versions ``before`` it; the first one names itself, at no place.

    ``topic`` is as the entry names it: ``tenant/namespace/encoded name``.
    """
    index = [_index_record(one) for one in before]
    info = schema.schema
    record = SchemaRecord(
        topic=topic.encode(),
        user=b"",
        type=TYPE_NUMBERS[info.type] + 1,
        data=info.data,
        timestamp=schema.timestamp_ms or 0,
        deleted=schema.is_deletion,
        property=[TextPropertyRecord(key=key.encode(), value=text.encode()) for key, text in info.properties.items()],
    )
    itself = _index_record(StoredVersion(schema.version, Position(-1, -1), b""))
    return SchemaEntryRecord(schema=record, index=index or [itself]).SerializeToString(deterministic=True)


def _index_record(version: StoredVersion) -> SchemaIndexRecord:
    ledger_id, entry_id = version.position
    place = PositionRecord(ledger_id=ledger_id, entry_id=entry_id)
    return SchemaIndexRecord(version=version.version, position=place, hash=version.hash)

"""Schemas as stored by Pulsar: a locator in ZooKeeper, and an entry in BookKeeper for each version (``docs/formats/schemas.md``).

These include versions that a soft deletion hides from the admin API and from Pulsar's clients. BookKeeper stores the parts of a KEY_VALUE
schema one after the other with their sizes; the admin API uses JSON text with both parts.
"""

import hashlib
import json
import struct
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError, InvalidSchemaError, UnsupportedFormatError
from ledgerfs.formats.schemas.schema_info import TYPE_NUMBERS, SchemaInfo, SchemaVersion, key_value_schema
from ledgerfs.formats.topic_names import schema_owner
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.proto.metadata_pb2 import (
    SchemaEntryRecord,
    SchemaIndexRecord,
    SchemaLocatorRecord,
)

ROOT = "/schemas"
_TYPES = {number + 1: name for name, number in TYPE_NUMBERS.items()}
"""Names by Pulsar's stored numbers, which are one more than those of the admin API."""
_NOTHING = '""'
_NEVER_STORED = frozenset({"NONE", "BYTES"})


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """Position of one version of a topic's schema.

    Attributes
    ----------
    version
        Its number, as in messages; deletions have numbers, too.
    position
        Its entry in BookKeeper.
    hash
        SHA-256 of the schema's data; empty for a deletion.

    """

    version: int
    position: Position
    hash: bytes


def locator_path(topic: str, *, root: str = ROOT) -> str:
    """Return the path of the locator of a topic, shared by its partitions; raises `InvalidNameError` as `schema_owner`.

    Omits the cluster of a legacy name, as Pulsar does.
    """
    owner = schema_owner(topic)
    return "/".join([root, owner.tenant, owner.namespace, owner.encoded_topic])


def parse_locator(data: bytes, *, key: str) -> tuple[StoredVersion, ...]:
    """Parse the value of a locator; return its versions by ascending number.

    Raises `CorruptMetadataError` with ``key`` for other bytes, for versions without a number or position, and for a number with two
    positions.
    """
    try:
        record = SchemaLocatorRecord.FromString(data)
    except DecodeError as error:
        raise CorruptMetadataError("the schema locator is not a valid protobuf message", key=key) from error
    if not record.HasField("newest"):
        raise CorruptMetadataError("the schema locator has no newest version", key=key)
    found: dict[int, StoredVersion] = {}
    for one in [*record.index, record.newest]:
        version = _stored_version(one, key)
        if found.setdefault(version.version, version) != version:
            raise CorruptMetadataError(
                f"the schema locator has two positions for schema version {version.version}", key=key
            )
    return tuple(found[number] for number in sorted(found))


def parse_stored_schema(data: bytes, *, key: str, version: int) -> SchemaVersion:
    """Parse the payload of a schema's entry; a deletion has type NONE and no data.

    ``version`` is the number in the locator.

    Raises `CorruptMetadataError` with ``key`` for bytes that are not a schema, and `UnsupportedFormatError` for a type that is not in
    `TYPE_NUMBERS`.
    """
    try:
        record = SchemaEntryRecord.FromString(data)
    except DecodeError as error:
        raise CorruptMetadataError("the stored schema is not a valid protobuf message", key=key) from error
    schema = record.schema
    if not record.HasField("schema") or not schema.HasField("type"):
        raise CorruptMetadataError("the stored schema has no type", key=key)
    kind = _TYPES.get(schema.type)
    if kind is None:
        raise UnsupportedFormatError(f"the stored schema has the unknown type {schema.type - 1}", key=key)
    return SchemaVersion(
        version,
        SchemaInfo(kind, schema.data, {_text(one.key): _text(one.value) for one in schema.property}),
        schema.timestamp if schema.timestamp > 0 else None,
        schema.deleted,
    )


def _stored_version(record: SchemaIndexRecord, key: str) -> StoredVersion:
    position = Position(record.position.ledger_id, record.position.entry_id)
    if record.version < 0 or min(position) < 0:
        raise CorruptMetadataError("the schema locator has a version without a number or position", key=key)
    return StoredVersion(record.version, position, record.hash)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def reported_text(schema: SchemaInfo) -> str:
    """Return the definition as clients post it.

    Raises `InvalidSchemaError` for one that is lost, of a type that brokers do not store, not UTF-8, or does not match its type.
    """
    if schema.unreadable:
        raise InvalidSchemaError(schema.unreadable)
    if schema.type in _NEVER_STORED or schema.type not in TYPE_NUMBERS:
        raise InvalidSchemaError(f"brokers do not accept schemas of type {schema.type}")
    if schema.type == "KEY_VALUE":
        parts = key_value_schema(schema)
        # Keep each part as written: brokers keep numbers as written, too.
        return f'{{"key":{_part(parts.key)},"value":{_part(parts.value)}}}'
    return _definition(schema)


def has_hash(schema: SchemaInfo, wanted: bytes) -> bool:
    """Return whether a schema, in the stored form or in that of the API, has a locator's SHA-256."""
    if hashlib.sha256(schema.data).digest() == wanted:
        return True
    if schema.type != "KEY_VALUE":
        return False
    try:
        return hashlib.sha256(_stored_pair(schema)).digest() == wanted
    except InvalidSchemaError:
        return False


def is_as_registered(schema: SchemaInfo, reported: SchemaInfo) -> bool:
    """Return whether a broker's schema equals the posted one: the same properties, and the same definition in any formatting."""
    return schema.properties == reported.properties and schema.means_the_same(reported)


def _stored_pair(schema: SchemaInfo) -> bytes:
    """Return the parts of a KEY_VALUE schema as brokers store them, as JSON without whitespace."""
    parts = key_value_schema(schema)
    texts = [_compact(_part(one)).encode() for one in (parts.key, parts.value)]
    return b"".join(struct.pack(">i", len(text)) + text for text in texts)


def _compact(part: str) -> str:
    return "" if part == _NOTHING else json.dumps(json.loads(part), separators=(",", ":"), ensure_ascii=False)


def _part(schema: SchemaInfo) -> str:
    """Return the JSON of a part: its definition, or an empty text if it has none."""
    text = _definition(schema)
    try:
        # Clients write null for primitives, which have no definition.
        return text if text and json.loads(text) is not None else _NOTHING
    except (ValueError, RecursionError):
        raise InvalidSchemaError(
            f"the key or value part of a KEY_VALUE schema, of type {schema.type}, is not JSON"
        ) from None


def _definition(schema: SchemaInfo) -> str:
    try:
        return schema.data.decode()
    except UnicodeDecodeError:
        raise InvalidSchemaError(
            f"the definition of a {schema.type} schema is not UTF-8, but brokers accept only text"
        ) from None

"""A schema in the words of brokers' admin API, which takes it as text, and the bytes that a broker makes of that.

BookKeeper has the parts of a KEY_VALUE schema one after the other with their sizes; the API tells and takes JSON with both in it.
"""

import hashlib
import json
import struct

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import TYPE_NUMBERS, SchemaInfo, key_value_schema

_NOTHING = '""'
_NEVER_STORED = frozenset({"NONE", "BYTES"})


def told_text(schema: SchemaInfo) -> str:
    """Return the definition as it is posted.

    Raises `InvalidSchemaError` for one that is lost, of a type that brokers do not store, not UTF-8, or not what its type says.
    """
    if schema.unreadable:
        raise InvalidSchemaError(schema.unreadable)
    if schema.type in _NEVER_STORED or schema.type not in TYPE_NUMBERS:
        raise InvalidSchemaError(f"brokers take no schema of the type {schema.type}")
    if schema.type == "KEY_VALUE":
        parts = key_value_schema(schema)
        # Each part as it is written, since brokers keep numbers as they are written, too.
        return f'{{"key":{_part(parts.key)},"value":{_part(parts.value)}}}'
    return _text(schema)


def has_hash(schema: SchemaInfo, wanted: bytes) -> bool:
    """Whether a schema is the one of which a locator has the SHA-256, also if it is in the words of the API."""
    if hashlib.sha256(schema.data).digest() == wanted:
        return True
    if schema.type != "KEY_VALUE":
        return False
    try:
        return hashlib.sha256(_stored_pair(schema)).digest() == wanted
    except InvalidSchemaError:
        return False


def is_as_registered(schema: SchemaInfo, told: SchemaInfo) -> bool:
    """Whether a broker has a schema as it was posted: with all properties, however its text is set."""
    return schema.properties == told.properties and schema.means_the_same(told)


def _stored_pair(schema: SchemaInfo) -> bytes:
    """Return the parts of a KEY_VALUE schema as brokers store them, who set the text of each without blanks."""
    parts = key_value_schema(schema)
    texts = [_compact(_part(one)).encode() for one in (parts.key, parts.value)]
    return b"".join(struct.pack(">i", len(text)) + text for text in texts)


def _compact(part: str) -> str:
    return "" if part == _NOTHING else json.dumps(json.loads(part), separators=(",", ":"), ensure_ascii=False)


def _part(schema: SchemaInfo) -> str:
    """Return what stands for a part: its definition, which is JSON, or an empty text for one that has none."""
    text = _text(schema)
    try:
        # Clients write null for primitives, which have no definition.
        return text if text and json.loads(text) is not None else _NOTHING
    except (ValueError, RecursionError):
        raise InvalidSchemaError(f"a part of a KEY_VALUE schema, of type {schema.type}, is not JSON") from None


def _text(schema: SchemaInfo) -> str:
    try:
        return schema.data.decode()
    except UnicodeDecodeError:
        raise InvalidSchemaError(
            f"the definition of a {schema.type} schema is not UTF-8, and brokers take text"
        ) from None

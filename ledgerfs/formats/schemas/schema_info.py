"""A version of a topic's schema, as Pulsar stores it (``docs/formats/schemas.md``).

Schemas of two parts, KEY_VALUE, have two forms: BookKeeper stores both parts one after the other with their sizes, the admin API returns
a JSON text. Both become a `KeyValueSchema`.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import parse_avro_schema

TYPE_NUMBERS = {
    "NONE": 0, "STRING": 1, "JSON": 2, "PROTOBUF": 3, "AVRO": 4, "BOOLEAN": 5, "INT8": 6, "INT16": 7, "INT32": 8, "INT64": 9,
    "FLOAT": 10, "DOUBLE": 11, "DATE": 12, "TIME": 13, "TIMESTAMP": 14, "KEY_VALUE": 15, "INSTANT": 16, "LOCAL_DATE": 17,
    "LOCAL_TIME": 18, "LOCAL_DATE_TIME": 19, "PROTOBUF_NATIVE": 20, "BYTES": -1,
}  # fmt: skip
"""Pulsar's types of schemas and their numbers."""
LARGEST_VERSION = 2**63 - 1
"""Numbers of versions are from 0 to this: messages carry them in 8 bytes, as Java's long."""
ANY_VERSION = -1
"""Number of a schema that a user gives for all messages without a schema of their own number."""
BY_HAND = "by hand"
"""The source of a schema that a user gave."""
BY_IMPORT = "import"
"""The source of a schema that rows were written with."""
_OF_JSON = {"JSON", "AVRO", "PROTOBUF", "PROTOBUF_NATIVE"}
"""Types whose data is JSON."""
_OF_PROTOBUF = {"PROTOBUF", "PROTOBUF_NATIVE"}
"""Types whose data is JSON around a definition of another kind; for the older one, properties are a part of it."""
_OF_AVRO = {"JSON", "AVRO"}
"""Types whose data is an Avro schema that fully defines their values."""
VERSION_BYTES = 8
_AVRO_OFFSET = "__AVRO_READ_OFFSET__"
_CHARSET = "__charset"
_SEPARATED = "SEPARATED"


def require_charset(name: str) -> None:
    """Raise `InvalidSchemaError` for a character set that Python does not know."""
    try:
        " ".encode(name)
    except (LookupError, ValueError):  # not a text encoding, or an invalid name
        raise InvalidSchemaError(f"the schema has the unknown character set {name!r}") from None


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    """A schema, or one part of a KEY_VALUE one.

    Attributes
    ----------
    type
        A name of `TYPE_NUMBERS`.
    data
        The definition: text of an Avro schema, or of the JSON around a descriptor; empty for primitives.
    properties
        Texts of the producer.
    unreadable
        Reason why an existing definition is lost. Then there is no data, and the type is NONE.

    """

    type: str
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)
    unreadable: str = ""

    @property
    def avro_offset(self) -> int:
        """Bytes before each Avro value, for producers with another registry; raises `InvalidSchemaError` if it is not a number."""
        text = self.properties.get(_AVRO_OFFSET, "0")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidSchemaError(f"the property {_AVRO_OFFSET} is {text!r}, expected a number of bytes")
        return int(text)

    @property
    def charset(self) -> str:
        """The name of the character set of texts."""
        return self.properties.get(_CHARSET, "utf-8")

    def means_the_same(self, other: "SchemaInfo") -> bool:
        """Whether values of both are encoded alike: compares type and definition, not the format of its text."""
        if self == other:
            return True
        if self.unreadable or other.unreadable:
            return False
        if self.type != other.type or self.charset.lower() != other.charset.lower():
            return False
        try:
            return self._is_defined_as(other)
        except (InvalidSchemaError, RecursionError):
            return False

    def _is_defined_as(self, other: "SchemaInfo") -> bool:
        """Whether the definitions of two schemas of one type are equal; raises `InvalidSchemaError` for an invalid one."""
        if self.type == "KEY_VALUE":
            return key_value_schema(self).means_the_same(key_value_schema(other))
        if self.type in _OF_AVRO:
            same_offset = self.avro_offset == other.avro_offset
            return same_offset and parse_avro_schema(self.data) == parse_avro_schema(other.data)
        if self.type in _OF_PROTOBUF:
            are_described_alike = self.type == "PROTOBUF_NATIVE" or self.properties == other.properties
            what = f"the definition of a {self.type} schema"
            return are_described_alike and bool(_json(self.data, what) == _json(other.data, what))
        return True


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a topic's schema.

    Attributes
    ----------
    version
        Its number, as messages carry it.
    timestamp_ms
        When the broker registered it, ms since 1970 UTC; None if unknown, as for one that the user gives.
    is_deletion
        Whether it deletes the schemas before it; by hand: the one that a user gave for this number.
    source
        Its origin: the address of an admin API, the URL of a live cluster, `BY_HAND`, or `BY_IMPORT`; empty if unknown.
    saved_ms
        When it was saved, ms since 1970 UTC; None for one that is not.

    """

    version: int
    schema: SchemaInfo
    timestamp_ms: int | None = None
    is_deletion: bool = False
    source: str = ""
    saved_ms: int | None = None

    @property
    def is_by_hand(self) -> bool:
        """Whether a user gave it."""
        return self.source == BY_HAND

    @property
    def is_by_import(self) -> bool:
        """Whether ledgerfs wrote rows with it; each number has only one such version."""
        return self.source == BY_IMPORT


@dataclass(frozen=True, slots=True)
class KeyValueSchema:
    """The parts of a KEY_VALUE schema; the key is in the payload, or (separated) the key of the message."""

    key: SchemaInfo
    value: SchemaInfo
    is_separated: bool

    def means_the_same(self, other: "KeyValueSchema") -> bool:
        """Whether pairs of both are encoded alike."""
        are_parts_alike = self.key.means_the_same(other.key) and self.value.means_the_same(other.value)
        return are_parts_alike and self.is_separated == other.is_separated


def version_number(data: bytes | None) -> int | None:
    """Return the number in a message's ``schema_version``; None without one, and for bytes in another form than Pulsar's."""
    if data is None or len(data) != VERSION_BYTES:
        return None
    return int.from_bytes(data, "big", signed=True)


def key_value_schema(schema: SchemaInfo) -> KeyValueSchema:
    """Return the parts of a KEY_VALUE schema; raises `InvalidSchemaError` for data that is neither form, and for pairs of pairs."""
    properties = schema.properties
    kinds = _type_of_part("key", properties), _type_of_part("value", properties)
    key, value = _parts(schema.data, kinds)
    return KeyValueSchema(
        SchemaInfo(kinds[0], key, _properties_of_part("key", properties)),
        SchemaInfo(kinds[1], value, _properties_of_part("value", properties)),
        properties.get("kv.encoding.type") == _SEPARATED,
    )


def _type_of_part(name: str, properties: Mapping[str, str]) -> str:
    kind = properties.get(f"{name}.schema.type", "BYTES")
    if kind not in TYPE_NUMBERS or kind == "KEY_VALUE":
        raise InvalidSchemaError(f"the {name} of a KEY_VALUE schema has the invalid type {kind!r}")
    return kind


def _properties_of_part(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    own = _json(
        properties.get(f"{name}.schema.properties") or "{}", f"the properties of the {name} of a KEY_VALUE schema"
    )
    return {str(one): str(text) for one, text in own.items()} if isinstance(own, dict) else {}


def _parts(data: bytes, kinds: tuple[str, str]) -> tuple[bytes, bytes]:
    """Return the data of key and value."""
    if data[:1] == b"{":
        parts = _json(data, "the KEY_VALUE schema")
        if not {"key", "value"} <= parts.keys():
            raise InvalidSchemaError("the KEY_VALUE schema is JSON without key and value")
        return _data_of(parts["key"], kinds[0]), _data_of(parts["value"], kinds[1])
    if not data:
        return b"", b""
    key, rest = _counted(data)
    value, rest = _counted(rest)
    if rest:
        raise InvalidSchemaError("the KEY_VALUE schema has bytes after its key and value")
    return key, value


def _data_of(part: Any, kind: str) -> bytes:  # noqa: ANN401  (JSON)
    """Return the data of a part of the JSON form: the schema itself (perhaps a text), nothing, or the schema's text."""
    if isinstance(part, str) and (kind not in _OF_JSON or part[:1] in {"", "{", "[", '"'}):
        return part.encode(errors="replace")
    return json.dumps(part).encode()


def _json(text: str | bytes, what: str) -> Any:  # noqa: ANN401  (JSON)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSchemaError(f"{what} is not valid JSON") from None


def _counted(data: bytes) -> tuple[bytes, bytes]:
    if len(data) < 4:
        raise InvalidSchemaError("the KEY_VALUE schema is truncated")
    (size,) = struct.unpack_from(">i", data)
    if not -1 <= size <= len(data) - 4:
        raise InvalidSchemaError(f"the KEY_VALUE schema has a part of {size} bytes, but {len(data) - 4} bytes are left")
    size = max(size, 0)
    return data[4 : 4 + size], data[4 + size :]

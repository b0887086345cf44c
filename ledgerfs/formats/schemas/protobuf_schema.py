"""Schemas of Protobuf messages: a set of descriptors, or Pulsar's list of fields, to message types whose names are resolved.

Pulsar's PROTOBUF_NATIVE has a whole set, with all imports, in any order. Its older PROTOBUF has the fields of the outermost message only,
without names of enums, definitions of nested messages, or the presence of fields.

Each set is independent: versions of one schema have the same names for different messages, so sets share nothing.
Extensions are not fields of the messages that they extend.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo

FIELDS_PROPERTY = "__PARSING_INFO__"
"""The property of a PROTOBUF schema that contains its fields."""
_LARGEST_NUMBER = (1 << 29) - 1


class Kind(IntEnum):
    """Type of a field; the numbers are those of descriptors."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


@dataclass(frozen=True, slots=True)
class EnumType:
    """Names by their numbers, ascending; the first name of each. A closed one has no other numbers."""

    name: str
    numbers: tuple[int, ...]
    names: tuple[str, ...]
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes
    ----------
    has_presence
        Whether a missing field differs from one that is zero.
    oneof
        Name of the oneof that it is a member of.
    enum
        Its enum type, if the names are known.
    message
        Full name of its message type, if the fields are known.
    default
        Value of a missing field, where the schema defines one (proto2).

    """

    name: str
    number: int
    kind: Kind
    is_repeated: bool = False
    has_presence: bool = False
    oneof: str | None = None
    enum: EnumType | None = None
    message: str | None = None
    default: float | str | bytes | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Fields, in the order of their declaration; entries of maps are messages of two fields, ``key`` and ``value``."""

    name: str
    fields: tuple[Field, ...]
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A message type, and those inside it by full name."""

    root: str
    messages: Mapping[str, Message]


def protobuf_schema(schema: SchemaInfo) -> ProtobufSchema:
    """Return the message types of a schema of the type PROTOBUF_NATIVE or PROTOBUF.

    Raises `InvalidSchemaError` for a malformed schema, and for an old one without numbers of fields.
    """
    if schema.type == "PROTOBUF_NATIVE":
        return descriptor_schema(*native_descriptors(schema.data))
    if FIELDS_PROPERTY not in schema.properties:
        raise InvalidSchemaError(f"the PROTOBUF schema lacks the property {FIELDS_PROPERTY}, which contains the fields")
    return _outermost_fields(schema.properties[FIELDS_PROPERTY], schema.data)


def native_descriptors(data: bytes) -> tuple[FileDescriptorSet, str]:
    """Return the descriptors of a PROTOBUF_NATIVE schema, and the name of its message; raises `InvalidSchemaError`."""
    try:
        reported: Any = json.loads(data)
        files = FileDescriptorSet.FromString(base64.b64decode(reported["fileDescriptorSet"], validate=True))
        root = reported["rootMessageTypeName"]
    except (ValueError, KeyError, TypeError, RecursionError, DecodeError) as error:
        raise InvalidSchemaError("the PROTOBUF_NATIVE schema is not JSON with a set of file descriptors") from error
    if not isinstance(root, str):
        raise InvalidSchemaError("the PROTOBUF_NATIVE schema does not contain the name of its message")
    return files, root


def descriptor_schema(files: FileDescriptorSet, root: str) -> ProtobufSchema:
    """Return the message type of a full name in a set of descriptors.

    Raises `InvalidSchemaError` if the set is not consistent, lacks an import, or has no such message.
    """
    pool = pool_of(files)
    try:
        found = pool.FindMessageTypeByName(root)
    except (KeyError, ValueError, TypeError):
        raise InvalidSchemaError(f"the descriptors have no message {root!r}") from None
    return ProtobufSchema(found.full_name, _messages(found))


def pool_of(files: FileDescriptorSet) -> DescriptorPool:
    """Return a new pool with all files, each after its imports; raises `InvalidSchemaError` if that is impossible."""
    pool = DescriptorPool()
    try:
        named: dict[str, FileDescriptorProto] = {}
        for one in files.file:
            if named.setdefault(one.name, one) != one:
                raise InvalidSchemaError(f"the set of descriptors has two files {one.name!r}")
        for name in TopologicalSorter({name: one.dependency for name, one in named.items()}).static_order():
            if name not in named:
                hint = "run protoc with --include_imports"
                raise InvalidSchemaError(
                    f"the set of descriptors lacks {name!r}, which one of its files imports; {hint}"
                )
            pool.AddSerializedFile(named[name].SerializeToString())
    except CycleError:
        raise InvalidSchemaError("the files of the descriptors import each other in a circle") from None
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(f"the descriptors are not consistent: {error}") from None
    return pool


def _messages(root: Descriptor) -> dict[str, Message]:
    """Return the message and all message types that it needs."""
    found: dict[str, Message] = {}
    left = [root]
    while left:
        one = left.pop()
        if one.full_name not in found:
            found[one.full_name] = _message(one)
            left += [field.message_type for field in one.fields if field.message_type is not None]
    return found


def _message(message: Descriptor) -> Message:
    written = DescriptorProto()
    message.CopyToProto(written)
    labels = {one.number: one.label for one in written.field}
    fields = tuple(_field(one, labels[one.number]) for one in message.fields)
    if written.options.map_entry:
        fields = tuple(sorted(fields, key=attrgetter("number")))
        are_plain = not any(one.is_repeated or one.oneof for one in fields)
        if [(one.name, one.number) for one in fields] != [("key", 1), ("value", 2)] or not are_plain:
            raise InvalidSchemaError(f"the map entry {message.full_name} does not have one key and one value")
    return Message(message.full_name, fields, written.options.map_entry)


def _field(field: FieldDescriptor, label: int) -> Field:
    return Field(
        field.name,
        field.number,
        Kind(field.type),
        is_repeated=label == FieldDescriptorProto.LABEL_REPEATED,
        has_presence=field.has_presence,
        oneof=None if field.containing_oneof is None else field.containing_oneof.name,
        enum=None if field.enum_type is None else _enum(field.enum_type),
        message=None if field.message_type is None else field.message_type.full_name,
        default=field.default_value if field.has_default_value else None,
    )


def _enum(kind: EnumDescriptor) -> EnumType:
    names: dict[int, str] = {}
    for one in kind.values:
        names.setdefault(one.number, one.name)
    numbers = tuple(sorted(names))
    return EnumType(kind.full_name, numbers, tuple(names[one] for one in numbers), kind.is_closed)


def _outermost_fields(text: str, data: bytes) -> ProtobufSchema:
    """Return the message of Pulsar's list of fields, named as the Avro record in ``data``."""
    try:
        listed: Any = json.loads(text)
        record: Any = json.loads(data or b"{}")
        fields = tuple(_listed_field(one) for one in listed)
        name = str(record.get("name", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidSchemaError(
            f"the property {FIELDS_PROPERTY} of the PROTOBUF schema is not a list of fields"
        ) from None
    for what in ([one.number for one in fields], [one.name for one in fields]):
        if len(set(what)) < len(what):
            raise InvalidSchemaError("the PROTOBUF schema has two fields with the same name or number")
    return ProtobufSchema(name, {name: Message(name, fields)})


def _listed_field(one: Mapping[str, Any]) -> Field:
    name, number, kind, label = one["name"], one["number"], Kind[one["type"]], one["label"]
    if not (isinstance(name, str) and type(number) is int and 0 < number <= _LARGEST_NUMBER):
        raise ValueError("no name or number of a field")
    name.encode()  # refuses lone surrogates, which Arrow's names cannot have
    is_repeated = label == "LABEL_REPEATED"
    return Field(
        name.replace("\0", "\ufffd"),  # other libraries end Arrow's names at a NUL
        number,
        kind,
        is_repeated=is_repeated,
        has_presence=not is_repeated,
    )

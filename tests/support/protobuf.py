"""Protobuf descriptors and payloads made by hypothesis, whose fields come in any order, and what Google's decoder makes of them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.internal.encoder import _VarintBytes as varint_bytes
from google.protobuf.message import Message
from hypothesis import strategies as st

from ledgerfs.formats.schemas.protobuf_schema import ProtobufSchema, descriptor_schema

Draw = Callable[[st.SearchStrategy[Any]], Any]
P = FieldDescriptorProto
SCALARS = [
    P.TYPE_DOUBLE, P.TYPE_FLOAT, P.TYPE_INT64, P.TYPE_UINT64, P.TYPE_INT32, P.TYPE_FIXED64, P.TYPE_FIXED32, P.TYPE_BOOL,
    P.TYPE_UINT32, P.TYPE_SFIXED32, P.TYPE_SFIXED64, P.TYPE_SINT32, P.TYPE_SINT64, P.TYPE_BYTES,
]  # fmt: skip
KEYS = [P.TYPE_INT32, P.TYPE_UINT64, P.TYPE_SINT32, P.TYPE_FIXED64, P.TYPE_BOOL]
LENGTHS = {P.TYPE_STRING, P.TYPE_BYTES, P.TYPE_MESSAGE}
WIRE = {
    **dict.fromkeys((P.TYPE_DOUBLE, P.TYPE_FIXED64, P.TYPE_SFIXED64), 1),
    **dict.fromkeys((P.TYPE_FLOAT, P.TYPE_FIXED32, P.TYPE_SFIXED32), 5),
    **dict.fromkeys(LENGTHS, 2),
    P.TYPE_GROUP: 3,
}
_NUMBERS = [*range(1, 8), 15, 16, 100, 2047, 2048, (1 << 29) - 1]
_ROOT = "p.M0"


@dataclass(slots=True)
class _Maker:
    """Draws a file of messages that contain each other, and themselves; plain ones without text, maps and themselves."""

    draw: Draw
    plain: bool
    file: FileDescriptorProto = field(default_factory=lambda: FileDescriptorProto(name="a.proto", package="p"))

    def make(self) -> bytes:
        self.file.syntax = self.draw(st.sampled_from(("proto2", "proto3")))
        kind = self.file.enum_type.add(name="E")
        first = 0 if self.file.syntax == "proto3" else self.draw(st.sampled_from((0, 3)))
        for number in (first, 1, -2, *self.draw(st.sampled_from(((), (7,), (2, 1 << 30))))):
            kind.value.add(name=f"E_{number}".replace("-", "N"), number=number)
        zero = self.file.enum_type.add(name="Z")  # enums of maps begin with 0
        for number in (0, 3):
            zero.value.add(name=f"Z_{number}", number=number)
        for number in range(self.draw(st.integers(1, 3))):
            self.file.message_type.add(name=f"M{number}")
        for message in self.file.message_type:
            self._fill(message, f".p.{message.name}", 6)
        return FileDescriptorSet(file=[self.file]).SerializeToString()

    def _fill(self, message: DescriptorProto, name: str, most: int) -> None:
        numbers = self.draw(st.lists(st.sampled_from(_NUMBERS), max_size=most, unique=True))
        for number in numbers:
            one = message.field.add(name=f"f{number}", number=number, label=P.LABEL_OPTIONAL)
            ways = ["plain", "plain", "optional", "member", "member", "repeated", "repeated"]
            how = self.draw(st.sampled_from(ways if self.plain else [*ways, "map"]))
            if how == "map":
                self._make_map(message, name, one)
                continue
            self._set_type(message, name, one)
            if how == "repeated":
                one.label = P.LABEL_REPEATED
                if one.type not in LENGTHS and one.type != P.TYPE_GROUP:
                    one.options.packed = self.draw(st.booleans())
            elif how == "member":
                if not any(other.name == "choice" for other in message.oneof_decl):
                    message.oneof_decl.add(name="choice")
                one.oneof_index = 0
            elif self.file.syntax == "proto2" and how == "optional" and one.type != P.TYPE_GROUP:
                one.label = P.LABEL_REQUIRED
        if self.file.syntax == "proto3":
            self._mark_optional(message)

    def _mark_optional(self, message: DescriptorProto) -> None:
        for one in message.field:
            is_plain = one.label == P.LABEL_OPTIONAL and not one.HasField("oneof_index")
            if is_plain and self.draw(st.booleans()):
                one.proto3_optional = True
                one.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{one.name}")

    def _set_type(self, message: DescriptorProto, name: str, one: Any) -> None:
        groups = [P.TYPE_GROUP] if self.file.syntax == "proto2" and name.count(".") < 4 else []
        names = [f".p.{other.name}" for other in self.file.message_type]
        names = [other for other in names if not self.plain or other > name[:5]]
        parts = [P.TYPE_MESSAGE, P.TYPE_MESSAGE] if names else []
        texts = [] if self.plain else [P.TYPE_STRING]
        one.type = self.draw(st.sampled_from([*SCALARS, *texts, P.TYPE_ENUM, *parts, *groups]))
        if one.type == P.TYPE_ENUM:
            one.type_name = ".p.Z" if name == "...." else ".p.E"
        elif one.type == P.TYPE_MESSAGE:
            one.type_name = self.draw(st.sampled_from(names))
        elif one.type == P.TYPE_GROUP:
            one.name = f"g{one.number}"
            group = message.nested_type.add(name=f"G{one.number}")
            one.type_name = f"{name}.{group.name}"
            self._fill(group, one.type_name, 3)

    def _make_map(self, message: DescriptorProto, name: str, one: Any) -> None:
        entry = message.nested_type.add(name=f"F{one.number}Entry")
        entry.options.map_entry = True
        kind = self.draw(st.sampled_from([*KEYS, P.TYPE_STRING]))
        entry.field.add(name="key", number=1, label=P.LABEL_OPTIONAL, type=kind)
        value = entry.field.add(name="value", number=2, label=P.LABEL_OPTIONAL)
        self._set_type(entry, "....", value)
        one.type, one.label, one.type_name = P.TYPE_MESSAGE, P.LABEL_REPEATED, f"{name}.{entry.name}"


@dataclass(slots=True)
class Model:
    """A message type: its set of descriptors, and Google's class."""

    files: bytes
    root: str
    type: Any

    @classmethod
    def of(cls, files: bytes, root: str = _ROOT) -> "Model":
        pool = descriptor_pool.DescriptorPool()
        for one in FileDescriptorSet.FromString(files).file:
            pool.Add(one)
        return cls(files, root, message_factory.GetMessageClass(pool.FindMessageTypeByName(root)))

    @property
    def schema(self) -> ProtobufSchema:
        return descriptor_schema(FileDescriptorSet.FromString(self.files), self.root)

    def payloads(self, least: int = 0) -> st.SearchStrategy[bytes]:
        """Payloads whose fields come as no encoder would write them."""
        return _payloads(self.type.DESCRIPTOR, 3, least)

    def parse(self, payload: bytes) -> Any:
        """Return what Google's decoder makes of a payload, as `comparable` gives it of ours."""
        return _expected(self.type.FromString(payload), (self.root,))

    def comparable(self, value: Any, kind: pa.DataType) -> Any:
        """Return one of our values (of ``to_pylist``) so that it can be compared."""
        return None if value is None else _ours(value, kind, self.type.DESCRIPTOR, (self.root,))


def models(*, plain: bool = False) -> st.SearchStrategy[Model]:
    @st.composite
    def made(draw: Any) -> Model:
        return Model.of(_Maker(draw, plain).make())

    return made()


def file_of(messages: dict[str, list[tuple[str, int, Any, str]]], syntax: str) -> bytes:
    """Return a set of descriptors of messages by name: each field's name, number, kind (or the name of its type), and what it is.

    That is ``plain``, ``optional``, ``repeated``, the name of a oneof, or the type of the values of a map, whose keys are of the kind.
    """
    made = FileDescriptorProto(name="a.proto", package="p", syntax=syntax)
    kind = made.enum_type.add(name="E")
    for number, name in ((0, "E_0"), (1, "E_1"), (-2, "E_N2")):
        kind.value.add(name=name, number=number)
    for message_name, fields in messages.items():
        message = made.message_type.add(name=message_name)
        for name, number, what, how in fields:
            one = message.field.add(name=name, number=number, label=P.LABEL_OPTIONAL)
            if how.startswith("."):
                entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=P.LABEL_OPTIONAL, type=what)
                _set_kind(entry.field.add(name="value", number=2, label=P.LABEL_OPTIONAL), how)
                one.label = P.LABEL_REPEATED
                _set_kind(one, f".p.{message_name}.{entry.name}")
                continue
            _set_kind(one, what)
            if how == "repeated":
                one.label = P.LABEL_REPEATED
            elif how != "plain" and not (how == "optional" and syntax == "proto2"):
                one.proto3_optional = how == "optional"
                one.oneof_index = len(message.oneof_decl)
                known = [other.name for other in message.oneof_decl]
                if how in known:
                    one.oneof_index = known.index(how)
                else:
                    message.oneof_decl.add(name=f"_{name}" if how == "optional" else how)
    return FileDescriptorSet(file=[made]).SerializeToString()


def _set_kind(one: Any, what: Any) -> None:
    if isinstance(what, str):
        one.type = P.TYPE_ENUM if what == ".p.E" else P.TYPE_MESSAGE
        one.type_name = what
    else:
        one.type = what


def tag(number: int, wire: int) -> bytes:
    return varint_bytes(number << 3 | wire)


def sized(data: bytes) -> bytes:
    return varint_bytes(len(data)) + data


@st.composite
def _payloads(draw: Draw, kind: Descriptor, depth: int, least: int = 0) -> bytes:
    fields = [one for one in kind.fields if depth or not one.message_type]
    made = bytearray()
    for _ in range(draw(st.integers(least, 5))):
        if kind.GetOptions().map_entry:
            # Google's decoder for Python, unlike Java's, does not know entries with unknown fields, nor those with fields of another type.
            # It takes two values of an enum, of which the first one is unknown, for an unknown entry.
            more = [one for one in fields if one.enum_type is None or tag(one.number, 0) not in made]
            made += draw(_field(draw(st.sampled_from(more)), depth, lists=False)) if more else b""
        elif not fields or draw(st.integers(0, 9)) == 0:
            made += draw(_unknown(kind))
        else:
            made += draw(_field(draw(st.sampled_from(fields)), depth))
    return bytes(made)


@st.composite
def _unknown(draw: Draw, kind: Descriptor) -> bytes:
    number = draw(st.sampled_from((9, 300, 1 << 20)))
    if number in kind.fields_by_number:
        return b""
    return draw(_of_wire(number))


@st.composite
def _of_wire(draw: Draw, number: int) -> bytes:
    """A field of any type on the wire."""
    wire = draw(st.sampled_from((0, 1, 2, 3, 5)))
    inner = {0: _varints(), 1: st.binary(min_size=8, max_size=8), 5: st.binary(min_size=4, max_size=4)}
    if wire == 2:
        return tag(number, 2) + sized(draw(st.binary(max_size=5)))
    if wire == 3:
        return tag(number, 3) + tag(5, 0) + b"\x01" + tag(6, 3) + tag(6, 4) + tag(number, 4)
    return tag(number, wire) + draw(inner[wire])


@st.composite
def _field(draw: Draw, one: FieldDescriptor, depth: int, *, lists: bool = True) -> bytes:
    wire = WIRE.get(one.type, 0)
    if lists and draw(st.integers(0, 19)) == 0 and one.message_type is None and wire != 2:
        return tag(one.number, 2) + sized(b"".join(draw(st.lists(_number(one), max_size=3))))
    if one.message_type is not None:
        inner = draw(_payloads(one.message_type, depth - 1))
        if one.type == P.TYPE_GROUP:
            return tag(one.number, 3) + inner + tag(one.number, 4)
        return tag(one.number, 2) + sized(inner)
    if wire == 2:
        data = draw(st.text(max_size=4)).encode() if one.type == P.TYPE_STRING else draw(st.binary(max_size=4))
        return tag(one.number, 2) + sized(data)
    if not lists or one.has_presence or not draw(st.booleans()):
        return tag(one.number, wire) + draw(_number(one))
    return tag(one.number, 2) + sized(b"".join(draw(st.lists(_number(one), max_size=3))))


def _number(one: FieldDescriptor) -> st.SearchStrategy[bytes]:
    wire = WIRE.get(one.type, 0)
    if wire == 0:
        return _varints()
    if one.type in {P.TYPE_DOUBLE, P.TYPE_FLOAT}:
        return st.floats(width=64 if wire == 1 else 32).map(lambda real: struct.pack("<d" if wire == 1 else "<f", real))
    return st.binary(min_size=8, max_size=8) if wire == 1 else st.binary(min_size=4, max_size=4)


def _varints() -> st.SearchStrategy[bytes]:
    """Numbers of all sizes, those of enums often, also with more bytes than they need."""
    of_all_sizes = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))
    plain = st.sampled_from((0, 1, 2, 3, 7, 1 << 30, (1 << 64) - 2)) | of_all_sizes
    return plain.map(varint_bytes) | st.integers(0, 127).map(lambda low: bytes((low | 0x80, 0x80, 0)))


def _expected(message: Message, inside: tuple[str, ...]) -> dict[str, Any]:
    return {one.name: _of_field(message, one, inside) for one in message.DESCRIPTOR.fields}


def _of_field(message: Message, one: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    value = getattr(message, one.name)
    entry = one.message_type
    if entry is not None and entry.GetOptions().map_entry:
        part = entry.fields_by_name["value"]
        here = (*inside, entry.full_name)
        return {_key(key): _single(value[key], part, here) for key in value}
    if one.is_repeated:
        return [_single(item, one, inside) for item in value]
    if one.has_presence and not message.HasField(one.name):
        return None
    return _single(value, one, inside)


def _key(key: Any) -> Any:
    return (type(key).__name__, key)


def _single(value: Any, one: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    if one.message_type is not None:
        if one.message_type.full_name in inside:
            return value.SerializePartialToString(deterministic=True)
        return _expected(value, (*inside, one.message_type.full_name))
    if one.enum_type is not None:
        found = one.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    return repr(value) if isinstance(value, float) else value


def _ours(value: Any, kind: pa.DataType, message: Descriptor, inside: tuple[str, ...]) -> dict[str, Any]:
    return {one.name: _our_field(value[one.name], kind.field(one.name).type, one, inside) for one in message.fields}


def _our_field(value: Any, kind: pa.DataType, one: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    if value is None:
        return None
    entry = one.message_type
    if entry is not None and entry.GetOptions().map_entry:
        part = entry.fields_by_name["value"]
        here = (*inside, entry.full_name)
        found = {_key(key): _our_single(item, kind.item_type, part, here) for key, item in value}
        assert len(found) == len(value)
        return found
    if one.is_repeated:
        return [_our_single(item, kind.value_type, one, inside) for item in value]
    return _our_single(value, kind, one, inside)


def _our_single(value: Any, kind: pa.DataType, one: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    if one.message_type is not None:
        if one.message_type.full_name in inside:
            made = message_factory.GetMessageClass(one.message_type).FromString(value)
            return made.SerializePartialToString(deterministic=True)
        return _ours(value, kind, one.message_type, (*inside, one.message_type.full_name))
    return repr(value) if isinstance(value, float) else value

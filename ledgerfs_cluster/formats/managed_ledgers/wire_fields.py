"""The fields of a protobuf message as the bytes that they are: what is not changed stays as another program wrote it.

A message that is parsed and serialised again is equal, and not the same: fields come in another order, unknown ones last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LENGTH_DELIMITED = 2
_VARINT, _FIXED64, _GROUP, _GROUP_END, _FIXED32 = 0, 1, 3, 4, 5
_DEEPEST_GROUP = 100


@dataclass(frozen=True, slots=True)
class WireField:
    """One field where it stands: number and wire type, all its bytes, and where in them its value begins."""

    number: int
    wire: int
    data: bytes
    value_at: int

    @property
    def value(self) -> bytes:
        """The bytes after tag and length."""
        return self.data[self.value_at :]

    def with_value(self, value: bytes) -> "WireField":
        """Return the field with another value of any length; the same one if it has it."""
        return self if value == self.value else field_of(self.number, value)


def fields_of(message: bytes) -> Iterator[WireField]:
    """Yield the fields in order. Raises `ValueError` for bytes that are none."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        value_at, at = _value(message, at, tag, 0)
        yield WireField(tag >> 3, tag & 7, message[start:at], value_at - start)


def field_of(number: int, value: bytes) -> WireField:
    """Return a field of bytes, or of a message."""
    head = _packed(number << 3 | LENGTH_DELIMITED) + _packed(len(value))
    return WireField(number, LENGTH_DELIMITED, head + value, len(head))


def joined(fields: Iterable[WireField]) -> bytes:
    """Return the message of these fields."""
    return b"".join([one.data for one in fields])


def placed(fields: Iterable[WireField], field: WireField) -> list[WireField]:
    """Return fields with one more, where a serialiser would put it if the others are by ascending number."""
    known = list(fields)
    at = next((i for i, one in enumerate(known) if one.number > field.number), len(known))
    return [*known[:at], field, *known[at:]]


def _value(message: bytes, at: int, tag: int, depth: int) -> tuple[int, int]:
    """Return where the value of a field begins and ends."""
    match tag & 7:
        case wire if wire == _VARINT:
            return at, _varint(message, at)[1]
        case wire if wire == LENGTH_DELIMITED:
            size, at = _varint(message, at)
            end = at + size
        case wire if wire == _GROUP and depth < _DEEPEST_GROUP:
            return at, _group_end(message, at, tag >> 3, depth)
        case wire if wire in {_FIXED32, _FIXED64}:
            end = at + (4 if wire == _FIXED32 else 8)
        case wire:
            raise ValueError(f"a field of the wire type {wire}")
    if end > len(message):
        raise ValueError("a field that is cut")
    return at, end


def _group_end(message: bytes, at: int, number: int, depth: int) -> int:
    while True:
        tag, at = _varint(message, at)
        if tag & 7 == _GROUP_END:
            if tag >> 3 != number:
                raise ValueError("a group that another one ends")
            return at
        _, at = _value(message, at, tag, depth + 1)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number that is cut, or too long")


def _packed(value: int) -> bytes:
    """Return a varint."""
    packed = bytearray()
    while value > 0x7F:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)

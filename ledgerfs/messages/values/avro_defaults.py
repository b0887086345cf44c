"""Defaults of Avro fields as instructions: a reader's value for a field that the writer does not have."""

import struct
from collections.abc import Callable

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Json,
    Map,
    Primitive,
    Record,
    Union,
)
from ledgerfs.messages.values.avro_columns import is_null
from ledgerfs.messages.values.avro_kernel import Do
from ledgerfs.messages.values.value_columns import Choice, Column, Items, Leaf, Nothing, Nullable, Pairs, Struct
from ledgerfs.messages.values.value_program import Assembler

TIMES_OF_DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
"""Units of a day."""
_RANGES = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}
_REALS = {"float": ("<f", "<i"), "double": ("<d", "<q")}
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
}
_STRING = Primitive("string")


def enter_branch(to: Assembler, reader: Union, number: int, column: Column, emit: Callable[[Column], None]) -> None:
    """Append the number of a branch, zeros to the others, and the words that ``emit`` adds for the branch's column."""
    match column:
        case Nullable() if is_null(reader.branches[number]):
            to.emit(Do.WORD, column.node, 0)
            to.emit(Do.BLANKS, -1, *to.blanks(column.value))
        case Nullable():
            to.emit(Do.WORD, column.node, 1)
            emit(column.value)
        case Choice():
            to.emit(Do.WORD, column.node, number)
            for other, branch in enumerate(column.branches):
                if branch is not None and other != number:
                    to.emit(Do.BLANKS, -1, *to.blanks(branch[1]))
            chosen = column.branches[number]
            if chosen is not None:
                emit(chosen[1])
        case _:
            emit(column)


def emit_default(to: Assembler, kind: AvroType, column: Column, value: Json) -> None:
    """Emit a default in its JSON form; raises `InvalidSchemaError` for one that is not of the type."""
    to.count()
    match kind, column:
        case Union(), _:
            _emit_branch(to, kind, column, value)
        case Primitive(name="null"), Nothing() if value is None:
            return
        case ((Primitive() | Fixed() | Enum()), Leaf()):
            _emit_leaf(to, kind, column, value)
        case Array(), Items() if isinstance(value, list):
            for one in value:
                emit_default(to, kind.items, column.item, one)
            to.emit(Do.WORD, column.node, len(value))
        case Map(), Pairs() if isinstance(value, dict):
            for key, one in value.items():
                emit_default(to, _STRING, column.key, key)
                emit_default(to, kind.values, column.value, one)
            to.emit(Do.WORD, column.node, len(value))
        case Record(), Struct() if isinstance(value, dict):
            for one, (_, part) in zip(kind.fields, column.fields, strict=True):
                emit_default(to, one.type, part, value.get(one.name, one.default))
        case _:
            raise _of_another_type()


def _emit_branch(to: Assembler, kind: Union, column: Column, value: Json) -> None:
    number = next((number for number, one in enumerate(kind.branches) if _may_be(one, value)), None)
    if number is None:
        raise _of_another_type()
    branch = kind.branches[number]
    enter_branch(to, kind, number, column, lambda one: emit_default(to, branch, one, value))


def _emit_leaf(to: Assembler, kind: Primitive | Fixed | Enum, column: Leaf, value: Json) -> None:
    if isinstance(kind, Primitive) and not _is_text(kind):
        to.emit(Do.WORD, column.node, _word(kind, value))
    elif not isinstance(value, str):
        raise _of_another_type()
    elif isinstance(kind, Enum):
        if value not in kind.symbols:
            raise _of_another_type()
        to.emit(Do.WORD, column.node, kind.symbols.index(value))
    else:
        data = _bytes(kind, value)
        to.emit(Do.CONSTANT, column.node, to.constant(data), len(data))


def _bytes(kind: Primitive | Fixed, value: str) -> bytes:
    """Return the bytes of a default: those of a text, or of characters up to U+00FF as bytes."""
    try:
        data = value.encode("utf-8" if kind.name == "string" and isinstance(kind, Primitive) else "latin-1")
    except UnicodeEncodeError:
        raise _of_another_type() from None
    if isinstance(kind, Fixed) and len(data) != kind.size:
        raise _of_another_type()
    if kind.logical is not None and kind.logical.name == "decimal":
        number = int.from_bytes(data, "big", signed=True)
        if not data or abs(number) >= 10**kind.logical.precision:
            raise _of_another_type()
    return data


def _word(kind: Primitive, value: Json) -> int:
    limit = TIMES_OF_DAY.get(kind.logical.name, 0) if kind.logical is not None else 0
    if kind.name == "boolean" and isinstance(value, bool):
        return int(value)
    if kind.name in _RANGES and type(value) is int and value in (range(limit) if limit else _RANGES[kind.name]):
        return value
    if kind.name in _REALS and type(value) in {int, float}:
        real, word = _REALS[kind.name]
        try:
            return int(struct.unpack(word, struct.pack(real, value))[0])
        except OverflowError:
            raise _of_another_type() from None
    raise _of_another_type()


def _may_be(kind: AvroType, value: Json) -> bool:
    """Whether a default may belong to a branch."""
    if isinstance(kind, Enum):
        return value in kind.symbols
    if isinstance(kind, Array):
        return isinstance(value, list)
    if not isinstance(kind, Primitive | Fixed):
        return isinstance(value, dict)
    return type(value) in _JSON_TYPES.get(kind.name if isinstance(kind, Primitive) else "", (str,))


def _is_text(kind: Primitive) -> bool:
    return kind.name in {"string", "bytes"}


def _of_another_type() -> InvalidSchemaError:
    return InvalidSchemaError("a default does not match its type")

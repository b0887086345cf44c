"""The program of an Avro schema: what a writer wrote, read as what a reader wants (specification, "Schema Resolution").

The reader's type gives the columns. As in Java, names of records do not have to be equal outside unions. What can never be resolved is no
error of the program but of the values that need it.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Recursive,
    Union,
    branch_name,
    short_name,
)
from ledgerfs.messages.values.avro_columns import column_of, is_null
from ledgerfs.messages.values.avro_kernel import Do
from ledgerfs.messages.values.value_columns import (
    Choice,
    Column,
    Items,
    Leaf,
    Nothing,
    Nullable,
    Pairs,
    Struct,
)
from ledgerfs.messages.values.value_program import Assembler, Program

_SPANS = {("bytes", "bytes"), ("string", "string"), ("bytes", "string"), ("string", "bytes")}
_NUMBERS = {
    ("boolean", "boolean"): Do.BOOLEAN,
    ("int", "int"): Do.INT,
    ("int", "long"): Do.INT,
    ("int", "float"): Do.INT_TO_FLOAT,
    ("int", "double"): Do.INT_TO_DOUBLE,
    ("long", "long"): Do.LONG,
    ("long", "float"): Do.INT_TO_FLOAT,
    ("long", "double"): Do.INT_TO_DOUBLE,
    ("float", "float"): Do.FLOAT,
    ("float", "double"): Do.FLOAT_TO_DOUBLE,
    ("double", "double"): Do.DOUBLE,
}
_TIMES_OF_DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
_INT_RANGE = range(-(1 << 31), 1 << 31)
_LONG_RANGE = range(-(1 << 63), 1 << 63)


def avro_program(writer: AvroSchema, reader: AvroSchema | None = None) -> Program:
    """Return the program that reads values of ``writer`` as those of ``reader``, its own without one.

    Raises `InvalidSchemaError` for a schema that needs more instructions than any real one.
    """
    wanted = writer if reader is None else reader
    assembler = Assembler()
    column = column_of(wanted.root, assembler.nodes)
    resolver = _Resolver(writer.named, wanted.named, assembler)
    resolver.read(writer.root, wanted.root, column)
    assembler.emit(Do.END)
    resolver.add_routines()
    return assembler.program(column)


@dataclass(slots=True)
class _Resolver:
    """Emits instructions; the column is always that of the reader's type."""

    written: Mapping[str, Named]
    wanted: Mapping[str, Named]
    to: Assembler
    _calls: dict[str, list[int]] = field(default_factory=dict)
    _least: dict[int, int] = field(default_factory=dict)

    def read(self, writer: AvroType, reader: AvroType, column: Column) -> None:
        """Emit what reads a value of the writer's type into the columns of the reader's."""
        if isinstance(writer, Union):
            self._read_union(writer, reader, column)
        elif isinstance(reader, Union):
            self._choose(writer, reader, column)
        elif isinstance(reader, Recursive):
            self._read_raw(writer, reader, column)
        elif isinstance(writer, Recursive):
            self.read(self.written[writer.name], reader, column)
        else:
            self._read_alike(writer, reader, column)

    def _read_alike(self, writer: AvroType, reader: AvroType, column: Column) -> None:
        match writer, reader, column:
            case Record(), Record(), Struct():
                self._read_record(writer, reader, column)
            case Array(), Array(), Items():
                self._read_items(writer.items, column.node, lambda: self.read(writer.items, reader.items, column.item))
            case Map(), Map(), Pairs():
                self._read_items(writer, column.node, lambda: self._read_pair(writer, reader, column))
            case Primitive(), Primitive(), Leaf() | Nothing():
                self._read_primitive(writer, reader, column)
            case Fixed(), Fixed(), Leaf() if writer.size == reader.size and _have_one_name(writer, reader):
                self._read_fixed(writer, reader, column)
            case Enum(), Enum(), Leaf() if _have_one_name(writer, reader):
                self._read_symbol(writer, reader, column)
            case _:
                self._fail(writer, reader)

    def _read_record(self, writer: Record, reader: Record, column: Struct) -> None:
        columns = {one.name: (one, part) for one, (_, part) in zip(reader.fields, column.fields, strict=True)}
        given = {one.name for one in writer.fields}
        aliases = {alias: one.name for one in reader.fields if one.name not in given for alias in one.aliases}
        read = set()
        for one in writer.fields:
            name = one.name if one.name in columns else aliases.get(one.name, "")
            if name in columns and name not in read:
                read.add(name)
                self.read(one.type, columns[name][0].type, columns[name][1])
            else:
                self.skip(one.type)
        for name, (wanted, part) in columns.items():
            if name not in read:
                self._default_of_field(reader, wanted, part)

    def _default_of_field(self, record: Record, wanted: Field, column: Column) -> None:
        if wanted.default is NO_DEFAULT:
            text = f"it has no field {wanted.name!r}, for which {record.name!r} has no default"
            self.to.emit(Do.FAIL, -1, self.to.reason(text))
            return
        try:
            self._default(wanted.type, column, wanted.default)
        except (InvalidSchemaError, TypeError, ValueError, OverflowError, struct.error):
            text = f"it has no field {wanted.name!r}, and the default of {record.name!r} for it is not of its type"
            self.to.emit(Do.FAIL, -1, self.to.reason(text))

    def _read_items(self, item: AvroType, node: int, read_one: Callable[[], None]) -> None:
        least = 1 if isinstance(item, Map) else self._least_bytes(item)
        begin = self.to.emit(Do.ITEMS, node, least)
        read_one()
        self.to.emit(Do.NEXT_ITEM, node, least, self.to.here + 1)
        self.to.code[begin][3] = self.to.here

    def _read_pair(self, writer: Map, reader: Map, column: Pairs) -> None:
        assert isinstance(column.key, Leaf)
        self.to.emit(Do.SPAN, column.key.node)
        self.read(writer.values, reader.values, column.value)

    def _read_primitive(self, writer: Primitive, reader: Primitive, column: Leaf | Nothing) -> None:
        kinds = (writer.name, reader.name)
        if isinstance(column, Nothing):
            if kinds != ("null", "null"):
                self._fail(writer, reader)
        elif not _mean_the_same(writer.logical, reader.logical):
            self._fail(writer, reader)
        elif reader.logical is not None and reader.logical.name == "decimal" and kinds in _SPANS:
            self._read_decimal(column, reader.logical, -1)
        elif kinds in _SPANS:
            self.to.emit(Do.SPAN, column.node)
        elif kinds in _NUMBERS:
            limit = _TIMES_OF_DAY.get(reader.logical.name, 0) if reader.logical is not None else 0
            self.to.emit(_NUMBERS[kinds], column.node, limit)
        else:
            self._fail(writer, reader)

    def _read_fixed(self, writer: Fixed, reader: Fixed, column: Leaf) -> None:
        if not _mean_the_same(writer.logical, reader.logical):
            self._fail(writer, reader)
        elif reader.logical is not None and reader.logical.name == "decimal":
            self._read_decimal(column, reader.logical, writer.size)
        else:
            self.to.emit(Do.FIXED, column.node, writer.size)

    def _read_decimal(self, column: Leaf, logical: Logical, size: int) -> None:
        largest, _ = self.to.table((10**logical.precision - 1).to_bytes(32, "big"))
        self.to.emit(Do.DECIMAL, column.node, largest, size)

    def _read_symbol(self, writer: Enum, reader: Enum, column: Leaf) -> None:
        numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
        other = numbers.get(reader.default, -1) if reader.default is not None else -1
        table = [numbers.get(symbol, other) for symbol in writer.symbols]
        if -1 in table:
            reason = self.to.reason(f"it has a symbol that {reader.name!r} does not have, nor a default for it")
            table = [-reason if one < 0 else one for one in table]
        self.to.emit(Do.SYMBOL, column.node, *self.to.table(table))

    # Unions.

    def _read_union(self, writer: Union, reader: AvroType, column: Column) -> None:
        null = next((number for number, one in enumerate(writer.branches) if is_null(one)), -1)
        if isinstance(column, Nullable) and isinstance(reader, Union) and null >= 0 and len(writer.branches) == 2:
            at, count = self.to.blanks(column.value)
            place, _ = self.to.table((at, count, 0))
            self.to.emit(Do.OPTION, column.node, null, place)
            self.read(writer.branches[1 - null], _value_of(reader), column.value)
            self.to.tables[place + 2] = self.to.here
            return
        self._branch(writer, lambda one: self.read(one, reader, column))

    def _branch(self, writer: Union, emit: Callable[[AvroType], None]) -> None:
        """Emit a choice by the writer's branch, with instructions for each."""
        place, count = self.to.table([0] * len(writer.branches))
        self.to.emit(Do.UNION, -1, place, count)
        jumps = []
        for number, one in enumerate(writer.branches):
            self.to.tables[place + number] = self.to.here
            emit(one)
            jumps.append(self.to.emit(Do.JUMP))
        for jump in jumps:
            self.to.code[jump][2] = self.to.here

    def _choose(self, writer: AvroType, reader: Union, column: Column) -> None:
        """Read what is no union as the branch of a union that is like it."""
        number = self._like(writer, reader)
        if number is None:
            self._fail(writer, reader)
            return
        self._enter_branch(reader, number, column, lambda one: self.read(writer, reader.branches[number], one))

    def _enter_branch(self, reader: Union, number: int, column: Column, emit: Callable[[Column], None]) -> None:
        """Append which branch it is, zeros to the others, and what is emitted."""
        match column:
            case Nullable() if is_null(reader.branches[number]):
                self.to.emit(Do.WORD, column.node, 0)
                self.to.emit(Do.BLANKS, -1, *self.to.blanks(column.value))
            case Nullable():
                self.to.emit(Do.WORD, column.node, 1)
                emit(column.value)
            case Choice():
                self.to.emit(Do.WORD, column.node, number)
                for other, branch in enumerate(column.branches):
                    if branch is not None and other != number:
                        self.to.emit(Do.BLANKS, -1, *self.to.blanks(branch[1]))
                chosen = column.branches[number]
                if chosen is not None:
                    emit(chosen[1])
            case _:
                emit(column)

    def _like(self, writer: AvroType, reader: Union) -> int | None:
        """Return the branch for a type: of its name, else a record of its short name, else a number or text that it can become."""
        name = branch_name(writer)
        named = {number: _names_of(self.wanted, one) for number, one in enumerate(reader.branches)}
        for number, names in named.items():
            if name in names and _is_alike(writer, reader.branches[number]):
                return number
        for number, one in enumerate(reader.branches):
            if isinstance(writer, Record | Recursive) and isinstance(one, Record | Recursive):
                if short_name(one.name) == short_name(name):
                    return number
        for number, one in enumerate(reader.branches):
            if isinstance(writer, Primitive) and isinstance(one, Primitive):
                if (writer.name, one.name) in _SPANS or (writer.name, one.name) in _NUMBERS:
                    return number
        return None

    # Recursion, and what is left out.

    def _read_raw(self, writer: AvroType, reader: Recursive, column: Column) -> None:
        assert isinstance(column, Leaf)
        if not isinstance(writer, Record | Recursive):
            self._fail(writer, reader)
            return
        self.to.emit(Do.RAW, column.node)
        self.skip(writer)
        self.to.emit(Do.END_RAW, column.node)

    def skip(self, writer: AvroType) -> None:
        """Emit what reads a value and keeps nothing."""
        match writer:
            case Primitive(name="null"):
                return
            case Primitive():
                kinds = (writer.name, writer.name)
                self.to.emit(Do.SPAN if kinds in _SPANS else _NUMBERS[kinds])
            case Fixed():
                self.to.emit(Do.FIXED, -1, writer.size)
            case Enum():
                self.to.emit(Do.SYMBOL, -1, *self.to.table(range(len(writer.symbols))))
            case Record():
                for one in writer.fields:
                    self.skip(one.type)
            case Array():
                self._read_items(writer.items, -1, lambda: self.skip(writer.items))
            case Map():
                self._read_items(writer, -1, lambda: self._skip_pair(writer))
            case Union():
                self._branch(writer, self.skip)
            case Recursive():
                self._calls.setdefault(writer.name, []).append(self.to.emit(Do.CALL))

    def _skip_pair(self, writer: Map) -> None:
        self.to.emit(Do.SPAN)
        self.skip(writer.values)

    def add_routines(self) -> None:
        """Emit what the calls need, after the end of the program."""
        done: dict[str, int] = {}
        while left := [name for name in self._calls if name not in done]:
            for name in left:
                done[name] = self.to.here
                self.skip(self.written[name])
                self.to.emit(Do.RETURN)
        for name, calls in self._calls.items():
            for call in calls:
                self.to.code[call][2] = done[name]

    def _fail(self, writer: AvroType, reader: AvroType) -> None:
        text = f"{_described(writer)} cannot be read as {_described(reader)}"
        self.to.emit(Do.FAIL, -1, self.to.reason(text))

    def _least_bytes(self, kind: AvroType) -> int:
        """Return the least size of a value, bytes; kept by identity, since types that share parts may have very many of them."""
        if id(kind) not in self._least:
            self._least[id(kind)] = self._least_of(kind)
        return self._least[id(kind)]

    def _least_of(self, kind: AvroType) -> int:
        match kind:
            case Primitive():
                return _LEAST_BYTES.get(kind.name, 1)
            case Fixed():
                return kind.size
            case Record():
                return sum(self._least_bytes(one.type) for one in kind.fields)
            case Recursive():
                return 0  # at least: nothing is known of what is still being defined
            case _:
                return 1

    # Defaults.

    def _default(self, kind: AvroType, column: Column, value: Any) -> None:  # noqa: ANN401  (JSON)
        """Emit a default; raises an error for one that is not of the type."""
        match kind, column:
            case Union(), _:
                number = [_may_be(branch, value) for branch in kind.branches].index(True)
                self._enter_branch(kind, number, column, lambda one: self._default(kind.branches[number], one, value))
            case Primitive(), Nothing() if value is None:
                return
            case ((Primitive(name="string" | "bytes") | Fixed()), Leaf()):
                data = value.encode("latin-1" if _is_binary(kind) else "utf-8")
                if isinstance(kind, Fixed) and len(data) != kind.size:
                    raise InvalidSchemaError("a default of another size")
                self.to.emit(Do.CONSTANT, column.node, self.to.constant(data), len(data))
            case Primitive(), Leaf():
                self.to.emit(Do.WORD, column.node, _word(kind.name, value))
            case Enum(), Leaf():
                self.to.emit(Do.WORD, column.node, kind.symbols.index(value))
            case Array(), Items():
                for one in value:
                    self._default(kind.items, column.item, one)
                self.to.emit(Do.WORD, column.node, len(value))
            case Map(), Pairs():
                for key, one in value.items():
                    self._default(Primitive("string"), column.key, key)
                    self._default(kind.values, column.value, one)
                self.to.emit(Do.WORD, column.node, len(value))
            case Record(), Struct():
                for one, (_, part) in zip(kind.fields, column.fields, strict=True):
                    self._default(one.type, part, value.get(one.name, one.default))
            case _:
                raise InvalidSchemaError("a default of another type")


def _word(kind: str, value: Any) -> int:  # noqa: ANN401  (JSON)
    match kind, value:
        case "boolean", bool():
            return int(value)
        case ("int", int()) if not isinstance(value, bool) and value in _INT_RANGE:
            return value
        case ("long", int()) if not isinstance(value, bool) and value in _LONG_RANGE:
            return value
        case ("float", int() | float()) if not isinstance(value, bool):
            return int(struct.unpack("<i", struct.pack("<f", value))[0])
        case ("double", int() | float()) if not isinstance(value, bool):
            return int(struct.unpack("<q", struct.pack("<d", value))[0])
        case _:
            raise InvalidSchemaError("a default of another type")


def _may_be(kind: AvroType, value: Any) -> bool:  # noqa: ANN401  (JSON)
    """Whether a default may be one of a branch."""
    match kind:
        case Primitive(name="null"):
            return value is None
        case Primitive(name="boolean"):
            return isinstance(value, bool)
        case Primitive(name="int" | "long"):
            return isinstance(value, int) and not isinstance(value, bool)
        case Primitive(name="float" | "double"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Primitive() | Fixed():
            return isinstance(value, str)
        case Enum():
            return value in kind.symbols
        case Array():
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _is_binary(kind: AvroType) -> bool:
    return (
        isinstance(kind, Fixed) or kind == Primitive("bytes") or (isinstance(kind, Primitive) and kind.name == "bytes")
    )


def _value_of(reader: Union) -> AvroType:
    return next(one for one in reader.branches if not is_null(one))


def _have_one_name(writer: Fixed | Enum, reader: Fixed | Enum) -> bool:
    names = (reader.name, *reader.aliases)
    return writer.name in names or short_name(writer.name) in map(short_name, names)


def _names_of(named: Mapping[str, Named], kind: AvroType) -> tuple[str, ...]:
    if isinstance(kind, Recursive):
        kind = named[kind.name]
    aliases = kind.aliases if isinstance(kind, Record | Enum | Fixed) else ()
    return branch_name(kind), *aliases


def _is_alike(writer: AvroType, reader: AvroType) -> bool:
    records = (Record, Recursive)
    return type(writer) is type(reader) or (isinstance(writer, records) and isinstance(reader, records))


def _mean_the_same(writer: Logical | None, reader: Logical | None) -> bool:
    """Whether numbers of one logical type are those of another: not if units or scales differ, where Avro would take one for the other."""
    if writer is None or reader is None or writer == reader:
        return True
    if writer.name == reader.name == "decimal":
        return writer.scale == reader.scale
    return writer.name.removeprefix("local-") == reader.name.removeprefix("local-")


def _described(kind: AvroType) -> str:
    match kind:
        case Primitive() if kind.logical is not None:
            return f"{kind.name} ({kind.logical.name})"
        case Array():
            return "an array"
        case Map():
            return "a map"
        case Union():
            return "[" + ", ".join(branch_name(one) for one in kind.branches) + "]"
        case _:
            return branch_name(kind)

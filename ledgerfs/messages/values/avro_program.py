"""The program of an Avro schema: it reads a writer's values as a reader's (specification, "Schema Resolution").

The reader's type defines the columns. As in Java, names of records need not be equal outside unions. A part that can never be resolved is
an error only for the values that need it, not for the program.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

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
    Primitive,
    Record,
    Recursive,
    Union,
)
from ledgerfs.messages.values.avro_columns import column_of, is_null
from ledgerfs.messages.values.avro_defaults import TIMES_OF_DAY, emit_default, enter_branch
from ledgerfs.messages.values.avro_kernel import Do
from ledgerfs.messages.values.avro_matching import (
    SPANS,
    Matching,
    described,
    have_one_name,
    mean_the_same,
    pairs_of_fields,
)
from ledgerfs.messages.values.value_columns import (
    Column,
    Items,
    Leaf,
    Nothing,
    Nullable,
    Pairs,
    Struct,
)
from ledgerfs.messages.values.value_program import Assembler, Program

_NUMBERS = {
    ("boolean", "boolean"): Do.BOOLEAN,
    ("int", "int"): Do.INT,
    ("int", "long"): Do.INT,
    ("int", "float"): Do.LONG_TO_FLOAT,
    ("int", "double"): Do.LONG_TO_DOUBLE,
    ("long", "long"): Do.LONG,
    ("long", "float"): Do.LONG_TO_FLOAT,
    ("long", "double"): Do.LONG_TO_DOUBLE,
    ("float", "float"): Do.FLOAT,
    ("float", "double"): Do.FLOAT_TO_DOUBLE,
    ("double", "double"): Do.DOUBLE,
}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
_STRING = Primitive("string")


def avro_program(writer: AvroSchema, reader: AvroSchema | None = None) -> Program:
    """Return the program that reads values of ``writer`` as those of ``reader`` (default: ``writer``).

    Raises `InvalidSchemaError` for a schema that needs more instructions than any real one.
    """
    try:
        return _program(writer, writer if reader is None else reader)
    except RecursionError:
        raise InvalidSchemaError("the recursive types of these schemas cannot be compared") from None


def _program(writer: AvroSchema, wanted: AvroSchema) -> Program:
    assembler = Assembler()
    column = column_of(wanted.root, assembler.nodes)
    resolver = _Resolver(Matching(writer.named, wanted.named), assembler)
    resolver.read(writer.root, wanted.root, column)
    assembler.emit(Do.END)
    resolver.add_routines()
    return assembler.program(column)


@dataclass(slots=True)
class _Resolver:
    """Emits instructions; the column is always that of the reader's type."""

    matching: Matching
    to: Assembler
    _calls: dict[str, list[int]] = field(default_factory=dict)
    _least: dict[int, int] = field(default_factory=dict)

    def read(self, writer: AvroType, reader: AvroType, column: Column) -> None:
        """Emit instructions that read a value of the writer's type into the columns of the reader's."""
        self.to.count()
        if isinstance(writer, Union):
            self._read_union(writer, reader, column)
        elif isinstance(reader, Union):
            self._choose(writer, reader, column)
        elif isinstance(reader, Recursive) and isinstance(column, Leaf):
            self._read_raw(writer, reader, column)
        elif isinstance(writer, Recursive):
            self.read(self.matching.written[writer.name], reader, column)
        else:
            self._read_alike(writer, reader, column)

    def _read_alike(self, writer: AvroType, reader: AvroType, column: Column) -> None:
        match writer, reader, column:
            case Record(), Record(), Struct():
                self._read_record(writer, reader, column)
            case Array(), Array(), Items():
                self._read_items(writer.items, column, lambda: self.read(writer.items, reader.items, column.item))
            case Map(), Map(), Pairs():
                self._read_items(None, column, lambda: self._read_pair(writer, reader, column))
            case Primitive(), Primitive(), Leaf() | Nothing():
                self._read_primitive(writer, reader, column)
            case Fixed(), Fixed(), Leaf() if writer.size == reader.size and have_one_name(writer, reader):
                self._read_fixed(writer, reader, column)
            case Enum(), Enum(), Leaf() if have_one_name(writer, reader):
                self._read_symbol(writer, reader, column)
            case _:
                self._fail(writer, reader)

    def _read_record(self, writer: Record, reader: Record, column: Struct) -> None:
        parts = dict(column.fields)
        pairs = pairs_of_fields(writer, reader)
        read = {one.name: wanted for wanted, one in pairs if one is not None}
        for one in writer.fields:
            if one.name in read:
                self.read(one.type, read[one.name].type, parts[read[one.name].name])
            else:
                self.skip(one.type)
        for wanted, given in pairs:
            if given is None:
                self._default_of_field(reader, wanted, parts[wanted.name])

    def _default_of_field(self, record: Record, wanted: Field, column: Column) -> None:
        if wanted.default is NO_DEFAULT:
            text = f"it has no field {wanted.name!r}, for which {record.name!r} has no default"
            self.to.emit(Do.FAIL, -1, self.to.reason(text))
            return
        try:
            emit_default(self.to, wanted.type, column, wanted.default)
        except InvalidSchemaError:
            text = f"it has no field {wanted.name!r}, and the default of {record.name!r} for it does not match its type"
            self.to.emit(Do.FAIL, -1, self.to.reason(text))

    def _read_items(self, item: AvroType | None, column: Items | Pairs | None, read_one: Callable[[], None]) -> None:
        """Emit a loop over the items of a list, or, without ``item``, over pairs, which have at least one byte."""
        node = -1 if column is None else column.node
        begin = self.to.emit(Do.ITEMS, node)
        read_one()
        least = 1 if item is None else self._least_bytes(item)
        if least == 0:
            words = self.to.words(column.item) if isinstance(column, Items) else 0
            least = begin - self.to.here - words
        self.to.emit(Do.NEXT_ITEM, node, least, self.to.here + 1)
        self.to.code[begin][2:] = least, self.to.here

    def _read_pair(self, writer: Map, reader: Map, column: Pairs) -> None:
        self.read(_STRING, _STRING, column.key)
        self.read(writer.values, reader.values, column.value)

    def _read_primitive(self, writer: Primitive, reader: Primitive, column: Leaf | Nothing) -> None:
        kinds = (writer.name, reader.name)
        if isinstance(column, Nothing):
            if kinds != ("null", "null"):
                self._fail(writer, reader)
        elif not mean_the_same(writer.logical, reader.logical):
            self._fail(writer, reader)
        elif reader.logical is not None and reader.logical.name == "decimal" and kinds in SPANS:
            self._read_decimal(column, reader.logical, -1)
        elif kinds in SPANS:
            self.to.emit(Do.SPAN, column.node)
        elif kinds in _NUMBERS:
            self.to.emit(_NUMBERS[kinds], column.node, _first_argument(writer, reader))
        else:
            self._fail(writer, reader)

    def _read_fixed(self, writer: Fixed, reader: Fixed, column: Leaf) -> None:
        if not mean_the_same(writer.logical, reader.logical):
            self._fail(writer, reader)
        elif reader.logical is not None and reader.logical.name == "decimal":
            self._read_decimal(column, reader.logical, writer.size)
        else:
            self.to.emit(Do.FIXED, column.node, writer.size)

    def _read_decimal(self, column: Leaf, logical: Logical, size: int) -> None:
        largest, _ = self.to.shared_table(*(10**logical.precision - 1).to_bytes(32, "big"))
        self.to.emit(Do.DECIMAL, column.node, largest, size)

    def _read_symbol(self, writer: Enum, reader: Enum, column: Leaf) -> None:
        numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
        other = numbers.get(reader.default, -1) if reader.default is not None else -1
        table = [numbers.get(symbol, other) for symbol in writer.symbols]
        if -1 in table:
            reason = self.to.reason(f"it has a symbol that the enum {reader.name!r} lacks, and the enum has no default")
            table = [-reason if one < 0 else one for one in table]
        self.to.emit(Do.SYMBOL, column.node, *self.to.shared_table(*table))

    # Unions.

    def _read_union(self, writer: Union, reader: AvroType, column: Column) -> None:
        null = next((number for number, one in enumerate(writer.branches) if is_null(one)), -1)
        if isinstance(column, Nullable) and isinstance(reader, Union) and null >= 0 and len(writer.branches) == 2:
            at, count = self.to.blanks(column.value)
            place, _ = self.to.table((at, count, 0))
            self.to.emit(Do.OPTION, column.node, null, place)
            value = next(one for one in reader.branches if not is_null(one))
            self.read(writer.branches[1 - null], value, column.value)
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
        """Read a type that is not a union as the matching branch of a union."""
        number = self.matching.branch(writer, reader)
        if number is None:
            self._fail(writer, reader)
            return
        branch = reader.branches[number]
        enter_branch(self.to, reader, number, column, lambda one: self.read(writer, branch, one))

    # Recursion, and skipped values.

    def _read_raw(self, writer: AvroType, reader: Recursive, column: Leaf) -> None:
        if not isinstance(writer, Record | Recursive):
            self._fail(writer, reader)
            return
        self.to.emit(Do.RAW, column.node)
        self.skip(writer)
        self.to.emit(Do.END_RAW, column.node)

    def skip(self, writer: AvroType) -> None:
        """Emit instructions that read a value and keep nothing."""
        self.to.count()
        match writer:
            case Primitive() | Fixed() | Enum():
                self._skip_leaf(writer)
            case Record():
                for one in writer.fields:
                    self.skip(one.type)
            case Array():
                self._read_items(writer.items, None, lambda: self.skip(writer.items))
            case Map():
                self._read_items(None, None, lambda: self._skip_pair(writer))
            case Union():
                self._branch(writer, self.skip)
            case Recursive():
                self._calls.setdefault(writer.name, []).append(self.to.emit(Do.CALL))

    def _skip_leaf(self, writer: Primitive | Fixed | Enum) -> None:
        match writer:
            case Fixed():
                self.to.emit(Do.FIXED, -1, writer.size)
            case Enum():
                self.to.emit(Do.SYMBOL, -1, *self.to.shared_table(*range(len(writer.symbols))))
            case Primitive(name="bytes" | "string"):
                self.to.emit(Do.SPAN)
            case Primitive() if not is_null(writer):
                self.to.emit(_NUMBERS[writer.name, writer.name])

    def _skip_pair(self, writer: Map) -> None:
        self.to.emit(Do.SPAN)
        self.skip(writer.values)

    def add_routines(self) -> None:
        """Emit the routines of calls, after the end of the program."""
        done: dict[str, int] = {}
        while left := [name for name in self._calls if name not in done]:
            for name in left:
                done[name] = self.to.here
                self.skip(self.matching.written[name])
                self.to.emit(Do.RETURN)
        for name, calls in self._calls.items():
            for call in calls:
                self.to.code[call][2] = done[name]

    def _fail(self, writer: AvroType, reader: AvroType) -> None:
        text = f"{described(writer)} cannot be read as {described(reader)}"
        self.to.emit(Do.FAIL, -1, self.to.reason(text))

    def _least_bytes(self, kind: AvroType) -> int:
        """Return the least size of a value, bytes; cached by identity, since types that share parts may have very many of them."""
        if id(kind) not in self._least:
            self._least[id(kind)] = 0  # inside its own definition: at least
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
                return self._least_bytes(self.matching.written[kind.name])
            case _:
                return 1


def _first_argument(writer: Primitive, reader: Primitive) -> int:
    """Return the first argument of the instruction for a number."""
    if reader.name in {"float", "double"}:
        return int(writer.name == "int")
    return TIMES_OF_DAY.get(reader.logical.name, 0) if reader.logical is not None else 0

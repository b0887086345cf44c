"""The program of a Protobuf schema: the columns of its message, and an instruction for each field.

Values are read by the reader's schema, by the numbers of fields, as Protobuf itself does. The writer's schema adds one check: where fields
of one number have kinds that do not fit, Protobuf would return wrong values, so a value that has such a field is an error.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.schemas.protobuf_schema import Field, Kind, Message, ProtobufSchema
from ledgerfs.messages.values.protobuf_kernel import DO, FIELDS, FIXED_REASONS, NUMBER, Do, Wire
from ledgerfs.messages.values.value_columns import Column, Items, Nullable, Numbering, Pairs, Struct, Words
from ledgerfs.messages.values.value_program import Reason

_DEPTHS = (64, 16, 8, 4, 3, 2)
"""Levels of nested messages that become columns: the first of these that does not make too many columns."""
_MOST_COLUMNS = 1 << 13
_KINDS = {
    Kind.DOUBLE: (Do.NUMBER, Wire.FIXED64, Words.DOUBLE_BITS, pa.float64()),
    Kind.FLOAT: (Do.NUMBER, Wire.FIXED32, Words.FLOAT_BITS, pa.float32()),
    Kind.INT64: (Do.NUMBER, Wire.VARINT, Words.INTEGER, pa.int64()),
    Kind.UINT64: (Do.NUMBER, Wire.VARINT, Words.INTEGER, pa.uint64()),
    Kind.INT32: (Do.NUMBER, Wire.VARINT, Words.INTEGER, pa.int32()),
    Kind.FIXED64: (Do.NUMBER, Wire.FIXED64, Words.INTEGER, pa.uint64()),
    Kind.FIXED32: (Do.NUMBER, Wire.FIXED32, Words.INTEGER, pa.uint32()),
    Kind.BOOL: (Do.NUMBER, Wire.VARINT, Words.BOOLEAN, pa.bool_()),
    Kind.STRING: (Do.SPAN, Wire.SPAN, Words.TEXT, pa.string()),
    Kind.GROUP: (Do.RAW, Wire.GROUP, Words.BYTES, pa.binary()),
    Kind.MESSAGE: (Do.RAW, Wire.SPAN, Words.BYTES, pa.binary()),
    Kind.BYTES: (Do.SPAN, Wire.SPAN, Words.BYTES, pa.binary()),
    Kind.UINT32: (Do.NUMBER, Wire.VARINT, Words.INTEGER, pa.uint32()),
    Kind.ENUM: (Do.ENUM, Wire.VARINT, Words.INTEGER, pa.int32()),
    Kind.SFIXED32: (Do.NUMBER, Wire.FIXED32, Words.INTEGER, pa.int32()),
    Kind.SFIXED64: (Do.NUMBER, Wire.FIXED64, Words.INTEGER, pa.int64()),
    Kind.SINT32: (Do.ZIGZAG32, Wire.VARINT, Words.INTEGER, pa.int32()),
    Kind.SINT64: (Do.ZIGZAG64, Wire.VARINT, Words.INTEGER, pa.int64()),
}
"""Kinds as leaves, including messages that stay bytes, and enums whose names are unknown."""
_ALIKE = (
    {Kind.INT32, Kind.UINT32, Kind.INT64, Kind.UINT64, Kind.BOOL, Kind.ENUM},
    {Kind.SINT32, Kind.SINT64},
    {Kind.FIXED32, Kind.SFIXED32},
    {Kind.FIXED64, Kind.SFIXED64},
    {Kind.STRING, Kind.BYTES},
    {Kind.MESSAGE, Kind.BYTES},
)
"""Kinds that may be read as each other, by Protobuf's guide ("Updating A Message Type")."""


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    """The input of the kernel.

    Attributes
    ----------
    code
        Instructions, one a field, the outermost message last; shape (n, 9).
    numbers
        The field's number of each instruction.
    tables
        Numbers that instructions refer to.
    roots
        Each node outside lists, and its words.
    column, nodes
        The columns of the values.
    reasons
        Texts of the reasons from `Reason.OF_PROGRAM` on.

    """

    code: Int64
    numbers: Int64
    tables: Int64
    roots: Int64
    column: Struct
    nodes: Numbering
    reasons: tuple[str, ...]


def protobuf_program(writer: ProtobufSchema, reader: ProtobufSchema | None = None) -> ProtobufProgram:
    """Return the program that reads messages of ``writer`` as those of ``reader`` (default: ``writer``).

    The nodes of each column are numbered one after the other, a list before its items. A message inside its own definition stays bytes, and
    so do deep messages if there would be more than 8,192 columns. Raises `InvalidSchemaError` if the others alone have far too many.
    """
    wanted = reader or writer
    for most_depth in _DEPTHS:
        with suppress(InvalidSchemaError):
            program = _program(writer, wanted, most_depth)
            if len(program.nodes.sizes) <= _MOST_COLUMNS:
                return program
    return _program(writer, wanted, 1)


def _program(writer: ProtobufSchema, wanted: ProtobufSchema, most_depth: int) -> ProtobufProgram:
    maker = _Maker(writer, wanted, most_depth)
    _, column = maker.add_message(wanted.messages[wanted.root], writer.messages[writer.root], (wanted.root,))
    return maker.program(column)


@dataclass(slots=True)
class _Maker:
    """Collects the parts of a program."""

    written: ProtobufSchema
    wanted: ProtobufSchema
    most_depth: int
    nodes: Numbering = field(default_factory=Numbering)
    code: list[list[int]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=lambda: list(FIXED_REASONS))

    def add_message(self, message: Message, written: Message | None, inside: tuple[str, ...]) -> tuple[int, Struct]:
        """Add a message and all inside it; return its first instruction and its columns. ``inside`` has its name and those around it."""
        theirs = {one.number: one for one in written.fields} if written is not None else {}
        first = len(self.code)
        places = {number: at for at, number in enumerate(sorted(one.number for one in message.fields), first)}
        self.code += [[] for _ in places]
        choices: dict[str, int] = {}
        columns = []
        for one in message.fields:
            present = -1
            if not one.is_repeated and not message.is_map_entry and (one.has_presence or one.oneof is not None):
                choice = one.oneof or one.name  # a oneof and a field of one message cannot have the same name
                present = choices[choice] if choice in choices else self.nodes.node()
                choices[choice] = present
            column, made = self._field(one, theirs.get(one.number), inside, present)
            if message.is_map_entry and made[DO] == Do.CLOSED_ENUM:
                made[DO] = Do.ENUM  # `Pairs` removes entries with an unknown number
            columns.append((one.name, column))
            self.code[places[one.number]] = made
        return first, Struct(tuple(columns))

    def _field(
        self, one: Field, written: Field | None, inside: tuple[str, ...], present: int
    ) -> tuple[Column, list[int]]:
        """Return the column of a field and its instruction."""
        column: Column
        items = self.nodes.node() if one.is_repeated else -1
        outer = self.nodes.enter(items) if one.is_repeated else -1
        first = len(self.nodes.sizes)
        do, wire, words, kind = _KINDS[one.kind]
        table, count, fields = 0, 0, 0
        message = self.wanted.messages.get(one.message or "")
        is_map = message is not None and message.is_map_entry and one.is_repeated
        if message is not None and (is_map or (message.name not in inside and len(inside) < self.most_depth)):
            theirs = self.written.messages.get(written.message or "") if written is not None else None
            node, column = self.add_message(message, theirs, (*inside, message.name))
            do, fields = Do.MESSAGE, len(message.fields)
            if one.is_repeated:
                table, count = self._blanks(items, first)
            elif one.oneof is not None:
                table, count = self._cleared(first)
        elif one.enum is not None:
            words = Words.CLOSED_ENUM if one.enum.is_closed else Words.OPEN_ENUM
            column = self.nodes.leaf(words, pa.string(), one.enum.names, one.enum.numbers)
            node = column.node
            if one.enum.is_closed:
                do = Do.CLOSED_ENUM
                table, count = self._table(one.enum.numbers)
        else:
            column = self.nodes.leaf(words, kind)
            node = column.node
        if one.is_repeated:
            self.nodes.leave(outer)
            if is_map and isinstance(column, Struct):
                (_, key), (_, value) = column.fields
                column = Pairs(items, key, value, last_wins=True)
            else:
                column = Items(items, column)
        elif present >= 0:
            column = Nullable(present, column, one.number)
        if written is not None and not _may_be_read(written, one):
            do, table = Do.FAIL, self._reason(written, one)
        return column, [do, wire, node, present, one.number, items, table, count, fields]

    def _reason(self, written: Field, wanted: Field) -> int:
        text = f"its field {written.number}, {_described(written)}, cannot be read as {_described(wanted)}"
        if text not in self.reasons:
            self.reasons.append(text)
        return Reason.OF_PROGRAM + self.reasons.index(text)

    def _table(self, numbers: Sequence[int]) -> tuple[int, int]:
        """Add numbers; return their start and count."""
        self.tables += numbers
        return len(self.tables) - len(numbers), len(numbers)

    def _blanks(self, level: int, first: int = 0) -> tuple[int, int]:
        """Add the nodes from ``first`` on that are items of a list (-1: outside lists), with their words; return start and count."""
        sizes, levels = self.nodes.sizes, self.nodes.levels
        own = [node for node in range(first, len(sizes)) if levels[node] == level]
        at, _ = self._table([word for node in own for word in (node, sizes[node])])
        return at, len(own)

    def _cleared(self, first: int) -> tuple[int, int]:
        """Add the nodes from ``first`` on, with their words, the list that contains each (or -1), and whether they are lists."""
        sizes, levels = self.nodes.sizes, self.nodes.levels
        own = range(first, len(sizes))
        lists = set(levels[first:])
        rows = ((node, sizes[node], levels[node] if levels[node] >= first else -1, node in lists) for node in own)
        at, _ = self._table([int(word) for row in rows for word in row])
        return at, len(own)

    def program(self, column: Struct) -> ProtobufProgram:
        """Return the complete program."""
        at, count = self._blanks(-1)
        code = np.array([*self.code, [0] * FIELDS + [len(column.fields)]], np.int64)
        tables = np.array(self.tables or [0], np.int64)
        numbers, roots = code[:, NUMBER].copy(), tables[at : at + 2 * count].copy()
        return ProtobufProgram(code, numbers, tables, roots, column, self.nodes, tuple(self.reasons))


def _may_be_read(written: Field, wanted: Field) -> bool:
    """Whether values of one field can be read as another of its number. A list is never one value: no item is the right one."""
    if written.is_repeated and not wanted.is_repeated:
        return False
    kinds = {written.kind, wanted.kind}
    return len(kinds) == 1 or any(kinds <= alike for alike in _ALIKE)


def _described(one: Field) -> str:
    many = "repeated " if one.is_repeated else ""
    return f"{one.name!r} ({many}{one.kind.name.lower()})"

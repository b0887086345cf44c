"""The program of a Protobuf schema: what is done with each field, in tables by their numbers.

Values are read as those of the reader's schema, by the numbers of fields, as Protobuf itself does: with the writer's schema it is the same,
but for fields of one number whose kinds have nothing to do with each other, which Protobuf would take for other values. These are an error
of the values that have them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.schemas.protobuf_schema import Field, Kind, Message, ProtobufSchema
from ledgerfs.messages.values.protobuf_columns import columns_of
from ledgerfs.messages.values.protobuf_kernel import DO, FIXED_REASONS, INSTRUCTION, TABLE, Do, Wire
from ledgerfs.messages.values.value_columns import Column, Items, Leaf, Nullable, Numbering, Pairs, Struct
from ledgerfs.messages.values.value_program import Reason

_READ_BY = {
    Kind.DOUBLE: (Do.FIXED64, Wire.FIXED64),
    Kind.FLOAT: (Do.FIXED32, Wire.FIXED32),
    Kind.INT64: (Do.VARINT, Wire.VARINT),
    Kind.UINT64: (Do.VARINT, Wire.VARINT),
    Kind.INT32: (Do.VARINT, Wire.VARINT),
    Kind.FIXED64: (Do.FIXED64, Wire.FIXED64),
    Kind.FIXED32: (Do.FIXED32, Wire.FIXED32),
    Kind.BOOL: (Do.VARINT, Wire.VARINT),
    Kind.STRING: (Do.SPAN, Wire.SPAN),
    Kind.GROUP: (Do.RAW, Wire.GROUP),
    Kind.MESSAGE: (Do.RAW, Wire.SPAN),
    Kind.BYTES: (Do.SPAN, Wire.SPAN),
    Kind.UINT32: (Do.VARINT, Wire.VARINT),
    Kind.ENUM: (Do.ENUM, Wire.VARINT),
    Kind.SFIXED32: (Do.FIXED32, Wire.FIXED32),
    Kind.SFIXED64: (Do.FIXED64, Wire.FIXED64),
    Kind.SINT32: (Do.ZIGZAG32, Wire.VARINT),
    Kind.SINT64: (Do.ZIGZAG64, Wire.VARINT),
}
_ALIKE = (
    {Kind.INT32, Kind.UINT32, Kind.INT64, Kind.UINT64, Kind.BOOL, Kind.ENUM},
    {Kind.SINT32, Kind.SINT64},
    {Kind.FIXED32, Kind.SFIXED32},
    {Kind.FIXED64, Kind.SFIXED64},
    {Kind.STRING, Kind.BYTES},
    {Kind.MESSAGE, Kind.BYTES},
)
"""Kinds that may be read as each other, as Protobuf's guide has it ("Updating A Message Type")."""


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    """What the kernel is given.

    Attributes
    ----------
    code
        Instructions, one a field, shape (n, 8).
    messages
        For each message where its fields are in ``fields``, shape (n, 4): begin and number of those that are found by their number, begin
        and number of those that are searched for.
    fields
        Instructions by the numbers of fields; then pairs of both.
    tables
        What instructions refer to.
    roots
        Each node outside lists, and its words.
    column, nodes
        What the values become.
    reasons
        Texts of the reasons from `Reason.OF_PROGRAM` on.

    """

    code: Int64
    messages: Int64
    fields: Int64
    tables: Int64
    roots: Int64
    column: Struct
    nodes: Numbering
    reasons: tuple[str, ...]


def protobuf_program(writer: ProtobufSchema, reader: ProtobufSchema | None = None) -> ProtobufProgram:
    """Return the program that reads messages of ``writer`` as those of ``reader``, its own without one.

    Raises `InvalidSchemaError` for a schema with more columns than any real one.
    """
    wanted = writer if reader is None else reader
    column, nodes = columns_of(wanted)
    by_list: dict[int, list[int]] = defaultdict(list)
    for node, inside in enumerate(nodes.levels):
        by_list[inside].append(node)
    maker = _Maker(writer, wanted, nodes, by_list)
    maker.add_message(wanted.messages[wanted.root], column, writer.messages[writer.root])
    return maker.program(column)


@dataclass(slots=True)
class _Maker:
    """Collects the parts of a program."""

    written: ProtobufSchema
    wanted: ProtobufSchema
    nodes: Numbering
    by_list: dict[int, list[int]]
    code: list[list[int]] = field(default_factory=list)
    messages: list[list[int]] = field(default_factory=lambda: [[0, 0, 0, 0]])
    fields: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=lambda: list(FIXED_REASONS))

    def add_message(self, message: Message, column: Struct, written: Message | None) -> int:
        """Add a message and all inside it; return its row."""
        row = len(self.messages)
        self.messages.append([])
        theirs = {one.number: one for one in written.fields} if written is not None else {}
        places = {}
        for one, (_, part) in zip(message.fields, column.fields, strict=True):
            places[one.number] = len(self.code)
            self.code.append([])
            self.code[places[one.number]] = made = self._instruction(one, part, theirs.get(one.number))
            if message.is_map_entry and made[DO] == Do.CLOSED_ENUM:
                made[DO] = Do.ENUM  # the entry of a number that the enum does not have is left out later
        dense = min(max(places, default=-1) + 1, 4 * len(places) + 16)
        begin = len(self.fields)
        self.fields += [places.get(number, -1) for number in range(dense)]
        sparse = sorted(number for number in places if number >= dense)
        self.messages[row] = [begin, dense, len(self.fields), len(sparse)]
        self.fields += [word for number in sparse for word in (number, places[number])]
        return row

    def _instruction(self, one: Field, column: Column, written: Field | None) -> list[int]:
        if written is not None and not _may_be_read(written, one):
            made = [-1] * INSTRUCTION
            made[DO], made[TABLE] = Do.FAIL, self._reason(written, one)
            return made
        present, number, items = -1, 0, -1
        match column:
            case Nullable():
                present, number, column = column.node, column.number or 1, column.value
            case Items():
                items, column = column.node, column.item
            case Pairs():
                items, column = column.node, Struct((("key", column.key), ("value", column.value)))
        do, wire = _READ_BY[one.kind]
        node, table, count = -1, 0, 0
        match column:
            case Struct():
                do, inner = Do.MESSAGE, self.wanted.messages[one.message or ""]
                theirs = self.written.messages.get(written.message or "") if written is not None else None
                node = self.add_message(inner, column, theirs)
                if items >= 0:
                    table, count = self._blanks(items)
                elif one.oneof is not None:
                    table, count = self._what_is_cleared(column)
            case Leaf():
                node = column.node
                if one.enum is not None and one.enum.is_closed:
                    do = Do.CLOSED_ENUM
                    table, count = self._table(one.enum.numbers)
        return [do, wire, node, present, number, items, table, count]

    def _reason(self, written: Field, wanted: Field) -> int:
        text = f"its field {written.number}, {_described(written)}, cannot be read as {_described(wanted)}"
        if text not in self.reasons:
            self.reasons.append(text)
        return Reason.OF_PROGRAM + self.reasons.index(text)

    def _table(self, numbers: tuple[int, ...]) -> tuple[int, int]:
        at = len(self.tables)
        self.tables += numbers
        return at, len(numbers)

    def _blanks(self, items: int) -> tuple[int, int]:
        """Add what an item of a list begins with; return where, and how many nodes."""
        own = self.by_list[items]
        at, _ = self._table(tuple(word for node in own for word in (node, self.nodes.sizes[node])))
        return at, len(own)

    def _what_is_cleared(self, column: Struct) -> tuple[int, int]:
        """Add the nodes of a message, with their words, the list in it that they are in or -1, and whether they are lists."""
        own = sorted(set(_nodes_in(column)))
        known = set(own)
        levels = [self.nodes.levels[node] if self.nodes.levels[node] in known else -1 for node in own]
        lists = set(levels)
        rows = ((node, self.nodes.sizes[node], level, node in lists) for node, level in zip(own, levels, strict=True))
        at, _ = self._table(tuple(int(word) for row in rows for word in row))
        return at, len(own)

    def program(self, column: Struct) -> ProtobufProgram:
        """Return the whole."""
        roots = [word for node in self.by_list[-1] for word in (node, self.nodes.sizes[node])]
        return ProtobufProgram(
            np.array(self.code or [[0] * INSTRUCTION], np.int64),
            np.array(self.messages, np.int64),
            np.array(self.fields or [0], np.int64),
            np.array(self.tables or [0], np.int64),
            np.array(roots, np.int64),
            column,
            self.nodes,
            tuple(self.reasons),
        )


def _nodes_in(column: Column) -> Iterator[int]:
    """Yield all nodes of a column, those inside lists as well."""
    match column:
        case Leaf():
            yield column.node
        case Nullable():
            yield column.node
            yield from _nodes_in(column.value)
        case Items():
            yield column.node
            yield from _nodes_in(column.item)
        case Pairs():
            yield column.node
            yield from _nodes_in(column.key)
            yield from _nodes_in(column.value)
        case Struct():
            for _, one in column.fields:
                yield from _nodes_in(one)


def _may_be_read(written: Field, wanted: Field) -> bool:
    """Whether values of one field are those of another of its number. A list is never one value: which of its items would be arbitrary."""
    if written.is_repeated and not wanted.is_repeated:
        return False
    kinds = {written.kind, wanted.kind}
    return len(kinds) == 1 or any(kinds <= alike for alike in _ALIKE)


def _described(one: Field) -> str:
    many = "repeated " if one.is_repeated else ""
    return f"{one.name!r} ({many}{one.kind.name.lower()})"

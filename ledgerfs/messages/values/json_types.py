"""The table of types that the kernel of JSON reads documents by, made from an Avro schema, as Pulsar's JSON schemas are, or an Arrow type.

Everything may be null: Pulsar's clients write whatever they are given, and leave out what is null, whatever the schema says.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursive,
    Union,
    branch_name,
)
from ledgerfs.messages.values.avro_columns import column_of, is_null, names_of_branches
from ledgerfs.messages.values.avro_matching import described
from ledgerfs.messages.values.json_kernel import LAST, MARK, REASON, TYPE_WORDS, Kind
from ledgerfs.messages.values.json_names import ALIAS
from ledgerfs.messages.values.json_places import Place
from ledgerfs.messages.values.json_unions import NONE_FITS, SEVERAL_FIT, branches_of_values
from ledgerfs.messages.values.value_columns import (
    Choice,
    Column,
    Items,
    Leaf,
    Nothing,
    Nullable,
    Numbering,
    Pairs,
    Struct,
    Words,
    nodes_of,
    type_of,
)
from ledgerfs.messages.values.value_program import Assembler, Reason

_INT, _LONG = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_RANGES = {
    pa.int8(): ((-(1 << 7), (1 << 7) - 1), "no number of 8 bits"),
    pa.int16(): ((-(1 << 15), (1 << 15) - 1), "no number of 16 bits"),
    pa.int32(): (_INT, "no int"),
    pa.int64(): (_LONG, "no long"),
    pa.date32(): (_INT, "no date in days"),
    pa.time32("ms"): ((0, 86_400_000 - 1), "no time of day in milliseconds"),
    pa.time64("us"): ((0, 86_400_000_000 - 1), "no time of day in microseconds"),
    pa.time64("ns"): ((0, 86_400_000_000_000 - 1), "no time of day in nanoseconds"),
}
_NO_JSON = "it is no JSON"
_HAS_MORE = "it has a field that its type lacks, which was inferred without it"


@dataclass(frozen=True, slots=True)
class JsonTypes:
    """What the kernel is given: types by number, the first being that of documents, and what they refer to."""

    types: Int64
    numbers: Int64
    names: Bytes
    levels: Int64
    roots: Int64
    column: Column
    nodes: Numbering
    reasons: tuple[str, ...]


def json_types(
    schema: AvroSchema | pa.DataType, *, is_closed: bool = False, names: Mapping[int, str] | None = None
) -> JsonTypes:
    """Return the types of documents of a schema, or of those that become an Arrow type; fields that it lacks are left out.

    With ``is_closed`` an object that has such a field is none of the type. ``names`` are those that Avro's fields have in documents, by the
    identities of these fields; without them all aliases are further names. Raises `InvalidSchemaError` for an Arrow type that JSON is not
    read as, and for more columns than any real schema has.
    """
    table = _Table(is_closed, names)
    is_avro = isinstance(schema, AvroSchema)
    return table.finished(table.add_avro(schema.root, Place()) if is_avro else table.add_arrow(schema, Place()))


@dataclass(slots=True)
class _Table:
    """Collects types; a type's row is there before those of its parts, and is filled in after them."""

    is_closed: bool = False
    names: Mapping[int, str] | None = None
    nodes: Numbering = field(default_factory=Numbering)
    rows: list[list[int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=lambda: [_NO_JSON, _HAS_MORE])
    to: Assembler = field(default_factory=Assembler)

    def finished(self, column: Column) -> JsonTypes:
        sizes, levels = self.nodes.sizes, self.nodes.levels
        roots = [word for node in nodes_of(column) for word in (node, sizes[node])]
        return JsonTypes(
            types=np.array(self.rows, np.int64).reshape(-1, TYPE_WORDS),
            numbers=np.array(self.to.tables or [0], np.int64),
            names=np.frombuffer(bytearray(self.to.constants) + b"\0", np.uint8),
            levels=np.array([level << 2 | size for level, size in zip(levels, sizes, strict=True)], np.int64),
            roots=np.array(roots, np.int64),
            column=column,
            nodes=self.nodes,
            reasons=tuple(self.reasons),
        )

    # From Avro.

    def add_avro(self, kind: AvroType, place: Place, *, is_branch: bool = False) -> Column:
        """Add a type and return its column: nullable, except a branch of a choice, whose number says that it is there."""
        match kind:
            case Primitive(name="null"):
                return self._part(Kind.NOTHING, None, place.is_no("not null"), is_branch=is_branch)
            case Primitive() | Fixed() | Enum():
                return self._add_scalar(kind, place, is_branch=is_branch)
            case Recursive():
                return self._text(Kind.RAW_OBJECT, place.is_no("no object"), is_branch=is_branch)
            case Union():
                values = [one for one in kind.branches if not is_null(one)]
                if len(values) < 2:
                    return self.add_avro(values[0] if values else kind.branches[0], place)
                return self._choice(kind, place)
            case _:
                return self._add_parts(kind, place, is_branch=is_branch)

    def _add_parts(self, kind: Record | Array | Map, place: Place, *, is_branch: bool) -> Column:
        match kind:
            case Record():
                parts = [(one.name, self._avro_maker(one.type, place.field(one.name))) for one in kind.fields]
                return self._record(parts, place, is_branch=is_branch, aliases=list(map(self._aliases, kind.fields)))
            case Array():
                make = self._avro_maker(kind.items, place.part("an item"))
                return self._list(Kind.ITEMS, make, place.is_no("no list"), is_branch=is_branch)
            case Map():
                make = self._avro_maker(kind.values, place.part("a value"))
                return self._list(Kind.PAIRS, make, place.is_no("no object"), is_branch=is_branch)

    def _aliases(self, one: Field) -> tuple[str, ...]:
        """Return names under which a field is found, besides its own."""
        if self.names is None:
            return one.aliases
        return (self.names[id(one)],) if id(one) in self.names else ()

    def _avro_maker(self, kind: AvroType, place: Place) -> Callable[[], Column]:
        return lambda: self.add_avro(kind, place)

    def _add_scalar(self, kind: Primitive | Fixed | Enum, place: Place, *, is_branch: bool) -> Column:
        arrow = type_of(column_of(kind, Numbering()))
        if pa.types.is_string(arrow) or pa.types.is_decimal(arrow):
            # Symbols, UUIDs and decimals are written as text or a number: whatever it says.
            return self._text(Kind.TEXT, place.is_no("no text"), is_branch=is_branch)
        return self._scalar(arrow, place, is_branch=is_branch)

    def _choice(self, union: Union, place: Place) -> Column:
        mark, row = self._begin(is_branch=False)
        node = self.nodes.node()
        branches: list[tuple[str, Column] | None] = []
        types: list[int] = []
        for name, branch in zip(names_of_branches(union), union.branches, strict=True):
            types.append(len(self.rows))
            branches.append(None if is_null(branch) else (name, self.add_avro(branch, place, is_branch=True)))
        names = ", ".join(described(one) if isinstance(one, Primitive) else branch_name(one) for one in union.branches)
        none, several = f"none of [{names}]", f"one of several types of [{names}], which JSON does not tell apart"
        reasons = {
            number: self._reason(place.is_no(text)) for number, text in ((NONE_FITS, none), (SEVERAL_FIT, several))
        }
        fitting = branches_of_values(union)
        table, _ = self.to.table(
            word for number in fitting for word in (number, types[number] if number >= 0 else reasons[number])
        )
        self._end(row, Kind.CHOICE, mark, node, table, 0, "")
        return Nullable(mark, Choice(node, tuple(branches)))

    # From Arrow.

    def add_arrow(self, kind: pa.DataType, place: Place) -> Column:
        """Add a type and return its column; text takes all that is there, what is no text as JSON."""
        if pa.types.is_null(kind):
            return self._part(Kind.NOTHING, None, place.is_no("not null"))
        if pa.types.is_string(kind):
            return self._text(Kind.ANY, "")
        if pa.types.is_struct(kind):
            names = [one.name for one in kind]
            if len(set(names)) < len(names):
                raise InvalidSchemaError(f"the type {kind} has a field twice")
            if any("\0" in one for one in names):
                raise InvalidSchemaError(
                    f"a type with a NUL in names of fields ({names!r}), at which other libraries end them"
                )
            parts = [(one.name, self._arrow_maker(one.type, place.field(one.name))) for one in kind]
            return self._record(parts, place)
        if pa.types.is_list(kind):
            make = self._arrow_maker(kind.value_type, place.part("an item"))
            return self._list(Kind.ITEMS, make, place.is_no("no list"))
        if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            make = self._arrow_maker(kind.item_type, place.part("a value"))
            return self._list(Kind.PAIRS, make, place.is_no("no object"))
        return self._scalar(kind, place)

    def _arrow_maker(self, kind: pa.DataType, place: Place) -> Callable[[], Column]:
        return lambda: self.add_arrow(kind, place)

    # Both.

    def _scalar(self, kind: pa.DataType, place: Place, *, is_branch: bool = False) -> Column:
        if pa.types.is_boolean(kind):
            return self._part(Kind.BOOLEAN, (Words.BOOLEAN, kind), place.is_no("no boolean"), is_branch=is_branch)
        if kind in (pa.float32(), pa.float64()):
            real = Kind.FLOAT if kind == pa.float32() else Kind.DOUBLE
            too_large = self._reason(place.is_no(f"a number outside the range of {kind}"))
            return self._part(real, (Words.REAL, kind), place.is_no("no number"), (too_large, 0), is_branch=is_branch)
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            is_fixed = pa.types.is_fixed_size_binary(kind)
            size = kind.byte_width if is_fixed else -1
            text = f"no base64 text of {size} bytes" if is_fixed else "no base64 text"
            words = Words.FIXED if is_fixed else Words.BYTES
            return self._part(Kind.BYTES, (words, kind), place.is_no(text), (size, 0), is_branch=is_branch)
        range_of, text = _range_of(kind)
        return self._part(Kind.INTEGER, (Words.INTEGER, kind), place.is_no(text), range_of, is_branch=is_branch)

    def _text(self, kind: Kind, reason: str, *, is_branch: bool = False) -> Column:
        return self._part(kind, (Words.TEXT, pa.string()), reason, is_branch=is_branch)

    def _part(
        self,
        kind: Kind,
        leaf: tuple[Words, pa.DataType] | None,
        reason: str,
        arguments: tuple[int, int] = (0, 0),
        *,
        is_branch: bool = False,
    ) -> Column:
        """Add a type without parts; without a leaf it is always null."""
        mark, row = self._begin(is_branch=is_branch)
        column: Leaf | Nothing = Nothing() if leaf is None else self.nodes.leaf(*leaf)
        node = column.node if isinstance(column, Leaf) else -1
        self._end(row, kind, mark, node, *arguments, reason)
        return column if is_branch else Nullable(mark, column)

    def _record(
        self,
        parts: Sequence[tuple[str, Callable[[], Column]]],
        place: Place,
        *,
        is_branch: bool = False,
        aliases: Sequence[Sequence[str]] = (),
    ) -> Column:
        mark, row = self._begin(is_branch=is_branch)
        fields: list[tuple[str, Column]] = []
        types = []
        for name, make in parts:
            types.append(len(self.rows))
            fields.append((name, make()))
        named = dict(zip((name for name, _ in parts), types, strict=True))
        for others, number in zip(aliases, types, strict=False):
            for alias in others:
                named.setdefault(alias, ALIAS - number)
        table, _ = self.to.table(self._fields(named))
        more = Reason.OF_PROGRAM + self.reasons.index(_HAS_MORE) if self.is_closed else 0
        self._end(row, Kind.RECORD, mark, -1, table, more, place.is_no("no object"))
        column = Struct(tuple(fields))
        return column if is_branch else Nullable(mark, column)

    def _fields(self, named: Mapping[str, int]) -> Iterator[int]:
        """Yield the table of a record: how many names, the mask of slots, the names, and the slots that lead to them by hash."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in named]
        mask = (1 << (2 * len(named)).bit_length()) - 1
        slots = [-1] * (mask + 1)
        for number, name in enumerate(encoded):
            slot = _hash_of(name) & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = number
        yield from (len(named), mask)
        for name, kind in zip(encoded, named.values(), strict=True):
            is_plain = kind >= 0 and not any(byte < 0x20 or byte in b'"\\' for byte in name)
            yield from (self.to.constant(name), len(name), kind, int(is_plain))
        yield from slots

    def _list(self, kind: Kind, make: Callable[[], Column], reason: str, *, is_branch: bool = False) -> Column:
        mark, row = self._begin(is_branch=is_branch)
        node = self.nodes.node(2)
        outer = self.nodes.enter(node)
        key = self.nodes.leaf(Words.TEXT, pa.string()) if kind == Kind.PAIRS else None
        inner_type = len(self.rows)
        inner = make()
        self.nodes.leave(outer)
        own = [*([] if key is None else [key.node]), *nodes_of(inner)]
        blanks = [word for one in own for word in (one, self.nodes.sizes[one])]
        counter = self.rows[inner_type][MARK]
        table, _ = self.to.table([len(own), counter, *blanks])
        self._end(row, kind, mark, node, inner_type, table, reason)
        column = (
            Items(node, inner, counter) if key is None else Pairs(node, key, inner, last_wins=True, counter=counter)
        )
        return column if is_branch else Nullable(mark, column)

    def _begin(self, *, is_branch: bool) -> tuple[int, int]:
        """Return the node that says whether a value is there, and the row of its type."""
        self.rows.append([0] * TYPE_WORDS)
        return -1 if is_branch else self.nodes.node(), len(self.rows) - 1

    def _end(self, row: int, kind: Kind, mark: int, node: int, first: int, second: int, reason: str) -> None:  # noqa: PLR0917
        made = [int(kind), mark, node, first, second, 0, 0, 0]
        if reason:
            made[REASON] = self._reason(reason)
        made[LAST] = len(self.nodes.sizes)
        self.rows[row] = made

    def _reason(self, text: str) -> int:
        self.reasons.append(text)
        return Reason.OF_PROGRAM + len(self.reasons) - 1


def _range_of(kind: pa.DataType) -> tuple[tuple[int, int], str]:
    """Return the smallest and largest number of a type, and what others are not; raises `InvalidSchemaError` for one without numbers."""
    if pa.types.is_timestamp(kind):
        return _LONG, f"no time in {_UNITS[kind.unit]}"
    if kind not in _RANGES:
        raise InvalidSchemaError(f"JSON is not read as the type {kind}")
    return _RANGES[kind]


def _hash_of(name: bytes) -> int:
    state = 0x811C9DC5
    for byte in name:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state

"""The columns of values: a tree of types whose leaves are numbered, each a row of words in an `Arena`.

Every decoder of values is a kernel that appends words: a number is one word, bytes and text are two (position in the payloads, and
length), a nullable value has one more that is not 0 if it is present, a list one that counts its items. Under a missing value
all leaves get zeros, down to the next list, so that leaves of one level have the same length. Only this module defines the words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError

MOST_NODES = 1 << 15


class Words(Enum):
    """Content of the words of a leaf."""

    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT_BITS = auto()
    DOUBLE_BITS = auto()
    SYMBOL = auto()
    OPEN_ENUM = auto()
    CLOSED_ENUM = auto()
    BYTES = auto()
    TEXT = auto()
    FIXED = auto()
    DECIMAL = auto()
    UUID = auto()

    @property
    def are_places(self) -> bool:
        """Whether there are two words: a position in the payloads and a size."""
        return self in _PLACES


_PLACES = {Words.BYTES, Words.TEXT, Words.FIXED, Words.DECIMAL, Words.UUID}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts; ``symbols`` are the names of an enum's numbers: 0, 1, …, or ``numbers``, ascending."""

    node: int
    words: Words
    type: pa.DataType
    symbols: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Nothing:
    """A value that is always null."""


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value that may be null: present if its node's word is not 0, or is ``number`` if several values share the node."""

    node: int
    value: "Column"
    number: int = 0


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields by name."""

    fields: tuple[tuple[str, "Column"], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    node: int
    item: "Column"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map.

    With ``last_wins``, a key has only its last value, and entries with an unknown number of a closed enum are left out.
    """

    node: int
    key: "Column"
    value: "Column"
    last_wins: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several, as a struct with a field for each; one is not null, except if ``null`` is chosen."""

    node: int
    branches: tuple[tuple[str, "Column"] | None, ...]


Column: TypeAlias = Leaf | Nothing | Nullable | Struct | Items | Pairs | Choice


@dataclass(slots=True)
class Numbering:
    """Numbers the leaves of a tree during its construction.

    Attributes
    ----------
    sizes
        Words that each node appends.
    levels
        The node of the list that contains it; -1 outside lists, where each row appends once.

    """

    sizes: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    _list: int = -1

    def node(self, words: int = 1) -> int:
        """Return the number of a new node; raises `InvalidSchemaError` for more than any real schema has."""
        if len(self.sizes) >= MOST_NODES:
            raise InvalidSchemaError(f"the schema has more than {MOST_NODES:,} columns, including nested ones")
        self.sizes.append(words)
        self.levels.append(self._list)
        return len(self.sizes) - 1

    def leaf(
        self, words: Words, kind: pa.DataType, symbols: tuple[str, ...] = (), numbers: tuple[int, ...] = ()
    ) -> Leaf:
        """Return a new leaf."""
        return Leaf(self.node(1 + words.are_places), words, kind, symbols, numbers)

    def enter(self, node: int) -> int:
        """Start the items of a list; return the argument for `leave`."""
        outer, self._list = self._list, node
        return outer

    def leave(self, outer: int) -> None:
        """End the items of a list."""
        self._list = outer


def type_of(column: Column) -> pa.DataType:
    """Return the Arrow type of a column."""
    match column:
        case Leaf():
            return column.type
        case Nothing():
            return pa.null()
        case Nullable():
            return type_of(column.value)
        case Items():
            return pa.list_(type_of(column.item))
        case Pairs():
            return pa.map_(type_of(column.key), type_of(column.value))
        case _:
            fields = column.fields if isinstance(column, Struct) else filter(None, column.branches)
            return pa.struct([pa.field(name, type_of(one)) for name, one in fields])


def nodes_of(column: Column) -> Iterator[int]:
    """Yield the nodes that get zeros where a value is missing: all down to the next lists, these included."""
    match column:
        case Leaf():
            yield column.node
        case Nothing():
            return
        case Nullable():
            yield column.node
            yield from nodes_of(column.value)
        case Struct():
            for _, one in column.fields:
                yield from nodes_of(one)
        case Items() | Pairs():
            yield column.node
        case Choice():
            yield column.node
            for _, one in filter(None, column.branches):
                yield from nodes_of(one)

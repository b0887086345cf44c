"""Programs of kernels for values: instructions of four words, and the tables that they refer to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Int64
from ledgerfs.messages.values.value_columns import Column, Numbering, nodes_of

MOST_INSTRUCTIONS = 1 << 18
"""Most instructions of a program, and most steps to make it, some of which add no instruction."""
WORDS = 4
"""Words of an instruction: action, node to append to (-1 for none), and two arguments."""


class Reason(IntEnum):
    """Reason why a value cannot be decoded; those from `Reason.OF_PROGRAM` on have texts in the program."""

    NONE = 0
    TRUNCATED = 1
    TRAILING = 2
    BAD_NUMBER = 3
    BAD_BOOLEAN = 4
    BAD_BRANCH = 5
    BAD_SYMBOL = 6
    BAD_COUNT = 7
    TOO_DEEP = 8
    OUT_OF_RANGE = 9
    WRONG_SIZE = 10
    BAD_TEXT = 11
    TOO_LARGE = 12
    BAD_PAIR = 13
    OF_PROGRAM = 16


NULL = -1
"""Reason of a row without a value."""
REASONS: dict[int, str] = {
    NULL: "it has no value",
    Reason.TRUNCATED: "it ends inside a field",
    Reason.TRAILING: "bytes follow after its last field",
    Reason.BAD_NUMBER: "a number of it has more bits than its type",
    Reason.BAD_BOOLEAN: "a boolean of it is neither 0 nor 1",
    Reason.BAD_BRANCH: "it has a branch number that its union does not have",
    Reason.BAD_SYMBOL: "it has a symbol number that its enum does not have",
    Reason.BAD_COUNT: "a list in it has more items than bytes",
    Reason.TOO_DEEP: "it is nested too deeply",
    Reason.OUT_OF_RANGE: "a time or decimal of it is outside the range of its type",
    Reason.WRONG_SIZE: "it has another size than values of its type",
    Reason.TOO_LARGE: "its columns would take more memory than 1 GiB",
    Reason.BAD_PAIR: "the sizes of its key and value do not match its length",
    Reason.BAD_TEXT: "it is not text in the character set of its schema",
}


def explain(reason: int, of_program: Sequence[str] = ()) -> str:
    """Return a reason in words; ``of_program`` has the schema's own reasons."""
    return of_program[reason - Reason.OF_PROGRAM] if reason >= Reason.OF_PROGRAM else REASONS[reason]


@dataclass(frozen=True, slots=True)
class Program:
    """Input of a kernel.

    Attributes
    ----------
    code
        Instructions, shape (n, 4).
    tables
        Numbers that instructions refer to: nodes that get zeros, symbols of readers, starts of branches.
    constants
        Bytes of texts that are not in the payloads.
    column, nodes
        The columns of the words.
    reasons
        Texts of the reasons from `Reason.OF_PROGRAM` on.

    """

    code: Int64
    tables: Int64
    constants: bytes
    column: Column
    nodes: Numbering
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Assembler:
    """Collects the parts of a program."""

    nodes: Numbering = field(default_factory=Numbering)
    code: list[list[int]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    reasons: list[str] = field(default_factory=list)
    _blanks: dict[int, tuple[int, int]] = field(default_factory=dict)
    _shared: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    _work: int = 0

    @property
    def here(self) -> int:
        """Index of the next instruction."""
        return len(self.code)

    def count(self) -> None:
        """Count a step of making the program; raises `InvalidSchemaError` for more than any real schema needs."""
        self._work += 1
        if self._work > MOST_INSTRUCTIONS:
            raise InvalidSchemaError(f"the schema needs more than {MOST_INSTRUCTIONS:,} instructions to read")

    def emit(self, instruction: int, node: int = -1, first: int = 0, second: int = 0) -> int:
        """Add an instruction and return its index; raises `InvalidSchemaError` for more than any real schema needs."""
        self.count()
        self.code.append([int(instruction), node, first, second])
        return len(self.code) - 1

    def table(self, numbers: Iterable[int]) -> tuple[int, int]:
        """Add numbers; return their start and count."""
        at = len(self.tables)
        self.tables += numbers
        return at, len(self.tables) - at

    def shared_table(self, *numbers: int) -> tuple[int, int]:
        """Return the same for frequent numbers, which are added only once."""
        if numbers not in self._shared:
            self._shared[numbers] = self.table(numbers)
        return self._shared[numbers]

    def blanks(self, column: Column) -> tuple[int, int]:
        """Return the start of a column's nodes and their words in a table, and how many nodes they are."""
        if id(column) not in self._blanks:
            at, size = self.table(word for node in nodes_of(column) for word in (node, self.nodes.sizes[node]))
            self._blanks[id(column)] = at, size // 2
        return self._blanks[id(column)]

    def words(self, column: Column) -> int:
        """Return the least number of words of a column's value."""
        return sum(self.nodes.sizes[node] for node in nodes_of(column))

    def constant(self, data: bytes) -> int:
        """Add bytes; return their start."""
        self.constants += data
        return len(self.constants) - len(data)

    def reason(self, text: str) -> int:
        """Return the number of a reason."""
        if text not in self.reasons:
            self.reasons.append(text)
        return Reason.OF_PROGRAM + self.reasons.index(text)

    def program(self, column: Column) -> Program:
        """Return the complete program."""
        code = np.array(self.code, np.int64).reshape(-1, WORDS)
        tables = np.array(self.tables or [0], np.int64)
        return Program(code, tables, bytes(self.constants), column, self.nodes, tuple(self.reasons))

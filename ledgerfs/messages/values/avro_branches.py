"""The columns of a union, when it is known which branch a value is of."""

from collections.abc import Callable

from ledgerfs.formats.schemas.avro_schema import Union
from ledgerfs.messages.values.avro_columns import is_null
from ledgerfs.messages.values.avro_kernel import Do
from ledgerfs.messages.values.value_columns import Choice, Column, Nullable
from ledgerfs.messages.values.value_program import Assembler


def enter_branch(to: Assembler, reader: Union, number: int, column: Column, emit: Callable[[Column], None]) -> None:
    """Append which branch it is, zeros to the others, and what is emitted for the column of the branch."""
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

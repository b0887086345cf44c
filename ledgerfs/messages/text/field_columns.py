"""Names of columns for the fields of values beside message columns, and back.

One name is one column in every format: in JSON lines and CSV, bytes are under their column's name followed by ``_base64``. A field never
has the name of a message column in other letters (``Key``), since many readers do not distinguish them.
"""

from collections.abc import Collection, Iterable

import pyarrow as pa

from ledgerfs.messages.text.json_lines import is_bytes

BEFORE = "value_"
"""Prefix for a field whose name another column has."""

BASE64_SUFFIX = "_base64"


def columns_of_fields(kind: pa.StructType, beside: Iterable[pa.Field]) -> list[str]:
    """Return the column names for the fields of a struct beside message columns."""
    fields = list(kind)
    names = [one.name for one in fields]
    of_messages = {name.lower() for one in beside for name in _names_in_texts(one.name, one.type)}
    is_done = False
    while not is_done:
        before = list(names)
        encoded = {f"{name}{BASE64_SUFFIX}" for name, one in zip(names, fields, strict=True) if is_bytes(one.type)}
        given: set[str] = set()
        for place, one in enumerate(fields):
            name = names[place]
            # A field may already have the name that another one would get.
            while (
                name.lower() in of_messages or name in encoded or (name != one.name and name in {*kind.names, *given})
            ):
                name = f"{BEFORE}{name}"
            names[place] = name
            given.add(name)
        is_done = names == before
    return names


def fields_by_column(
    kind: pa.StructType, beside: Iterable[pa.Field], all_beside: Collection[pa.Field]
) -> dict[str, str]:
    """Return the fields of a struct by their possible columns, in a table with some message columns.

    These are the columns of `columns_of_fields`, beside those of the table or beside all; and those of the fields' own names.
    """
    of_messages = {one.name for one in all_beside}
    found = dict(zip(columns_of_fields(kind, all_beside), kind.names, strict=True))
    found |= {name: name for name in kind.names if name not in of_messages}
    exact = zip(columns_of_fields(kind, beside), kind.names, strict=True)
    return found | {column: name for column, name in exact if column not in of_messages}


def is_in_base64(column: str, field: str) -> bool:
    """Whether a column of a field has its bytes as text: its name is not one that `fields_by_column` has for the field."""
    before = column.removesuffix(field)
    return not column.endswith(field) or bool(before.replace(BEFORE, ""))


def _names_in_texts(name: str, kind: pa.DataType) -> tuple[str, ...]:
    return (name, f"{name}{BASE64_SUFFIX}") if is_bytes(kind) else (name,)

"""Names of the columns that fields of values become beside those of messages, and back.

One name is one column in every format: in JSON lines and CSV bytes are under their column's name followed by ``_base64``. Nor does a field
have the name of a column of messages in other letters (``Key``): many readers do not distinguish them.
"""

from collections.abc import Collection, Iterable

import pyarrow as pa

from ledgerfs.messages.text.json_lines import is_bytes

BEFORE = "value_"
"""What is put before the name of a field that another column has."""

BASE64_SUFFIX = "_base64"


def columns_of_fields(kind: pa.StructType, beside: Iterable[pa.Field]) -> list[str]:
    """Return the names of the columns that the fields of a struct become beside columns of messages."""
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
            # A field may have the name that another one is given.
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
    """Return the fields of a struct by the columns that may be them, of a table with some columns of messages.

    These are the columns that `columns_of_fields` makes, beside those of the table or beside all; and those of the fields' own names.
    """
    of_messages = {one.name for one in all_beside}
    found = dict(zip(columns_of_fields(kind, all_beside), kind.names, strict=True))
    found |= {name: name for name in kind.names if name not in of_messages}
    exact = zip(columns_of_fields(kind, beside), kind.names, strict=True)
    return found | {column: name for column, name in exact if column not in of_messages}


def is_in_base64(column: str, field: str) -> bool:
    """Whether a column of a field has its bytes as text: its name is none that `fields_by_column` has for the field."""
    before = column.removesuffix(field)
    return not column.endswith(field) or bool(before.replace(BEFORE, ""))


def _names_in_texts(name: str, kind: pa.DataType) -> tuple[str, ...]:
    return (name, f"{name}{BASE64_SUFFIX}") if is_bytes(kind) else (name,)

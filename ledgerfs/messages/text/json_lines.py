"""Messages as JSON lines: one object a message, as an array of bytes made by kernels column by column.

Fields come in the order of the columns. Nulls are left out, except ``value``, which is null for a tombstone. Bytes are in base64,
under the column's name followed by ``_base64``; a ``value`` that is UTF-8 is a plain string. Properties are an object, in which a name
that occurs twice in the message occurs twice; without properties it is left out. Times are ISO 8601, UTC, to the ms; years before 0 and
after 9999 have a sign and six digits.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import copy_bytes, empty
from ledgerfs.messages.text.json_values import (
    ABSENT,
    Values,
    base64_texts,
    constants,
    escaped_texts,
    numbers,
    properties,
    text_or_base64,
    times,
)

ROWS_AT_ONCE = 4096
"""How many rows to convert at a time: their lines stay in the CPU's cache while column after column is written into them."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One member of the objects: the text before and after its value, and the values."""

    before: Bytes
    after: Bytes
    values: Values

    @classmethod
    def of(cls, name: str, values: Values, quote: str = "") -> "_Field":
        """Return the field of this name, with ``quote`` around its values."""
        before = f",{json.dumps(name, ensure_ascii=False)}:{quote}"
        return cls(np.frombuffer(before.encode(), np.uint8), np.frombuffer(quote.encode(), np.uint8), values)


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the messages of a batch, which may be a slice, as UTF-8: each an object on a line of its own.

    Quickest for `ROWS_AT_ONCE` rows. Raises `CorruptObjectError` for a column of text that is not UTF-8.
    """
    columns = zip(batch.schema.names, batch.columns, strict=True)
    fields = [field for name, column in columns for field in _fields_of(name, column)]
    sizes = np.zeros(batch.num_rows, np.int64)
    for field in fields:
        _add_sizes(sizes, field.before.size + field.after.size, field.values.sizes)
    places = _places_of(sizes)
    out = empty(int(places[-1]), np.uint8)
    at = places[:-1].copy()
    for field in fields:
        field.values.write(out, _frame(out, at, field.before, field.after, field.values.sizes))
    _end_lines(out, places)
    return pa.py_buffer(out)


def _fields_of(name: str, column: pa.Array) -> Iterator[_Field]:
    """Yield the fields of a column: none if all of it is null, and up to three for ``value``."""
    if name == "value":
        plain, encoded = text_or_base64(column)
        yield _Field.of(name, plain, quote='"')
        if (encoded.sizes != ABSENT).any():
            yield _Field.of(f"{name}_base64", encoded, quote='"')
        if column.null_count:
            yield _Field.of(name, constants(b"null", column.is_null().to_numpy(zero_copy_only=False)))
    elif column.null_count == len(column):
        return
    elif pa.types.is_binary(column.type):
        yield _Field.of(f"{name}_base64", base64_texts(column), quote='"')
    elif pa.types.is_string(column.type):
        yield _Field.of(name, escaped_texts(column), quote='"')
    elif pa.types.is_timestamp(column.type):
        yield _Field.of(name, times(column), quote='"')
    elif pa.types.is_map(column.type):
        yield _Field.of(name, properties(column))
    else:
        yield _Field.of(name, numbers(column))


@kernel
def _add_sizes(totals, around, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(totals.size):
        if sizes[i] >= 0:
            totals[i] += sizes[i] + around


@kernel
def _places_of(sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where each line begins and the last one ends. The first field's comma becomes the brace, and ``}`` and newline follow."""
    places = np.zeros(sizes.size + 1, np.int64)
    for i in range(sizes.size):
        places[i + 1] = places[i] + max(sizes[i], 1) + 2
    return places


@kernel
def _frame(out, at, before, after, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the text before and after each value, move ``at`` after it, and return where the values go."""
    values = np.empty(at.size, np.int64)
    for i in range(at.size):
        if sizes[i] >= 0:
            values[i] = at[i] + before.size
            copy_bytes(out, at[i], before, 0, before.size)  # type: ignore[call-arg]
            copy_bytes(out, values[i] + sizes[i], after, 0, after.size)
            at[i] = values[i] + sizes[i] + after.size
    return values


@kernel
def _end_lines(out, places):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(places.size - 1):
        out[places[i]] = ord("{")
        out[places[i + 1] - 2] = ord("}")
        out[places[i + 1] - 1] = ord("\n")

"""Messages as JSON lines: one object per message, made column by column.

Fields come in the order of the columns. Nulls are left out, except ``value``, which is null for a tombstone. Bytes are in base64,
under the column's name followed by ``_base64``; a ``value`` that is UTF-8 is a plain string. Properties are an object, in which a name
that occurs twice in the message occurs twice; without properties it is left out. Times are ISO 8601, UTC, to the ms (those of typed values
to the µs or ns if needed); years before 0 and after 9999 have a sign and six digits or more. `json_typed` formats typed values.
"""

from collections.abc import Iterator

import pyarrow as pa

from ledgerfs.messages.text.json_typed import (
    base64_texts,
    clocks,
    dates,
    join,
    member,
    objects,
    properties,
    strings,
    text_or_base64,
    times,
    typed_values,
)

ROWS_AT_ONCE = 4096
"""How many rows to convert at a time: their lines stay in the CPU's cache while all columns are added."""


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the messages of a batch, which may be a slice, as UTF-8: each an object on a line of its own.

    Quickest for `ROWS_AT_ONCE` rows. Raises `CorruptObjectError` for a column of text that is not UTF-8.
    """
    if not batch.num_rows:
        return pa.py_buffer(b"")
    columns = zip(batch.schema.names, batch.columns, strict=True)
    members = (one for name, column in columns for one in _members(name, column))
    _, offsets, data = objects(members, batch.num_rows, "}\n").buffers()
    return data[: memoryview(offsets).cast("q")[batch.num_rows]]


def _members(name: str, column: pa.Array) -> Iterator[pa.Array]:
    """Yield the members of objects for a column: none if all values are null, and up to three for ``value``."""
    if name == "value" and pa.types.is_binary(column.type):
        plain, encoded = text_or_base64(column)
        yield member(name, strings(plain))
        if encoded.null_count < len(encoded):
            yield member(f"{name}_base64", join('"', encoded, '"'))
    elif column.null_count == len(column) and name != "value":
        return
    elif is_bytes(column.type):
        yield member(f"{name}_base64", typed_values(column))
    else:
        yield member(name, properties(column) if _is_properties(name, column.type) else typed_values(column))
    if name == "value" and column.null_count:
        nulls = pa.array(["null" if one else None for one in column.is_null().to_pylist()], pa.large_string())
        yield member(name, nulls)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes, of variable or fixed size."""
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_properties(name: str, kind: pa.DataType) -> bool:
    """Whether a column has the messages' properties, which are left out where there are none."""
    return bool(name == "properties" and pa.types.is_map(kind) and kind.key_type == kind.item_type == pa.string())


def plain_texts(name: str, column: pa.Array) -> pa.Array | None:
    """Return the texts of a column without quotes: times, nested values as JSON, bytes in base64; None for numbers, and for text."""
    kind = column.type
    if is_bytes(kind):
        return base64_texts(column)
    if _is_properties(name, kind):
        return properties(column)
    if pa.types.is_nested(kind):
        return typed_values(column)
    for is_kind, make in ((pa.types.is_timestamp, times), (pa.types.is_date, dates), (pa.types.is_time, clocks)):
        if is_kind(kind):
            return make(column)
    return None

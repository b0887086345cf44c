"""Rows whose values are columns, as rows of the message table: payloads, and the number of their schema.

The value is a column ``value``, or (as from a scan with ``flatten=True``) each column outside the message table is a field of it. A
column ``value`` alone is always the whole value. Beside columns of other fields it is the field of that name, which alone is
``value_value``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from ledgerfs.errors import InvalidRowsError
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.schemas.avro_schema import Record
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.encode.input_columns import IGNORED_COLUMNS, INPUT_COLUMNS
from ledgerfs.messages.encode.rows import portions_of
from ledgerfs.messages.encode.text_columns import from_base64
from ledgerfs.messages.encode.values.avro_arrays import arrow_type, record_array
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.encode.values.value_encoders import ValueEncoder, encoder_of
from ledgerfs.messages.kernels.arrays import valid_of
from ledgerfs.messages.text.field_columns import BASE64_SUFFIX, columns_of_fields, fields_by_column, is_in_base64

_OF_MESSAGES = frozenset((*INPUT_COLUMNS, *IGNORED_COLUMNS)) - {"value"}
_BESIDE = [*(one for one in MESSAGE_SCHEMA if one.name != "value"), pa.field("deliver_at_time", pa.null())]
_VALUE = pa.field("value", pa.null())
"""The column of whole values, which a table of fields does not have."""
_REPLACED = ("value", "schema_version")


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Converts rows to messages of one schema.

    Attributes
    ----------
    given
        Columns of the rows.
    encoder
        Encoder of the schema.
    fields
        The column of each field of the record that has one, by the field's name; None if the value is one column. A column of texts whose
        name ends in ``_base64``, unlike the field's, contains its bytes.
    version
        The number that messages name.

    """

    given: pa.Schema
    encoder: ValueEncoder
    fields: Mapping[str, str] | None
    version: int

    @classmethod
    def of(cls, given: pa.Schema, schema: SchemaInfo, version: int, left_out: Sequence[str] = ()) -> "TypedRows":
        """Return it for columns; ``left_out`` are the message columns that the rows had as well, and that are not read.

        Raises `InvalidSchemaError` for a schema whose values cannot be written, and `InvalidRowsError` for unsupported columns.
        """
        encoder = encoder_of(schema)
        for name in given.names:
            if given.names.count(name) > 1:
                raise InvalidRowsError("the column occurs twice", key=name)
        made = cls(given, encoder, _fields_of(given, encoder.record, left_out), version)
        made.messages(pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in given], schema=given), 0)
        return made

    @property
    def schema(self) -> pa.Schema:
        """Columns of the messages."""
        kept = [self.given.field(name) for name in self._kept]
        return pa.schema([*kept, ("value", pa.large_binary()), ("schema_version", pa.binary())])

    @property
    def ignored_columns(self) -> tuple[str, ...]:
        """Columns that are not used, except those that `MessageEncoder` leaves out."""
        return tuple(name for name in self.given.names if name == "schema_version")

    @property
    def _kept(self) -> list[str]:
        of_values = set() if self.fields is None else set(self.fields.values())
        return [name for name in self.given.names if name not in _REPLACED and name not in of_values]

    def all_messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of all rows; raises `InvalidRowsError`, which names the row, counted from 0, and the column."""
        first_row = 0
        for batch in batches:
            for rows in portions_of(batch):
                yield self.messages(rows, first_row)
                first_row += rows.num_rows

    def messages(self, rows: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return the messages of some rows; ``first_row`` is the number of the first."""
        if not rows.schema.equals(self.given, check_metadata=False):
            raise InvalidRowsError("these rows have other columns than the first ones")
        values, present = self._values(rows, first_row)
        payloads = self.encoder.payloads(values, present)
        versions = pa.array([self.version.to_bytes(8, "big")]).take(pa.array(np.zeros(rows.num_rows, np.int64)))
        kept = [rows.column(name) for name in self._kept]
        return pa.RecordBatch.from_arrays([*kept, payloads, versions], schema=self.schema)

    def _values(self, rows: pa.RecordBatch, first_row: int) -> tuple[pa.Array, Mask]:
        record = self.encoder.record
        if self.fields is None or record is None:
            column = rows.column("value")
            present = valid_of(column)
            return self.encoder.array_of(column, present, Place("value", first_row)), present
        present = np.ones(rows.num_rows, bool)
        columns = {
            field: (name, _plain(field, rows.column(name), Place(name, first_row)))
            for field, name in self.fields.items()
        }
        return record_array(record, columns, present, Place("", first_row)), present


def _fields_of(given: pa.Schema, record: Record | None, left_out: Sequence[str]) -> dict[str, str] | None:
    """Return the columns of the fields; None if one column contains the values."""
    others = [name for name in given.names if name not in _OF_MESSAGES]
    if record is None or others == ["value"]:
        _require_whole(given, others, record)
        return None
    present = {*given.names, *left_out}
    whole = [] if "value" in others else [_VALUE]
    beside = [one for one in _BESIDE if one.name in present]
    by_column = fields_by_column(arrow_type(record), [*beside, *whole], [*_BESIDE, *whole])
    found = _columns_by_field(given.field, others, record, by_column)
    for column, name in by_column.items():
        if name in _OF_MESSAGES and name in present and name not in found:
            raise InvalidRowsError(
                f"is a message column; the column of the field with this name is {column!r}", key=name
            )
    if record.fields and not others:
        raise InvalidRowsError("the column is missing, and so are columns of fields of the record", key="value")
    return found


def _columns_by_field(
    field_of: Callable[[str], pa.Field], others: list[str], record: Record, by_column: Mapping[str, str]
) -> dict[str, str]:
    """Return the column of each field that has one. Bytes of a field may have the name of another, which then has a separate column."""
    found: dict[str, str] = {}
    for column in sorted(others, key=lambda one: by_column.get(one) == one):
        name = by_column.get(column)
        encoded = by_column.get(column.removesuffix(BASE64_SUFFIX))
        if encoded is not None and (name is None or name in found) and _is_text(field_of(column).type):
            name = encoded
        if name is None:
            beside = (
                "; the column `value` is the whole value, so columns of fields are not allowed"
                if "value" in others
                else ""
            )
            raise InvalidRowsError(
                f"not a message column, and not a field of the record {record.name!r}{beside}", key=column
            )
        if name in found:
            raise InvalidRowsError(
                f"is the field {name!r}, as is the column {found[name]!r}; remove one of them", key=column
            )
        found[name] = column
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_null(kind))


def _plain(field: str, column: pa.Array, place: Place) -> pa.Array:
    """Return the column of a field, with bytes for texts in base64."""
    if not is_in_base64(place.name, field):
        return column
    try:
        return from_base64(column)
    except ValueError:
        for index, one in enumerate(column):
            try:
                from_base64(pa.array([one.as_py()], pa.string()))
            except ValueError as error:
                place.fail(index, f"is not base64: {one.as_py()[:80]!r} ({error})")
        raise


def _require_whole(given: pa.Schema, others: Sequence[str], record: Record | None) -> None:
    """Raise `InvalidRowsError` if there are fields, or no whole values: a field that is named ``value`` is not one, even if it is null."""
    if "value" not in others:
        raise InvalidRowsError("the column is missing; it contains the values", key="value")
    for name in others:
        if name != "value":
            raise InvalidRowsError("not a message column, and values of this schema have no fields", key=name)
    names = [] if record is None else [one.name for one in record.fields]
    kind = given.field("value").type
    is_struct = pt.is_struct(kind) and not set(names).isdisjoint(one.name for one in kind)
    if record is not None and "value" in names and not (is_struct or pt.is_null(kind)):
        columns = columns_of_fields(arrow_type(record), [*_BESIDE, _VALUE])
        field = columns[names.index("value")]
        reason = f"has the type {kind}; alone, this column is the whole value, and the column of the field with this name is {field!r}"
        raise InvalidRowsError(reason, key="value")

"""Choose the columns of a scan's rows, the condition on them, and the columns to read and decode for both."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Mask
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS, MESSAGE_SCHEMA
from ledgerfs.messages.text.field_columns import columns_of_fields
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.shown_values import ShownValues
from ledgerfs.scan.where_bounds import Bounds, bounds_of

DecodeValues = Callable[[pa.RecordBatch], tuple[pa.Array, Mask | None]]
"""Returns the values of a batch, and a mask of the rows to keep; None for all."""

_COUNTED = "ledger_id"
"""The column to read if none is requested: it costs almost nothing, and allows counting rows."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Turns batches of the message table into rows.

    Attributes
    ----------
    schema
        Names and types of the columns of rows.
    read
        Columns of the message table to read.
    values
        The value format as columns, if they are needed; None for bytes.
    condition
        Selects the rows; None for all.
    on_messages
        Whether the condition needs no values as columns.
    times, ledger_ids
        Ranges of publish times (µs since 1970 UTC) and ids of ledgers, outside of which the condition is never true.

    """

    schema: pa.Schema
    read: tuple[str, ...]
    values: ShownValues | None
    condition: pc.Expression | None
    on_messages: bool
    times: Bounds
    ledger_ids: Bounds
    _names: tuple[str, ...]
    """The names of the columns of rows in `_table`."""
    _table: pa.Schema
    """All columns that conditions can contain, or those of them that are needed."""

    @classmethod
    def of(cls, options: ScanOptions, values: ShownValues | None) -> Self:
        """Return the projection of a scan with this value format; raises `InvalidOptionError` for an unknown column."""
        table, fields = _all_columns(values)
        names, wanted = _wanted(asked_columns(options), table, fields, values)
        if len(set(wanted.names)) < len(wanted):
            raise InvalidOptionError("a column is named twice", key=", ".join(wanted.names))
        condition = condition_of(options)
        used = () if condition is None else _names_in(condition, table)
        needed = tuple(dict.fromkeys((*names, *used)))
        of_messages = tuple(name for name in needed if name not in fields)
        if values is not None and len(of_messages) == len(needed) and values.on_undecodable != "skip":
            values = None
        read = of_messages if values is None else values.columns_for(of_messages)
        on_messages = all(name not in fields for name in used)
        kept = pa.schema([table.field(name) for name in needed])
        times, ids = (
            Bounds() if condition is None else bounds_of(condition, kept, name)
            for name in ("publish_time", "ledger_id")
        )
        return cls(wanted, read or (_COUNTED,), values, condition, on_messages, times, ids, names, kept)

    @property
    def is_count(self) -> bool:
        """Whether rows are only counted: without columns or a condition."""
        return self.read == (_COUNTED,) and not self._table.names

    def rows(
        self, batches: Iterable[pa.RecordBatch], decode: DecodeValues | None = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of batches with the columns `read`, ``limit`` at most.

        Values of further rows are not decoded, unless the condition needs values: then some are, at most twice as many as before.
        """
        left = size = limit
        for read in batches if limit != 0 else ():
            batch = read.filter(self.condition) if self.condition is not None and self.on_messages else read
            at = 0
            while at < batch.num_rows:
                part = batch if size is None else batch.slice(at, size)
                at += part.num_rows
                made = self._made(part, decode)
                made = made if left is None else made.slice(0, left)
                if made.num_rows:
                    yield made
                if left is not None:
                    left -= made.num_rows
                    if not left:
                        return
                    # So a rare row is found in few steps.
                    size = max(left, 2 * part.num_rows)

    def _made(self, batch: pa.RecordBatch, decode: DecodeValues | None) -> pa.RecordBatch:
        of_values: dict[str, pa.Array] = {}
        keep: Mask | None = None
        if self.values is not None and decode is not None:
            values, keep = decode(batch)
            of_values = dict(zip(env_names(self.values), self.values.columns_of(values), strict=True))
        if keep is not None and not keep.all():
            kept = pa.array(keep)
            batch, of_values = batch.filter(kept), {name: one.filter(kept) for name, one in of_values.items()}
        if not set(self._table.names) & of_values.keys():
            table = batch.select(self._table.names)
        else:
            columns = [of_values[name] if name in of_values else batch[name] for name in self._table.names]
            table = pa.RecordBatch.from_arrays(columns, schema=self._table)
        if self.condition is not None and not self.on_messages:
            table = table.filter(self.condition)
        # Rows without columns still count.
        table = table.select(self._names)
        return (
            table
            if table.schema.equals(self.schema, check_metadata=True)
            else pa.RecordBatch.from_arrays(table.columns, schema=self.schema)
        )


def condition_of(options: ScanOptions) -> pc.Expression | None:
    """Return the condition of ``where`` and ``key``; None without one."""
    of_key = None
    if options.key is not None:
        of_key = pc.field("key" if isinstance(options.key, str) else "key_bytes") == options.key
    if options.where is not None and not isinstance(options.where, pc.Expression):
        raise InvalidOptionError("expected a pyarrow.compute.Expression", key=f"where={options.where!r}"[:200])
    if options.where is None or of_key is None:
        return of_key if options.where is None else options.where
    return of_key & options.where


def needs_values(options: ScanOptions) -> bool:
    """Whether the rows of a scan depend on decoded values, before their type is known."""
    names = asked_columns(options)
    if options.on_undecodable == "skip" or any(name == "value" or name not in MESSAGE_SCHEMA.names for name in names):
        return True
    condition = condition_of(options)
    if condition is None:
        return False
    beside_values = pa.schema([one for one in MESSAGE_SCHEMA if one.name != "value"])
    return not _binds(condition, beside_values)


def env_names(values: ShownValues) -> tuple[str, ...]:
    """Return the column names of values, as in conditions and ``columns``."""
    if not values.is_flat:
        return ("value",)
    return tuple(columns_of_fields(values.type, [one for one in MESSAGE_SCHEMA if one.name != "value"]))


def asked_columns(options: ScanOptions) -> tuple[str, ...]:
    """Return the columns of a scan by the names that users write; ``value`` may become several."""
    if isinstance(options.columns, str):
        raise InvalidOptionError("expected a list of names, not a text", key=f"columns={options.columns!r}")
    if options.columns is None:
        return (*DEFAULT_COLUMNS, "txn_state") if options.transactions == "all" else DEFAULT_COLUMNS
    return tuple(options.columns)


def _all_columns(values: ShownValues | None) -> tuple[pa.Schema, frozenset[str]]:
    """Return all columns, and the names of those that are made of values."""
    if values is None:
        return MESSAGE_SCHEMA, frozenset()
    names = env_names(values)
    kinds = list(values.type) if values.is_flat else [pa.field("value", values.type)]
    of_values = [one.with_name(name) for one, name in zip(kinds, names, strict=True)]
    of_messages = [one for one in MESSAGE_SCHEMA if one.name != "value"]
    return pa.schema([*of_messages, *of_values]), frozenset(names)


def _wanted(
    asked: Sequence[str], table: pa.Schema, fields: frozenset[str], values: ShownValues | None
) -> tuple[tuple[str, ...], pa.Schema]:
    """Return the columns of rows by their names in the table, and as rows have them."""
    names: list[str] = []
    wanted: list[pa.Field] = []
    for name in asked:
        if name == "value" and values is not None and values.is_flat:
            beside = [MESSAGE_SCHEMA.field(one) for one in asked if one in MESSAGE_SCHEMA.names and one != "value"]
            own = columns_of_fields(values.type, beside)
            names += env_names(values)
            wanted += [one.with_name(given) for one, given in zip(values.type, own, strict=True)]
        elif name in table.names:
            names.append(name)
            wanted.append(table.field(name))
        else:
            known = [*MESSAGE_SCHEMA.names, *(one for one in table.names if one in fields and one != "value")]
            raise InvalidOptionError(f"no such column; there are {', '.join(known)}", key=name)
    return tuple(names), pa.schema(wanted)


def _names_in(condition: pc.Expression, table: pa.Schema) -> tuple[str, ...]:
    """Return the columns in a condition: pyarrow refuses it without them; raises `InvalidOptionError` if it always does."""
    reason = _refusal(condition, table)
    if reason is not None:
        raise InvalidOptionError(f"{reason}; there are {', '.join(table.names)}", key="where")
    return tuple(name for place, name in enumerate(table.names) if not _binds(condition, table.remove(place)))


def _binds(condition: pc.Expression, table: pa.Schema) -> bool:
    return _refusal(condition, table) is None


def _refusal(condition: pc.Expression, table: pa.Schema) -> str | None:
    try:
        pa.RecordBatch.from_arrays([pa.array([], one.type) for one in table], schema=table).filter(condition)
    except pa.ArrowException as error:
        return str(error).partition("\n")[0]
    return None

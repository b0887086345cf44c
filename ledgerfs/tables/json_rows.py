"""Read rows from JSON lines, as `ledgerfs export --format jsonl` writes them.

pyarrow reads most blocks. Blocks with properties, whose names may be unknown and may occur twice, and blocks that pyarrow refuses, are
read line by line: this loses nothing, and errors contain the line number.

Values are bytes: text in UTF-8, or base64. If the schema has numbers, booleans or times, values are texts of these, and JSON numbers and
booleans as written.
"""

import io
import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ledgerfs.errors import LineError
from ledgerfs.messages.encode.input_columns import IGNORED_COLUMNS, PROPERTIES_TYPE
from ledgerfs.messages.encode.text_columns import TEXT_COLUMNS, TWO_VALUES, from_texts

_BLOCK = 8 << 20
_HEAD = 64 << 10
"""Bytes at the start of a block that most likely contain all of its names."""
_LONGEST_LINE = 256 << 20

_WITHOUT_PROPERTIES = pa.schema([(name, kind) for name, kind in TEXT_COLUMNS.items() if name != "properties"])
_READ = pa.json.ReadOptions(block_size=4 * _BLOCK)
_LINE_TYPES = {**TEXT_COLUMNS, "properties": PROPERTIES_TYPE}

JSON_SCHEMA = pa.schema(
    [(name, column.type) for name, column in from_texts({n: pa.array([], t) for n, t in _LINE_TYPES.items()}).items()]
)
"""The columns of every file of JSON lines, even if its objects have fewer."""

PLAIN_SCHEMA = JSON_SCHEMA.set(JSON_SCHEMA.get_field_index("value"), pa.field("value", pa.string()))
"""`JSON_SCHEMA` with values that are texts of numbers, booleans or times."""


def json_rows(source: BinaryIO, schema: pa.Schema = JSON_SCHEMA) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with the columns `JSON_SCHEMA` or `PLAIN_SCHEMA`; raises `LineError`."""
    line = 1
    for block in _blocks(source):
        columns = _by_pyarrow(block, schema)
        made = _by_line(block, line, schema) if columns is None else columns
        if made.num_rows:
            yield made
        line += block.count(b"\n")


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, some MiB at a time."""
    rest: list[bytes] = []
    waiting = 0
    while block := source.read(_BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, block[:end]])
            rest, waiting = [], 0
        rest.append(block[end:])
        waiting += len(block) - end
        if waiting > _LONGEST_LINE:
            raise ValueError(f"a line has more than {_LONGEST_LINE} bytes")
    if waiting:
        yield b"".join(rest)


def _by_pyarrow(block: bytes, wanted: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows of a block, or None if it must be read line by line."""
    head = block[:_HEAD]
    if b'"properties"' in head or not block.strip():
        return None
    # An unused column would cost as much as the others.
    named = pa.schema([field for field in _WITHOUT_PROPERTIES if f'"{field.name}"'.encode() in head])
    for schema in (named, _WITHOUT_PROPERTIES):
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        try:
            table = pa.json.read_json(io.BytesIO(block), read_options=_READ, parse_options=options)
            table.validate(full=True)  # checks that texts are valid UTF-8
            return _complete(table, wanted)
        except ValueError:
            continue
    return None


def _complete(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows with all columns; None if a row lacks a value, even the null of a tombstone, or if a value may be wrong."""
    columns = {name: pa.nulls(table.num_rows, kind) for name, kind in _LINE_TYPES.items()}
    columns |= zip(table.column_names, (column.combine_chunks() for column in table.columns), strict=True)
    if pc.any(pc.and_(columns["value"].is_null(), columns["value_base64"].is_null())).as_py():
        return None
    if schema is PLAIN_SCHEMA and columns["value_base64"].null_count < table.num_rows:
        return None
    return _made(columns, schema)


def _by_line(block: bytes, line: int, schema: pa.Schema) -> pa.RecordBatch:
    values: dict[str, list[Any]] = {name: [] for name in TEXT_COLUMNS if name not in IGNORED_COLUMNS}
    numbers = []
    for number, text in enumerate(block.split(b"\n"), line):
        if text.strip():
            fields = _fields_of(text, number, is_plain=schema is PLAIN_SCHEMA)
            numbers.append(number)
            for name, column in values.items():
                column.append(fields.get(name))
    try:
        return _made({name: pa.array(column, _LINE_TYPES[name]) for name, column in values.items()}, schema)
    except (ValueError, TypeError, pa.ArrowException):
        for number, *found in zip(numbers, *values.values(), strict=True):
            _check(number, dict(zip(values, found, strict=True)))
        raise


def _made(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    made = from_texts(columns)
    return pa.RecordBatch.from_arrays([made[field.name].cast(field.type) for field in schema], schema=schema)


def _fields_of(text: bytes, line: int, *, is_plain: bool) -> dict[str, Any]:
    try:
        # Decimal preserves all digits.
        pairs = json.loads(text, object_pairs_hook=tuple, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise LineError(line, error) from error
    except InvalidOperation:
        raise LineError(line, "a number is too large") from None
    if not isinstance(pairs, tuple):
        raise LineError(line, "not a JSON object")
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise LineError(line, "a name occurs twice")
    for name, value in fields.items():
        if name not in TEXT_COLUMNS:
            raise LineError(line, f"no such column: {name}; accepted are {', '.join(TEXT_COLUMNS)}")
        if name.endswith("_time") and _is_integer(value):
            fields[name] = str(value)
        _require_int64(name, value, line)
    if fields.get("properties") is not None:
        fields["properties"] = _properties_of(fields["properties"], line)
    _require_one_value(fields, line)
    if is_plain:
        _make_plain(fields, line)
    return fields


def _make_plain(fields: dict[str, Any], line: int) -> None:
    """Convert the value of a line to text."""
    if fields.get("value_base64") is not None:
        raise LineError(line, "value_base64 is for bytes, but values of this schema are not bytes")
    match fields.get("value"):
        case bool() as value:
            fields["value"] = "true" if value else "false"
        case int() | Decimal() as number:
            fields["value"] = str(number)


def _require_one_value(fields: dict[str, Any], line: int) -> None:
    in_base64 = fields.get("value_base64") is not None
    if "value" not in fields and not in_base64:
        raise LineError(line, 'no value; a tombstone has "value":null')
    if fields.get("value") is not None and in_base64:
        raise LineError(line, TWO_VALUES)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_int64(name: str, value: object, line: int) -> None:
    if TEXT_COLUMNS[name] != pa.int64() or value is None:
        return
    if not _is_integer(value) or not -(2**63) <= value < 2**63:
        raise LineError(line, f"{name}: {json.dumps(value, default=str)[:80]} is not an integer of 64 bits")


def _properties_of(pairs: object, line: int) -> list[tuple[str, str]]:
    if not isinstance(pairs, tuple) or not all(isinstance(item, str) for _, item in pairs):
        raise LineError(line, "its properties are not an object with texts as values")
    return list(pairs)


def _check(line: int, fields: dict[str, Any]) -> None:
    """Raise `LineError` for a line whose values do not fit their columns."""
    for name, value in fields.items():
        try:
            column = pa.array([value], _LINE_TYPES[name])
        except (ValueError, TypeError, pa.ArrowException) as error:
            raise LineError(line, f"{name}: {error}") from error
        try:
            from_texts({name: column})
        except ValueError as error:
            raise LineError(line, error) from error

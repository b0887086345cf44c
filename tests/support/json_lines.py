"""JSON lines of a batch of messages, written slowly in plain Python."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa


def year_of(days: int) -> tuple[int, datetime]:
    """Return the year of a day since 1970, and a time of the same month and day in a year that Python's calendar has."""
    eras, day = divmod(days + 719_162, 146_097)  # of 400 years, from 0001-01-01
    known = datetime(2001, 1, 1, tzinfo=UTC) + timedelta(day)
    return known.year - 2000 + eras * 400, known


def slow_time(microseconds: int) -> str:
    days, of_day = divmod(microseconds, 86_400_000_000)
    year, day = year_of(days)
    text = f"{year:04}" if 0 <= year <= 9999 else f"{year:+07}"
    digits = "milliseconds" if microseconds % 1000 == 0 else "microseconds"
    clock = (day + timedelta(microseconds=of_day)).isoformat(timespec=digits)
    return f"{text}{clock[4:].removesuffix('+00:00')}Z"


def slow_value(column: pa.Array, i: int) -> Any:
    """Return one value as the writer below takes it."""
    if pa.types.is_timestamp(column.type):
        number = column.cast(pa.int64())[i].as_py()
        return None if number is None else slow_time(number)
    return column[i].as_py()


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def slow_fields(name: str, column: pa.Array, i: int) -> list[tuple[str, str]]:
    """Return name and JSON text of what one value becomes."""
    value = slow_value(column, i)
    if isinstance(value, bytes):
        try:
            return [(name, dumps(value.decode()))] if name == "value" else [(f"{name}_base64", encoded(value))]
        except UnicodeDecodeError:
            return [("value_base64", encoded(value))]
    if name == "properties":
        pairs = [f"{dumps(key)}:{dumps(item)}" for key, item in value]
        return [(name, f"{{{','.join(pairs)}}}")] if pairs else []
    return [] if value is None and name != "value" else [(name, dumps(value))]


def encoded(value: bytes) -> str:
    return dumps(base64.b64encode(value).decode())


def slow_lines(batch: pa.RecordBatch) -> bytes:
    lines = []
    for i in range(batch.num_rows):
        fields = [field for name in batch.schema.names for field in slow_fields(name, batch[name], i)]
        lines.append("{" + ",".join(f'"{name}":{text}' for name, text in fields) + "}\n")
    return "".join(lines).encode()

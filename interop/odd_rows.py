"""Rows in which every optional field is there, empty and missing beside every other: what no client happens to send."""

import base64
import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "key_bytes": pa.binary(),
        "ordering_key": pa.binary(),
        "value": pa.binary(),
        "properties": pa.map_(pa.string(), pa.string()),
        "event_time": pa.int64(),
    }
)
_KEYS = [(None, None), ("", None), ("ключ", None), (None, b""), (None, b"\xff\x00")]
_ORDERING_KEYS = [None, b"", b"order\x00"]
_VALUES = [None, b"", b"value \xfe\xdc\xde\xad"]
_PROPERTIES: list[dict[str, str] | None] = [None, {}, {"": "", "ü": "värde"}]
_EVENT_TIMES = [None, 946_684_800_001, 1_700_000_000_000]


def write_odd_rows(folder: Path) -> None:
    """Write the rows as a Parquet file."""
    folder.mkdir(parents=True)
    rows = [row | {"properties": _pairs(row["properties"])} for row in _rows()]
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), folder / "odd.parquet")


def odd_lines() -> list[dict[str, Any]]:
    """Return the rows as the Java reader is to tell them, as far as they go."""
    return [
        {
            "event_time": row["event_time"] or 0,
            "key": row["key"] if row["key_bytes"] is None else _base64(row["key_bytes"]),
            "key_base64": row["key_bytes"] is not None,
            "ordering_key": None if row["ordering_key"] is None else _base64(row["ordering_key"]),
            "null_value": row["value"] is None,
            "value": _base64(row["value"] or b""),
            "properties": row["properties"] or {},
        }
        for row in _rows()
    ]


def _rows() -> list[dict[str, Any]]:
    """Return them in an order in which each comes behind many others; the first has all, so that a batch's metadata has it, too."""
    rows = [
        {
            "key": key,
            "key_bytes": key_bytes,
            "ordering_key": ordering_key,
            "value": value,
            "properties": properties,
            "event_time": event_time,
        }
        for (key, key_bytes), ordering_key, value, properties, event_time in product(
            _KEYS, _ORDERING_KEYS, _VALUES, _PROPERTIES, _EVENT_TIMES
        )
    ]
    full = rows.pop()
    random.Random(7).shuffle(rows)
    return [full, *rows]


def _pairs(properties: dict[str, str] | None) -> list[tuple[str, str]] | None:
    return None if properties is None else list(properties.items())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""Orders: rows of eight fields, 41 bytes each as Avro, as a topic of a bucket."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ledgerfs import Topic, import_rows, open_bucket

TOPIC = "persistent://public/default/orders"
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
_LEDGERS = 4


def table(number: int) -> pa.Table:
    """Return orders as columns."""
    repeated = pa.table(
        {
            "name": [f"name{i % 1000}" for i in range(6000)],
            "city": ["berlin"] * 6000,
            "kind": ["A", "B", "C"] * 2000,
            "note": [None, "abc"] * 3000,
            "tags": [["x", "yy"][: i % 3] for i in range(6000)],
        }
    )
    made = pa.concat_tables([repeated] * (number // 6000 + 1)).slice(0, number)
    numbers = np.arange(number, dtype=np.int64)
    at = pa.array(1_700_000_000_000 + numbers).cast(pa.timestamp("ms", "UTC"))
    for name, column in {"id": pa.array(numbers * 37), "amount": pa.array(numbers / 3), "at": at}.items():
        made = made.append_column(name, column)
    return made


def make_topic(folder: Path, rows: pa.Table, schema_type: str) -> Topic:
    """Write rows as some ledgers of one topic, in batches of 1,000; those of ``avro`` and ``json`` are orders."""
    folder.mkdir()
    schema = _SCHEMA if schema_type in {"avro", "json"} else None
    share = -(-rows.num_rows // _LEDGERS)
    for start in range(0, rows.num_rows, share):
        some = rows.slice(start, share)
        import_rows(str(folder), some, TOPIC, schema=schema, schema_type=schema_type, schema_version=0)
    return open_bucket(str(folder)).topic(TOPIC)

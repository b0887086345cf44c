"""What Pulsar's own Java reader returned from the golden bucket, and rows of ours in the same words."""

import base64
import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ledgerfs.scan.scan import Scan


def expected_of(golden: Path, topic: str, folder: str = "expected") -> list[dict[str, Any]]:
    name = quote(topic.removeprefix("persistent://"), safe="")
    with gzip.open(golden / folder / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def as_java_says(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table in the words of the golden files."""
    is_bytes = row["key_bytes"] is not None
    return {
        "ledger_id": row["ledger_id"],
        "entry_id": row["entry_id"],
        "batch_index": row["batch_index"],
        "publish_time": milliseconds(row["publish_time"]),
        "event_time": milliseconds(row["event_time"]) or 0,
        "key": base64.b64encode(row["key_bytes"]).decode() if is_bytes else row["key"],
        "key_base64": is_bytes,
        "ordering_key": encoded(row["ordering_key"]),
        "null_value": row["value"] is None,
        "value": encoded(row["value"] or b""),
        "properties": dict(row["properties"]),
        "producer_name": row["producer_name"],
        "sequence_id": row["sequence_id"],
        "schema_version": encoded(row["schema_version"]),
        "broker_index": row["broker_index"],
        "broker_time": milliseconds(row["broker_time"]),
    }


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def rows_of(scan: Scan) -> list[dict[str, Any]]:
    return [as_java_says(row) for batch in scan for row in batch.to_pylist()]


def wanted(lines: list[dict[str, Any]], *, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    left_out = {"first_chunk", "encrypted", *without}
    return [
        {name: value or ("" if name == "value" else value) for name, value in line.items() if name not in left_out}
        for line in lines
    ]

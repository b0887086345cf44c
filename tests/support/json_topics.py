"""Topics whose values are JSON documents, and what a table says of a document: in plain Python."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder

NAME = "public/default/persistent/events"


def entry(number: int, document: object, **fields: object) -> bytes:
    """Return a message of its own with a document, or bytes as they are, or None for a tombstone."""
    payload = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    is_null = {"value_is_null": True} if document is None else {}
    return frame(metadata(sequence_id=number, publish_time_ms=CREATED_MS + number, **is_null, **fields), payload)


def ledger(ledger_id: int, *documents: object, name: str = NAME) -> Offload:
    """Return a ledger of messages, whose times go on with the ids of ledgers."""
    made = [entry(100 * ledger_id + place, one) for place, one in enumerate(documents)]
    return offload(made, ledger_id, name=name, uuid=hash((name, ledger_id)) % (1 << 100), created_ms=CREATED_MS)


def put(folder: Path, *ledgers: Sequence[object]) -> str:
    """Write a topic of ledgers 1, 2, … and return the URL of its bucket."""
    folder.mkdir(exist_ok=True)
    return put_in_folder(folder, *(ledger(number, *one) for number, one in enumerate(ledgers, 1)))


def reported(kind: pa.DataType, value: Any) -> Any:
    """Return what a column of a type says of a value of ``json.loads``: numbers as doubles, and what is no text as JSON, where it must."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: reported(one.type, value.get(one.name)) for one in kind}
    if pa.types.is_list(kind):
        return [reported(kind.value_type, one) for one in value]
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else Written(value)
    return value


class Written:
    """Equal to texts that mean this value as JSON."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        # Pulsar's own client does not tell -0.0 from 0.0.
        return isinstance(other, str) and _plain(json.loads(other)) == _plain(self.value)

    def __repr__(self) -> str:
        return f"JSON of {self.value!r}"

    __hash__ = None  # type: ignore[assignment]


def _plain(value: object) -> str:
    return json.dumps(value).replace("-0.0", "0.0")

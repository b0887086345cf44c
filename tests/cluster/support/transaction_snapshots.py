"""Snapshots of aborted transactions, as an Avro library reads them by the schema that brokers give their topic."""

from io import BytesIO
from typing import NamedTuple

import fastavro

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

_LONGS = ("txnIdLeastBits", "txnIdMostBits")
_ABORT = {
    "type": "record",
    "name": "AbortTxnMetadata",
    "fields": [{"name": name, "type": "long"} for name in ("entryId", "ledgerId", *_LONGS)],
}
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "TransactionBufferSnapshot",
        "fields": [
            {"name": "aborts", "type": ["null", {"type": "array", "items": _ABORT}]},
            {"name": "maxReadPositionEntryId", "type": "long"},
            {"name": "maxReadPositionLedgerId", "type": "long"},
            {"name": "topicName", "type": ["null", "string"]},
        ],
    }
)


class Snapshot(NamedTuple):
    """Up to where it is complete, and aborted transactions as (most, least) significant bits, with their positions."""

    topic: str
    end: Position
    aborts: list[tuple[tuple[int, int], Position]]

    @property
    def aborted(self) -> list[tuple[int, int]]:
        """The transactions."""
        return [one for one, _ in self.aborts]


def parsed_snapshot(data: bytes) -> Snapshot:
    """Parse the value of its message."""
    stream = BytesIO(data)
    record = fastavro.schemaless_reader(stream, _SCHEMA, None)
    assert not stream.read()
    aborts = [
        ((one["txnIdMostBits"], one["txnIdLeastBits"]), Position(one["ledgerId"], one["entryId"]))
        for one in record["aborts"]
    ]
    end = Position(record["maxReadPositionLedgerId"], record["maxReadPositionEntryId"])
    return Snapshot(record["topicName"], end, aborts)

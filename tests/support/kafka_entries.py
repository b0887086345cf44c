"""Entries as Kafka on Pulsar (KoP) writes them with ``entryFormat=kafka``: the payload is a batch of Kafka records."""

import struct
from collections.abc import Sequence

import google_crc32c

from ledgerfs.messages.proto.message_metadata_pb2 import BrokerMetadataRecord, Property
from tests.support.avro import zigzag
from tests.support.entries import frame, metadata

_MAGIC = 2


def kafka_entry(
    values: Sequence[bytes],
    *,
    format_name: bytes = b"kafka",
    checksum: bool = False,
    claimed: int | None = None,
    **fields: object,
) -> bytes:
    """Return an entry with some records; KoP leaves out the checksum and the producer's name."""
    head = metadata(
        producer_name=b"",
        sequence_id=0,
        property=[Property(key=b"entry.format", value=format_name)],
        messages_in_batch=len(values) if claimed is None else claimed,
        **fields,
    )
    broker = BrokerMetadataRecord(broker_time_ms=5, last_index=len(values) - 1)
    return frame(head, record_batch(values), broker=broker, checksum=checksum)


def record_batch(values: Sequence[bytes]) -> bytes:
    """Return records without keys and headers as one batch of Kafka's format 2."""
    records = b""
    for number, value in enumerate(values):
        record = b"\0" + 2 * zigzag(number) + zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
        records += zigzag(len(record)) + record
    numbers = (0, len(values) - 1, 1_760_000_000_000, 1_760_000_000_000, -1, -1, -1, len(values))
    checked = struct.pack(">hiqqqhii", *numbers) + records
    body = struct.pack(">ibI", 0, _MAGIC, google_crc32c.value(checked)) + checked
    return struct.pack(">qi", 0, len(body)) + body

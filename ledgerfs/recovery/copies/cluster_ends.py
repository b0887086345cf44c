"""Ledgers that end lost clusters: what tells, in a bucket, markers that a lost cluster wrote from those of the one that came after it.

The new cluster's coordinator of transactions gives ids again that the lost one gave. Without a ledger between the two, the first marker
of a new transaction would be the outcome of a message whose transaction the loss has cut off. The new cluster needs no such ledger, since
it has settled copies, and its list does not name it: what its brokers trim is not what readers of the bucket go by.
"""

import struct

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.new_ledger import (
    SMALLEST_BLOCK_SIZE,
    NewLedger,
    made_up_metadata,
    made_up_user_metadata,
    new_key,
)
from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger
from ledgerfs.formats.crc import crc32c
from ledgerfs.formats.pulsar_blob.end_uuids import end_uuid
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord
from ledgerfs.offload.record_digest import cryptographic, digest_of
from ledgerfs.recovery.copies.repeatable_writes import Digest, write_once
from ledgerfs.writing.sources import EntryBatches
from ledgerfs.writing.write import write_ledger

_ABORT = 22


def end_cluster(bucket: Bucket, managed_ledger: str, ledger_id: int, at_ms: int) -> LedgerRef:
    """Write the ledger that ends a lost cluster in a topic, and return it; one that is there and whole is taken.

    Its one entry is a marker of no transaction, which readers and brokers pass over.

    Parameters
    ----------
    bucket
        Where the topic's ledgers are.
    managed_ledger
        The topic as it is called in the new cluster: ``tenant/namespace/persistent/<topic, URL-encoded>``.
    ledger_id
        Between the ids of the lost cluster and those of the new one.
    at_ms
        Publish time of the marker: when the topic's newest ledger came into the bucket, so that two that write the same end write the same
        bytes.

    Raises as `ledgerfs.recovery.copies.repeatable_writes.write_once`.
    """
    key = new_key(ledger_id, end_uuid(ledger_id, managed_ledger))
    metadata, told = made_up_metadata(managed_ledger), made_up_user_metadata(managed_ledger)
    ledger = NewLedger(key, metadata, told, max(SMALLEST_BLOCK_SIZE, bucket.raw_store.writes.smallest_part))

    def digest() -> Digest:
        return digest_of(lambda: iter([_marker(at_ms)]), cryptographic)

    def write() -> tuple[WrittenLedger, Digest]:
        return write_ledger(bucket, ledger, EntryBatches([_marker(at_ms)])), digest()

    return write_once(bucket, ledger, digest, write)


def _marker(at_ms: int) -> EntryBatch:
    """Return the entry: a marker with all that Pulsar requires of one, and no transaction."""
    told = MessageMetadataRecord(producer_name=b"", sequence_id=0, publish_time_ms=at_ms, marker_type=_ABORT)
    metadata = told.SerializeToString(deterministic=True)
    framed = struct.pack(">I", len(metadata)) + metadata
    data = b"\x0e\x01" + struct.pack(">I", crc32c(np.frombuffer(framed, np.uint8), 0, len(framed))) + framed
    return EntryBatch(0, memoryview(data), np.zeros(1, np.int64), np.array([len(data)], np.int64))

"""A small ledger of markers that ends a lost cluster's open transactions in the bucket, too: nobody else will ever end them.

Brokers do not need it, since they hide messages by a snapshot. Readers of the bucket would wait for these transactions forever.
"""

import struct
from collections.abc import Sequence
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

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
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.messages.decode.entry_fields import Transaction
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord
from ledgerfs.offload.record_digest import cryptographic, digest_of
from ledgerfs.recovery.copies.repeatable_writes import Digest, write_once
from ledgerfs.writing.sources import EntryBatches
from ledgerfs.writing.write import write_ledger

OpenAs = Literal["aborted", "committed"]
"""How open transactions end."""

_MARKERS = {"committed": 21, "aborted": 22}


def end_transactions(  # noqa: PLR0917  (all that the ledger is made of)
    bucket: Bucket,
    managed_ledger: str,
    ledger_id: int,
    transactions: Sequence[Transaction],
    open_as: OpenAs,
    at_ms: int,
) -> LedgerRef:
    """Write a ledger with one marker for each transaction, and return it; one that is there and whole is taken.

    Parameters
    ----------
    bucket
        Where the topic's ledgers are.
    managed_ledger
        The topic: ``tenant/namespace/persistent/<topic, URL-encoded>``.
    ledger_id
        Behind all ledgers of the topic.
    transactions
        At least one.
    open_as
        How they end.
    at_ms
        Publish time of the markers, ms since 1970 UTC; the same for each run, so that it writes the same bytes.

    Raises as `ledgerfs.recovery.copies.repeatable_writes.write_once`.
    """
    key = new_key(ledger_id, str(uuid5(NAMESPACE_URL, f"{managed_ledger} {ledger_id}")))
    user_metadata = made_up_user_metadata(managed_ledger)
    block_size = max(SMALLEST_BLOCK_SIZE, bucket.raw_store.writes.smallest_part)
    ledger = NewLedger(key, made_up_metadata(managed_ledger), user_metadata, block_size)
    batch = _batch([_marker(one, _MARKERS[open_as], at_ms) for one in transactions])

    def digest() -> Digest:
        return digest_of(lambda: iter([batch]), cryptographic)

    def write() -> tuple[WrittenLedger, Digest]:
        return write_ledger(bucket, ledger, EntryBatches([batch])), digest()

    return write_once(bucket, ledger, digest, write)


def _marker(transaction: Transaction, kind: int, at_ms: int) -> bytes:
    """Return an entry with all that Pulsar requires of a marker."""
    most, least = (bits & 0xFFFF_FFFF_FFFF_FFFF for bits in transaction)
    record = MessageMetadataRecord(
        producer_name=b"",
        sequence_id=0,
        publish_time_ms=at_ms,
        marker_type=kind,
        transaction_least=least,
        transaction_most=most,
    )
    metadata = record.SerializeToString(deterministic=True)
    framed = struct.pack(">I", len(metadata)) + metadata
    return b"\x0e\x01" + struct.pack(">I", crc32c(np.frombuffer(framed, np.uint8), 0, len(framed))) + framed


def _batch(entries: Sequence[bytes]) -> EntryBatch:
    lengths = np.array([len(one) for one in entries], np.int64)
    return EntryBatch(0, memoryview(b"".join(entries)), np.cumsum(lengths) - lengths, lengths)

"""Ledgers that a recovery writes into the bucket: copies under other ids, and markers that end open transactions.

Their names depend on their contents: the next run reuses existing ones that are whole. A data object without an index stays;
the store reports the same bytes as written: another run may be about to put its index.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import (
    CorruptLedgerError,
    CorruptObjectError,
    ObjectExistsError,
    RefusedLedgerError,
    StaleObjectError,
)
from ledgerfs.formats.crc import crc32c
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.user_metadata import CLUSTER_KEY
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.new_ledger import (
    SMALLEST_BLOCK_SIZE,
    NewLedger,
    made_up_metadata,
    made_up_user_metadata,
    new_key,
    of_topic,
    require_topic,
)
from ledgerfs.layouts.pulsar_blob.writer import UnindexedLedger, WrittenLedger, as_stored, publish
from ledgerfs.messages.decode.entry_fields import Transaction
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord
from ledgerfs.writing.admission import is_current
from ledgerfs.writing.deletion import has_index, remove_ledger
from ledgerfs.writing.sources import EntryBatches, OffloadedLedger
from ledgerfs.writing.write import copied_user_metadata, own_block_size, ref_of, write_ledger
from ledgerfs_cluster.offload.object_copies import copy_object
from ledgerfs_cluster.offload.record_digest import digest_of

_ABORTED = 22
"""Marker type of an aborted transaction."""
_Digest = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class _Making:
    """A ledger to create: a function that writes it, and the digest of its contents."""

    bucket: Bucket
    ledger: NewLedger
    write: Callable[[], WrittenLedger]
    expected: Callable[[], _Digest]

    def made(self) -> LedgerRef:
        """Return the ledger if it exists and is whole; otherwise write it and read it back."""
        if (taken := self._taken()) is not None:
            return taken
        if has_index(self.bucket, self.ledger.key):
            remove_ledger(self.bucket, self.ledger.key)
        try:
            return self._written()
        except ObjectExistsError:
            if (taken := self._taken()) is not None:
                return taken
            remove_ledger(self.bucket, self.ledger.key)
            return self._written()

    def _taken(self) -> LedgerRef | None:
        found = as_stored(self.bucket.raw_store, self.ledger)
        return ref_of(found) if found is not None and self._is_whole(found) else None

    def _written(self) -> LedgerRef:
        written = self.write()
        self.bucket.expire()
        if not self._is_whole(written):
            remove_ledger(self.bucket, self.ledger.key)
            reason = "the ledger that was read back differs from the written one; the copy was deleted"
            raise CorruptLedgerError(reason, key=written.data.key)
        if not is_current(self.bucket.raw_store, ref_of(written)):
            reason = "another writer replaced or deleted the ledger at the same time; run the command again"
            raise StaleObjectError(reason, key=written.data.key)
        return ref_of(written)

    def _is_whole(self, there: WrittenLedger) -> bool:
        """Return whether it is of its topic, and all entries are as expected."""
        ref = ref_of(there)
        if ref.managed_ledger != there.ledger.metadata.managed_ledger:
            return False
        reader = self.bucket.uncached_reader(ref)
        try:
            found = digest_of(lambda: reader.batches(ref.first_entry, ref.last_entry))
        except CorruptObjectError:
            return False
        return found == self.expected()


def copy_under_id(bucket: Bucket, ref: LedgerRef, ledger_id: int, managed_ledger: str) -> LedgerRef:
    """Copy a ledger within its bucket to another id and topic, read it back, and return the copy; reuses an existing whole copy.

    Neither the data object nor its blocks contain the ledger's id: the store copies the data object itself if it can, and the index is
    written again. Does not check whether the id is free.

    Raises
    ------
    RefusedLedgerError
        The ledger is of the same topic, so readers of the bucket would get each message twice, or its layout cannot be written.
    InvalidNameError
        An invalid id, or topic name.
    CorruptLedgerError
        The ledger is damaged, or the copy differs; a copy that was written is removed again.
    StaleObjectError, ObjectExistsError
        Another writer replaces or removes one of the two meanwhile.
    StoreError, StoreUnreachableError, AccessDeniedError
        From the bucket.
    """
    require_topic(managed_ledger)
    if ref.managed_ledger == managed_ledger:
        reason = (
            "cannot copy a ledger to another id of the same topic: readers of the bucket would get each message twice"
        )
        raise RefusedLedgerError(reason, key=ref.key)
    if ref.layout != NUMBER:
        raise RefusedLedgerError(
            "only ledgers in the layout that ledgerfs writes can be copied to other ids", key=ref.key
        )
    reader = bucket.reader(ref)
    key = new_key(ledger_id, copied_uuid(ref.uuid, ledger_id, managed_ledger))
    ledger = _new_ledger(reader, key, managed_ledger)

    @cache
    def expected() -> _Digest:
        return digest_of(OffloadedLedger(reader).checked)

    def write() -> WrittenLedger:
        expected()
        store = bucket.raw_store
        whole = as_stored(store, replace(ledger, key=new_key(ref.ledger_id, ref.uuid)))
        if whole is None or not is_current(store, ref):
            raise StaleObjectError("the ledger was replaced or deleted after it was listed", key=ref.key)
        data = copy_object(store, whole.data, ledger.key.data_key, ledger.user_metadata_as("data"), ledger.block_size)
        index = replace(whole.offload_index, metadata=ledger.metadata)
        return publish(store, UnindexedLedger(ledger, data, index))

    return _Making(bucket, ledger, write, expected).made()


def copied_uuid(uuid: str, ledger_id: int, managed_ledger: str) -> str:
    """Return the uuid of a ledger's copy under an id: the same in each run."""
    return str(uuid5(UUID(uuid), f"{managed_ledger} {ledger_id}"))


def end_transactions(
    bucket: Bucket, managed_ledger: str, ledger_id: int, transactions: Sequence[Transaction], at_ms: int
) -> LedgerRef:
    """Write a ledger with an abort marker for each open transaction, and return it; reuses an existing whole one.

    Brokers hide messages by a snapshot and do not need it, but readers of the bucket would wait for these transactions forever. It has
    to follow all ledgers of the topic. ``at_ms`` is the publish time of the markers (ms since 1970 UTC), the same for each run, so that
    it writes the same bytes. Raises `CorruptLedgerError`, `StaleObjectError` and the errors of the store.
    """
    key = new_key(ledger_id, str(uuid5(NAMESPACE_URL, f"{managed_ledger} {ledger_id}")))
    block_size = max(SMALLEST_BLOCK_SIZE, bucket.raw_store.writes.smallest_part)
    ledger = NewLedger(key, made_up_metadata(managed_ledger), made_up_user_metadata(managed_ledger), block_size)
    entries = [_marker(one, at_ms) for one in transactions]
    lengths = np.array([len(one) for one in entries], np.int64)
    batch = EntryBatch(0, memoryview(b"".join(entries)), np.cumsum(lengths) - lengths, lengths)

    digest = digest_of(lambda: iter([batch]))
    return _Making(bucket, ledger, lambda: write_ledger(bucket, ledger, EntryBatches([batch])), lambda: digest).made()


def _marker(transaction: Transaction, at_ms: int) -> bytes:
    """Return an entry with all that Pulsar requires of a marker."""
    most, least = (bits & 0xFFFF_FFFF_FFFF_FFFF for bits in transaction)
    record = MessageMetadataRecord(
        producer_name=b"",
        sequence_id=0,
        publish_time_ms=at_ms,
        marker_type=_ABORTED,
        transaction_least=least,
        transaction_most=most,
    )
    metadata = record.SerializeToString(deterministic=True)
    framed = struct.pack(">I", len(metadata)) + metadata
    return b"\x0e\x01" + struct.pack(">I", crc32c(np.frombuffer(framed, np.uint8), 0, len(framed))) + framed


def _new_ledger(reader: LedgerReader, key: LedgerKey, managed_ledger: str) -> NewLedger:
    metadata = reader.metadata()
    if metadata is None or not reader.ref.is_sound:
        reason = "the ledger is damaged, so it is not copied; run `ledgerfs verify` for all damage"
        raise CorruptLedgerError(reason, key=reader.ref.key)
    user_metadata = copied_user_metadata(reader, managed_ledger)
    # It belongs to the cluster that will list it.
    user_metadata.pop(CLUSTER_KEY, None)
    return NewLedger(key, of_topic(metadata, managed_ledger), user_metadata, own_block_size(reader))

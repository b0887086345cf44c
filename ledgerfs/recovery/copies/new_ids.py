"""Ledgers under other ids, for a cluster that has given their ids to ledgers of its own.

Neither the data object nor its blocks name the ledger's id: the store copies the data object itself where it can, and the index is
written anew. The copy is of another topic than its ledger, or whoever reads the bucket would find each message twice.
"""

from dataclasses import replace
from typing import NamedTuple
from uuid import UUID, uuid5

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.columns import NUMBER
from ledgerfs.dialects.pulsar_blob.new_ledger import NewLedger, new_key, of_topic, require_topic
from ledgerfs.dialects.pulsar_blob.writer import UnindexedLedger, WrittenLedger, as_stored, publish
from ledgerfs.errors import CorruptLedgerError, RefusedLedgerError, StaleObjectError
from ledgerfs.formats.pulsar_blob.user_metadata import CLUSTER_KEY
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.offload.record_digest import cryptographic, digest_of
from ledgerfs.recovery.copies.repeatable_writes import Digest, write_once
from ledgerfs.storage.object_copies import copy_object
from ledgerfs.writing.admission import is_current
from ledgerfs.writing.copied_properties import copied_user_metadata, own_block_size
from ledgerfs.writing.sources import OffloadedLedger


class NewPlace(NamedTuple):
    """The id and the topic of a copy, ``tenant/namespace/persistent/<topic, URL-encoded>``."""

    ledger_id: int
    managed_ledger: str

    def uuid_of(self, uuid: str) -> str:
        """Return the uuid of the copy there of a ledger with this one: the same for each run that makes it."""
        return str(uuid5(UUID(uuid), f"{self.managed_ledger} {self.ledger_id}"))

    def require_for(self, ref: LedgerRef) -> None:
        """Raise `RefusedLedgerError` for a ledger of the same topic, and `InvalidNameError` for a name that is no topic's."""
        require_topic(self.managed_ledger)
        if ref.managed_ledger == self.managed_ledger:
            reason = "under another id of the same topic, readers of the bucket would get each message twice"
            raise RefusedLedgerError(reason, key=ref.key)


def copy_under_id(bucket: Bucket, ref: LedgerRef, place: NewPlace) -> LedgerRef:
    """Copy a ledger within its bucket to another id and topic, read it back, and return the copy; one that is there and whole is taken.

    Whether the id is free is the caller's to know.

    Parameters
    ----------
    bucket
        Where the ledger is.
    ref
        The ledger, as the bucket's catalog has it.
    place
        Of the copy.

    Raises
    ------
    RefusedLedgerError
        The ledger is of the same topic, or of a dialect that is not written.
    InvalidNameError
        An invalid id, or name of a topic.
    CorruptLedgerError
        The ledger is damaged, or the copy is not what it should be; a copy that was written is removed again.
    StaleObjectError, ObjectExistsError
        Somebody else replaces or removes one of the two meanwhile.
    StoreError, StoreUnreachableError, AccessDeniedError
        Of the bucket.

    """
    place.require_for(ref)
    if ref.dialect != NUMBER:
        raise RefusedLedgerError(
            "only ledgers of the dialect that is written here are copied to other ids", key=ref.key
        )
    reader = bucket.reader(ref)
    ledger = _new_ledger(reader, place)

    def expected() -> Digest:
        return digest_of(OffloadedLedger(reader).checked, cryptographic)

    def write() -> tuple[WrittenLedger, Digest]:
        digest, store = expected(), bucket.raw_store
        whole = as_stored(store, replace(ledger, key=new_key(ref.ledger_id, ref.uuid)))
        if whole is None or not is_current(store, ref):
            raise StaleObjectError("the ledger was replaced or removed since it was listed", key=ref.key)
        data = copy_object(store, whole.data, ledger.key.data_key, ledger.user_metadata_as("data"), ledger.block_size)
        index = replace(whole.offload_index, metadata=ledger.metadata)
        return publish(store, UnindexedLedger(ledger, data, index)), digest

    return write_once(bucket, ledger, expected, write)


def _new_ledger(reader: LedgerReader, place: NewPlace) -> NewLedger:
    metadata = reader.metadata()
    if metadata is None or not reader.ref.is_sound:
        reason = "the ledger is damaged, as `ledgerfs verify` tells; it is not copied"
        raise CorruptLedgerError(reason, key=reader.ref.key)
    user_metadata = copied_user_metadata(reader, place.managed_ledger)
    # It is of the cluster that will name it, whichever that is.
    user_metadata.pop(CLUSTER_KEY, None)
    key = new_key(place.ledger_id, place.uuid_of(reader.ref.uuid))
    return NewLedger(key, of_topic(metadata, place.managed_ledger), user_metadata, own_block_size(reader))

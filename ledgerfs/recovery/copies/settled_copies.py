"""Settled copies: ledgers for a cluster that has not seen the transactions of their messages (``docs/formats/settled-copies.md``).

A broker knows from its own snapshots which transactions were aborted, and hides messages by the ids of these, which a new cluster gives
again. So a ledger with messages of transactions is copied beside itself, with those that are to be seen as plain messages, and the others
as markers. Its uuid depends on the ledger and on what became of its messages alone: whoever makes it again finds it, and takes it if it is
whole.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.columns import NUMBER
from ledgerfs.dialects.pulsar_blob.new_ledger import NewLedger, new_key, of_topic
from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger
from ledgerfs.errors import CorruptLedgerError, RefusedLedgerError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.pulsar_blob.settled_uuids import settled_uuid
from ledgerfs.formats.pulsar_blob.user_metadata import CLUSTER_KEY, SETTLED_KEY
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.transforms.settle import Settle
from ledgerfs.offload.record_digest import RecordDigest, cryptographic, digest_of, digested
from ledgerfs.recovery.copies.new_ids import NewPlace
from ledgerfs.recovery.copies.repeatable_writes import Digest, write_once
from ledgerfs.recovery.copies.transaction_messages import MessagesOfTransactions, Unsettled, unsettled
from ledgerfs.writing.copied_properties import copied_user_metadata, own_block_size
from ledgerfs.writing.sources import EntryBatches, OffloadedLedger
from ledgerfs.writing.write import write_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.formats.records import EntryBatch

__all__ = ["OpenAs", "Unsettled", "unsettled", "write_settled"]

OpenAs = Literal["aborted", "committed"]
"""What becomes of messages whose transactions had no outcome."""


def write_settled(
    bucket: Bucket, ref: LedgerRef, messages: Unsettled, open_as: OpenAs = "aborted", place: NewPlace | None = None
) -> LedgerRef:
    """Write the settled copy of a ledger into its bucket, read all of it back, and return it; one that is there and whole is taken.

    A ledger without messages of transactions is returned itself. The entries of the copy have the same ids and sizes.

    Parameters
    ----------
    bucket
        Where the ledger is.
    ref
        The ledger, as the bucket's catalog has it.
    messages
        Of its topic, read from this bucket (`ledgerfs.recovery.copies.transaction_messages.unsettled`).
    open_as
        What becomes of messages whose transactions had no outcome up to the topic's end.
    place
        Whether it is to have the ledger's own id and topic (None), or others; that such an id is free is the caller's to know.

    Raises
    ------
    CorruptLedgerError
        The ledger is damaged, or its copy is not what was written; a copy that was written is removed again.
    CorruptMessageError
        An entry of the ledger is damaged.
    RefusedLedgerError
        The ledger is not of a dialect that is written, or is not the one that ``messages`` tell of.
    StaleObjectError, ObjectExistsError
        Somebody else replaces or removes the copy meanwhile.
    StoreError, StoreUnreachableError, AccessDeniedError
        Of the bucket.

    """
    mine = messages.ledgers.get(ref.ledger_id)
    if mine is None:
        return ref
    return _SettledCopy.of(bucket, ref, mine, open_as, place).run()


@dataclass(frozen=True, slots=True)
class _SettledCopy:
    """A copy that is to be in a bucket."""

    bucket: Bucket
    source: LedgerReader
    transform: Settle
    ledger: NewLedger

    @classmethod
    def of(
        cls, bucket: Bucket, ref: LedgerRef, messages: MessagesOfTransactions, open_as: OpenAs, place: NewPlace | None
    ) -> "_SettledCopy":
        _require_copied(ref, messages)
        reader = bucket.reader(ref)
        metadata = reader.metadata()
        if metadata is None:
            raise RefusedLedgerError("the ledger has no metadata that its settled copy could have", key=ref.key)
        hidden, plain = messages.hidden_and_plain(open_as)
        metadata, uuid = metadata.settled(ref.uuid), settled_uuid(ref.uuid, _told(hidden, plain))
        ledger_id, managed_ledger = ref.ledger_id, ref.managed_ledger
        if place is not None:
            place.require_for(ref)
            ledger_id, managed_ledger = place
            metadata, uuid = of_topic(metadata, managed_ledger), place.uuid_of(uuid)
        key = new_key(ledger_id, uuid)
        user_metadata = {**copied_user_metadata(reader, managed_ledger), SETTLED_KEY: ref.uuid}
        # It is of the cluster that will name it, whichever that is: the one that wrote the ledger must not take it for its own garbage.
        user_metadata.pop(CLUSTER_KEY, None)
        ledger = NewLedger(key, metadata, user_metadata, own_block_size(reader))
        return cls(bucket, reader, Settle(hidden, plain), ledger)

    def run(self) -> LedgerRef:
        """Return the copy that is there, or write it."""
        return write_once(self.bucket, self.ledger, self._expected, self._write)

    def _expected(self) -> Digest:
        return digest_of(self._made, cryptographic)

    def _write(self) -> tuple[WrittenLedger, Digest]:
        sent = RecordDigest(cryptographic)
        written = write_ledger(self.bucket, self.ledger, EntryBatches(digested(self._made(), sent)))
        return written, sent.value()

    def _made(self) -> "Iterator[EntryBatch]":
        for batch in OffloadedLedger(self.source).checked():
            yield from self.transform(batch.framed(), batch.first_entry)


def _require_copied(ref: LedgerRef, messages: MessagesOfTransactions) -> None:
    """Raise for a ledger of which there can be no settled copy."""
    if ref.dialect != NUMBER:
        raise RefusedLedgerError("only ledgers of the dialect that is written here have settled copies", key=ref.key)
    if not ref.is_sound:
        reason = "the ledger is damaged, as `ledgerfs verify` tells; it has no settled copy"
        raise CorruptLedgerError(reason, key=ref.key)
    if messages.uuid != ref.uuid:
        reason = f"its messages of transactions were looked for in another copy, {messages.uuid}"
        raise RefusedLedgerError(reason, key=ref.key)


def _told(hidden: Int64, plain: Int64) -> bytes:
    """Return what stands for what becomes of the messages of a ledger."""
    parts = (np.int64(hidden.size), hidden, plain)
    return blake2b(b"".join(np.asarray(part, "<i8").tobytes() for part in parts), digest_size=32).digest()

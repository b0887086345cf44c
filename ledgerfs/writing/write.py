"""Write one ledger into a bucket, from its description and a source of entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.new_ledger import (
    DEFAULT_BLOCK_SIZE,
    NewLedger,
    completed_user_metadata,
    made_up_metadata,
    made_up_user_metadata,
    new_key,
    of_topic,
    require_topic,
)
from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
from ledgerfs.writing.admission import Admission
from ledgerfs.writing.bucket_writer import BucketWriter
from ledgerfs.writing.claims import Claim, IfExists
from ledgerfs.writing.sources import EntrySource

if TYPE_CHECKING:
    from ledgerfs.messages.transforms.unbatch import Unbatch


@dataclass(frozen=True, slots=True)
class Wanted:
    """The description of a ledger to write.

    Attributes
    ----------
    managed_ledger
        Its owner: ``tenant/namespace/persistent/<topic, URL-encoded>``.
    uuid
        Of the offload attempt; None for a new one.
    metadata
        BookKeeper's; None if not known.
    user_metadata
        User metadata of its objects; None for the entries that brokers require.
    transform
        Splits entries while they are written; None leaves them as they are.

    """

    managed_ledger: str
    ledger_id: int
    uuid: str | None = None
    block_size: int | None = None
    metadata: LedgerMetadata | None = None
    user_metadata: Mapping[str, str] | None = None
    transform: "Unbatch | None" = None

    def claim(self, if_exists: IfExists) -> Claim:
        """Return the claim to compare with other ledgers of this id."""
        created_ms = None if self.metadata is None else self.metadata.created_ms
        return Claim(self.managed_ledger, self.ledger_id, if_exists, created_ms=created_ms)

    def new_ledger(self) -> NewLedger:
        """Return the ledger for the writer; raises `InvalidNameError` for an invalid managed ledger, uuid or id."""
        require_topic(self.managed_ledger)
        metadata = (
            made_up_metadata(self.managed_ledger)
            if self.metadata is None
            else of_topic(self.metadata, self.managed_ledger)
        )
        user_metadata = made_up_user_metadata(self.managed_ledger) if self.user_metadata is None else self.user_metadata
        key = new_key(self.ledger_id, self.uuid)
        block_size = DEFAULT_BLOCK_SIZE if self.block_size is None else self.block_size
        return NewLedger(key, metadata, user_metadata, block_size, self.transform)


def open_writer(admission: Admission, wanted: Wanted, name: str, if_exists: IfExists = IfExists.FAIL) -> BucketWriter:
    """Return a writer of a ledger, unless its id is known to be in use; `BucketWriter.commit` lists the bucket to be sure.

    ``name`` is that of the file of records in errors. Raises `LedgerExistsError`, `InvalidNameError` for the name of a partitioned topic,
    and as `Wanted.new_ledger`.
    """
    ledger, claim = wanted.new_ledger(), wanted.claim(if_exists)
    admission.require_free(claim)
    return BucketWriter(admission.bucket, ledger, claim, name)


def write_ledger(
    bucket: Bucket, wanted: Wanted | NewLedger, source: EntrySource, progress: Progress | None = None
) -> WrittenLedger:
    """Write all entries of a source as one ledger; does not check whether its id is free (`Admission`).

    Checks the source as far as possible before anything is sent. Raises as `Wanted.new_ledger`, the source and `LedgerWriter`; there is
    no such ledger then.
    """
    ledger = wanted.new_ledger() if isinstance(wanted, Wanted) else wanted
    with BucketWriter(bucket, ledger) as writer:
        writer.add_all(source, progress)
        return writer.commit()


def measured(source: EntrySource, ledger: NewLedger) -> tuple[int, int]:
    """Return the last entry and the length, bytes, of a ledger before it is written, to identify the same one; reads the whole source.

    Raises as `write_ledger`.
    """
    entries = length = 0
    for batch in source.batches(ledger):
        for made in [batch] if ledger.transform is None else ledger.transform(batch, entries):
            entries += len(made)
            length += int(made.lengths.sum())
    return entries - 1, length


def ref_of(written: WrittenLedger) -> LedgerRef:
    """Return the catalog's row of a ledger that was just written."""
    metadata, key = written.offload_index.metadata, written.ledger.key
    return LedgerRef(
        layout=NUMBER,
        ledger_id=key.ledger_id,
        uuid=key.uuid,
        managed_ledger=metadata.managed_ledger,
        copy=0,
        first_entry=0,
        last_entry=metadata.last_entry,
        length=metadata.length,
        stored=written.data.size,
        expected=written.offload_index.data_length,
        cuts=len(written.offload_index.blocks),
        created_ms=metadata.created_ms,
        changed_ms=written.index.modified_ms,
        state=CatalogState.SOUND,
        is_ordered=metadata.is_in_place,
        objects=(("data", written.data), ("index", written.index)),
        origin=metadata.origin,
    )


def require_new_ids(ledger_id: int, source_id: int, transform: "Unbatch | None") -> None:
    """Raise `RefusedLedgerError` if entries are split and the ledger keeps its id: a broker would read other messages."""
    if transform is not None and ledger_id == source_id:
        raise RefusedLedgerError(
            "splitting batches changes the ids of entries, so the copy needs another ledger id",
            key=f"ledger {ledger_id}",
        )


def own_block_size(reader: LedgerReader) -> int:
    """Return the block size, bytes, with which the copy's data object is the same; for a ledger of one block any that fits it."""
    origin = reader.origin()
    return origin.block_size or max(origin.largest_block or 0, DEFAULT_BLOCK_SIZE)


def copied_user_metadata(reader: LedgerReader, managed_ledger: str | None) -> dict[str, str]:
    """Return the user metadata of a ledger's objects, with the entries that brokers require; costs a request."""
    return completed_user_metadata(reader.user_metadata(), managed_ledger)


def copied_metadata(reader: LedgerReader, ledger_id: int, managed_ledger: str | None) -> LedgerMetadata:
    """Return the metadata of a copy, marked as moved if its id changes; made up if the ledger has none.

    Raises `RefusedLedgerError` for a ledger with neither metadata nor a managed ledger.
    """
    metadata = reader.metadata()
    if metadata is not None:
        return metadata if ledger_id == reader.ref.ledger_id else metadata.moved()
    if managed_ledger is None:
        raise RefusedLedgerError(
            "its metadata is required: its topic is unknown without it", key=str(reader.ref.ledger_id)
        )
    return made_up_metadata(managed_ledger, reader.ref.created_ms)

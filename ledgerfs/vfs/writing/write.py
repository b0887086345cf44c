"""Writing ledgers into a bucket that may have some already: what is refused, what is skipped, what becomes a further copy."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerExistsError, RefusedLedgerError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.object_names import LedgerKey
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.layout import Progress
from ledgerfs.vfs.writing.ledger_writer import LedgerWriter, WrittenLedger
from ledgerfs.vfs.writing.new_ledger import (
    DEFAULT_BLOCK_SIZE,
    NewLedger,
    made_up_metadata,
    made_up_user_metadata,
    new_key,
    of_topic,
    require_topic,
)
from ledgerfs.vfs.writing.sources import EntrySource

if TYPE_CHECKING:
    from ledgerfs.messages.transforms import EntryTransform


class IfExists(StrEnum):
    """What to do when the bucket has a ledger of the same id."""

    FAIL = "fail"
    SKIP = "skip"
    NEW_COPY = "new-copy"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A ledger as somebody wants it written.

    Attributes
    ----------
    managed_ledger
        Whose it is to be: ``tenant/namespace/persistent/<topic, URL-encoded>``.
    uuid
        Of the offload attempt; None for a fresh one.
    metadata
        BookKeeper's metadata, where it is known.
    user_metadata
        User metadata of its objects; None for what makes a broker accept them.
    transform
        What entries become on their way.

    """

    managed_ledger: str
    ledger_id: int
    uuid: str | None = None
    block_size: int | None = None
    metadata: LedgerMetadata | None = None
    user_metadata: Mapping[str, str] | None = None
    transform: "EntryTransform | None" = None

    def new_ledger(self) -> NewLedger:
        """Return what the writer needs; raises `InvalidNameError` for names that are no topic's, and ids that no ledger has."""
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


def free_ledger_id(*buckets: Bucket) -> int:
    """Return a ledger id above all that some buckets have, also those of which only half is there."""
    catalogs = [bucket.catalog for bucket in buckets]
    tables = [table["ledger_id"] for one in catalogs for table in (one.ledgers, one.lost, one.orphans)]
    whole = [int(ids.max()) for ids in tables if ids.size]
    return 1 + max([*whole, *(bad.key.ledger_id for one in catalogs for bad in one.bad_indexes)], default=-1)


def is_there(bucket: Bucket, ledger_id: int, if_exists: IfExists) -> bool:
    """Whether the ledger is to be skipped; raises `LedgerExistsError` where it is not to be there."""
    if if_exists is IfExists.NEW_COPY:
        return False
    # A damaged one is no reason to leave a whole one out.
    found = bucket.known_ledger(ledger_id, is_sound=if_exists is IfExists.SKIP)
    if found is None or if_exists is IfExists.SKIP:
        return found is not None
    raise LedgerExistsError(
        f"the bucket has ledger {ledger_id} already, of {topic_of(found)}; ids are unique in a cluster, and nothing is written over: "
        "remove it first, or ask for a new copy (if_exists='new-copy')",
        key=f"ledger {ledger_id}",
    )


def open_writer(bucket: Bucket, wanted: Wanted, if_exists: IfExists = IfExists.FAIL) -> LedgerWriter:
    """Return a writer for a ledger that is not there; costs no request but the catalog. Raises as `Wanted.new_ledger` and `is_there`."""
    ledger = wanted.new_ledger()
    if is_there(bucket, wanted.ledger_id, if_exists):
        raise LedgerExistsError("the bucket has this ledger already", key=f"ledger {wanted.ledger_id}")
    return LedgerWriter(bucket.raw_store, ledger)


def write_ledger(
    bucket: Bucket, wanted: Wanted | NewLedger, source: EntrySource, progress: Progress | None = None
) -> WrittenLedger:
    """Write all entries of a source as one ledger, whatever ledgers there are (`is_there` tells).

    Nothing is sent before the source was looked through, as far as it can be. Raises what `Wanted.new_ledger`, the source and
    `LedgerWriter` raise; there is no such ledger then.
    """
    ledger = wanted.new_ledger() if isinstance(wanted, Wanted) else wanted
    with LedgerWriter(bucket.raw_store, ledger) as writer:
        source.check(ledger)
        done = 0
        for batch in source.batches(ledger):
            writer.add(batch)
            done += int(batch.lengths.sum()) + 12 * len(batch)
            if progress is not None:
                progress(f"ledger {ledger.key.ledger_id}", done, source.size)
        written = writer.commit()
    bucket.note_written(ledger.key.ledger_id, ledger.metadata.managed_ledger)
    return written


def ref_of(written: WrittenLedger) -> LedgerRef:
    """Return what the catalog will know of a ledger that was just written."""
    metadata, key = written.contents.metadata, written.ledger.key
    return LedgerRef(
        ledger_id=key.ledger_id,
        uuid=key.uuid,
        managed_ledger=metadata.managed_ledger,
        copy=0,
        last_entry=metadata.last_entry,
        length=metadata.length,
        data_length=written.contents.data_length,
        blocks=len(written.contents.blocks),
        created_ms=metadata.created_ms,
        data=written.data,
        index=written.index,
        is_sound=True,
        is_ordered=not metadata.is_made_up,
    )


def remove_ledger(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger's two objects, the index first: what is left if that is all that works is no ledger any more."""
    writes = bucket.raw_store.writes
    writes.delete(key.index_key)
    bucket.note_removed(key)
    writes.delete(key.data_key)


def require_new_ids(ledger_id: int, source_id: int, *, keeps_ids: bool) -> None:
    """Raise `RefusedLedgerError` for entries that get other ids in a ledger that keeps its own: to a broker, other messages."""
    if not keeps_ids and ledger_id == source_id:
        raise RefusedLedgerError(
            "this transform gives entries other ids, which is only allowed with another ledger id",
            key=f"ledger {ledger_id}",
        )

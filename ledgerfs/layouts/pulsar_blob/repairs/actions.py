"""Apply repairs to a bucket: each action first checks that the objects are unchanged since the plan.

No store deletes "only if unchanged", so there is a moment between the check and the deletion. No writer works on the objects then, since
repairs leave young objects alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.partitioned_names import require_own_name
from ledgerfs.errors import LedgerfsError, ObjectExistsError, ObjectNotFoundError, StaleObjectError, StoreError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
from ledgerfs.layouts.pulsar_blob.repairs.survey import claimants
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Deletes a garbage object, if there is still no object ``absent``, and ``needed`` are unchanged."""

    name: str
    stat: ObjectStat
    absent: str | None = None
    needed: tuple[ObjectStat, ...] = ()

    rank: ClassVar[int] = 1

    def run(self, store: RawStore) -> None:
        """Delete it."""
        for stat in self.needed:
            require_unchanged(store, stat)
        require_still_absent(store, self.absent)
        require_unchanged(store, self.stat)
        store.writes.delete(self.stat.key)


@dataclass(frozen=True, slots=True)
class RebuildIndex:
    """Puts the index of a data object without one, if only ``known`` claim its ledger id (`claimants`) in a new listing.

    Attributes
    ----------
    named
        The managed ledger that the user chose, which may hide no partitions; None if an object contains it.

    """

    data: ObjectStat
    key: LedgerKey
    content: bytes
    metadata: Mapping[str, str]
    known: frozenset[str]
    list_all: Callable[[], Catalog]
    named: str | None = None

    name: ClassVar[str] = "rebuild-index"
    rank: ClassVar[int] = 0

    def run(self, store: RawStore) -> None:
        """Put the index, and remove it again unless the data object is then unchanged and no other writer wrote the ledger."""
        self.require_free(store)
        self.put(store)

    def require_free(self, store: RawStore) -> None:
        """Raise `StaleObjectError` if the data object was replaced, or a ledger of this id was written, since the plan.

        Raises `InvalidNameError` if a partition of the topic that the user chose was written.
        """
        require_unchanged(store, self.data)
        catalog = self.list_all()
        if self.named is not None:
            require_own_name(catalog, self.named, [self.key.uuid])
        came = claimants(catalog, self.key.ledger_id) - self.known - {self.key.index_key}
        if came:
            reason = "another writer wrote this ledger after the repair was planned; plan the repair again"
            raise StaleObjectError(reason, key=min(came).partition(" ")[0])

    def put(self, store: RawStore) -> None:
        """Put the index after `require_free`, which is called once more first."""
        written = store.writes.put(self.key.index_key, self.content, self.metadata)
        try:
            self.require_free(store)
        except BaseException:
            require_unchanged(store, written)
            store.writes.delete(self.key.index_key)
            raise


@dataclass(frozen=True, slots=True)
class ReplaceIndex:
    """Replaces an index that cannot be parsed."""

    damaged: ObjectStat
    rebuilt: RebuildIndex

    name: ClassVar[str] = "replace-index"
    rank: ClassVar[int] = 0

    def run(self, store: RawStore) -> None:
        """Delete the old index and put the new one; if that fails, put the old bytes back."""
        self.rebuilt.require_free(store)
        head = require_unchanged(store, self.damaged)
        stat = head.stat
        old = store.read(ReadRequest(stat.key, 0, stat.size, stat.version))
        try:
            store.writes.delete(stat.key)
            self.rebuilt.put(store)
        except BaseException as error:
            self._put_back(store, old, head.metadata or {}, error)
            raise

    def _put_back(self, store: RawStore, old: bytes, metadata: Mapping[str, str], cause: BaseException) -> None:
        try:
            store.writes.put(self.damaged.key, old, metadata)
        except ObjectExistsError:
            return  # It was not deleted, or another writer has put one, or the request that failed was carried out.
        except LedgerfsError as error:
            reason = (
                f"the damaged index was deleted, but neither the rebuilt one ({cause}) nor the old one ({error.reason}) could be written; "
                "the data object is complete: run `ledgerfs repair` again when the store accepts writes"
            )
            raise StoreError(reason, key=self.damaged.key) from cause


@dataclass(frozen=True, slots=True)
class AbortUpload:
    """Aborts an abandoned upload."""

    upload: UnfinishedUpload

    name: ClassVar[str] = "abort-upload"
    rank: ClassVar[int] = 1

    def run(self, store: RawStore) -> None:
        """Abort it; the store never uses its id again."""
        store.writes.end_unfinished(self.upload)


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """Restores the user metadata that brokers require.

    Runs last, because it gives the object another version, which other actions would report as a change.
    """

    stat: ObjectStat
    managed_ledger: str
    role: str

    name: ClassVar[str] = "restore-metadata"
    rank: ClassVar[int] = 2

    def run(self, store: RawStore) -> None:
        """Add missing entries to the object's user metadata."""
        head = require_unchanged(store, self.stat)
        completed = completed_user_metadata(head.metadata, self.managed_ledger)
        store.writes.set_metadata(head.stat, {**completed, "role": self.role})


def require_unchanged(store: RawStore, stat: ObjectStat) -> ObjectHead:
    """Return the object as it is now; raises `StaleObjectError` if it differs from ``stat``."""
    try:
        head = store.head(stat.key)
    except ObjectNotFoundError as error:
        raise _changed(stat.key, "was deleted") from error
    if _identity(head.stat) != _identity(stat):
        raise _changed(stat.key, "was replaced")
    return head


def require_still_absent(store: RawStore, key: str | None) -> None:
    """Raise `StaleObjectError` if the object exists now."""
    if key is None:
        return
    try:
        store.head(key)
    except ObjectNotFoundError:
        return
    raise _changed(key, "was created")


def _identity(stat: ObjectStat) -> tuple[int, str | int]:
    return stat.size, stat.version or stat.modified_ms


def _changed(key: str, what: str) -> StaleObjectError:
    return StaleObjectError(
        f"this object {what} after the repair was planned; nothing was done, plan the repair again", key=key
    )

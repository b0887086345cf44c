"""What a repair does to a bucket: each action first checks that the objects are still as they were when it was planned.

No store deletes "only if unchanged", so between the check and the deletion there is a moment. No writer is at work in it, since repairs
leave young objects alone.
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
    """Deletes an object that is garbage, if there is still no object ``absent``, and ``needed`` are unchanged."""

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
    """Puts the index of a data object that has none, if nothing but ``known`` claims its ledger id (`claimants`) when it lists again.

    Attributes
    ----------
    named
        The managed ledger that it is of because somebody says so, which may hide no partitions; None if an object tells it.

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
        """Put it, and remove it again unless it is then seen that the data object is the same, and nobody wrote the ledger meanwhile."""
        self.require_free(store)
        self.put(store)

    def require_free(self, store: RawStore) -> None:
        """Raise `StaleObjectError` if the data object was replaced, or a ledger of this id came, since the repair was planned.

        Raises `InvalidNameError` if a partition of the topic came that somebody named.
        """
        require_unchanged(store, self.data)
        catalog = self.list_all()
        if self.named is not None:
            require_own_name(catalog, self.named, [self.key.uuid])
        came = claimants(catalog, self.key.ledger_id) - self.known - {self.key.index_key}
        if came:
            reason = "somebody has written this ledger since the repair was planned; plan it again"
            raise StaleObjectError(reason, key=min(came).partition(" ")[0])

    def put(self, store: RawStore) -> None:
        """Put it after `require_free`, which is asked once more then."""
        written = store.writes.put(self.key.index_key, self.content, self.metadata)
        try:
            self.require_free(store)
        except BaseException:
            require_unchanged(store, written)
            store.writes.delete(self.key.index_key)
            raise


@dataclass(frozen=True, slots=True)
class ReplaceIndex:
    """Puts an index in the place of one that cannot be parsed."""

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
                f"the damaged index was deleted, and neither the rebuilt one ({cause}) nor the old one ({error.reason}) could be put; "
                "the data object is whole, and `ledgerfs repair` rebuilds its index when the store takes it"
            )
            raise StoreError(reason, key=self.damaged.key) from cause


@dataclass(frozen=True, slots=True)
class AbortUpload:
    """Ends an abandoned upload."""

    upload: UnfinishedUpload

    name: ClassVar[str] = "abort-upload"
    rank: ClassVar[int] = 1

    def run(self, store: RawStore) -> None:
        """Abort it; its id in the store is never that of another upload."""
        store.writes.end_unfinished(self.upload)


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """Restores the user metadata that a broker looks for.

    It comes last: it gives the object another version, which actions that compare versions would take for a change.
    """

    stat: ObjectStat
    managed_ledger: str
    role: str

    name: ClassVar[str] = "restore-metadata"
    rank: ClassVar[int] = 2

    def run(self, store: RawStore) -> None:
        """Add what is missing to the object's user metadata."""
        head = require_unchanged(store, self.stat)
        completed = completed_user_metadata(head.metadata, self.managed_ledger)
        store.writes.set_metadata(head.stat, {**completed, "role": self.role})


def require_unchanged(store: RawStore, stat: ObjectStat) -> ObjectHead:
    """Return what the store tells of an object now; raises `StaleObjectError` if that differs from ``stat``."""
    try:
        head = store.head(stat.key)
    except ObjectNotFoundError as error:
        raise _changed(stat.key, "is gone") from error
    if _identity(head.stat) != _identity(stat):
        raise _changed(stat.key, "was replaced")
    return head


def require_still_absent(store: RawStore, key: str | None) -> None:
    """Raise `StaleObjectError` if there is such an object by now."""
    if key is None:
        return
    try:
        store.head(key)
    except ObjectNotFoundError:
        return
    raise _changed(key, "is there by now")


def _identity(stat: ObjectStat) -> tuple[int, str | int]:
    return stat.size, stat.version or stat.modified_ms


def _changed(key: str, what: str) -> StaleObjectError:
    return StaleObjectError(
        f"this object {what} since the repair was planned; nothing was done, plan it again", key=key
    )

"""Offloaded ledgers of a living cluster, read from the bucket that the cluster's own metadata names for each, by the bucket's layout."""

from collections.abc import Iterator

from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Names
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptIndexError, ObjectNotFoundError
from ledgerfs.layouts.object_source import ObjectSource, open_layouts
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs_cluster.live_source.offload_places import OffloadPlace, place_of
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading


class OffloadedLedgers:
    """The ledgers in a cluster's buckets. Safe in threads; pickles without its stores."""

    __slots__ = ("_lock", "_reading", "_stores")

    def __init__(self, reading: LiveReading) -> None:
        self._reading = reading
        self._lock = ForkLock()
        self._stores: dict[str, BucketStore] = {}

    def open(self, managed_ledger: str, info: LedgerInfo, context: OffloadContext) -> LedgerReader:
        """Return a reader of an offloaded ledger, of which is read now what tells its size.

        Raises `ObjectNotFoundError` when its objects are not there, `CorruptIndexError` (of another ledger), `CorruptLedgerError`,
        `UnsupportedFormatError` for drivers that ledgerfs does not read, and the errors of the store.
        """
        place = place_of(managed_ledger, info, context, self._reading)
        store = self._store_of(place)
        ref = _ref(store, place)
        if (ref.entries, ref.length) != (info.entries, info.size):
            reason = f"the index tells {ref.entries:,} entries of {ref.length:,} bytes, the cluster {info.entries:,} of {info.size:,}"
            raise CorruptIndexError(reason, key=f"{store.url}/{place.index_key}")
        return ObjectSource(store, place.layout).open_ledger(ref)

    def told(self, managed_ledger: str, info: LedgerInfo, context: OffloadContext) -> tuple[int, int]:
        """Return how many entries, and bytes of them, a ledger has by its objects, whatever its line in the list says; raises as `open`."""
        place = place_of(managed_ledger, info, context, self._reading)
        ref = _ref(self._store_of(place), place)
        return ref.entries, ref.length

    def _store_of(self, place: OffloadPlace) -> BucketStore:
        name = repr((place.url, sorted(place.options.items(), key=repr)))
        with self._lock:
            store = self._stores.get(name)
            if store is None:
                fs, root = filesystem_of(place.url, place.options)
                store = self._stores[name] = BucketStore(open_store(fs, root), identity_of(fs, root))
            return store


def _ref(store: BucketStore, place: OffloadPlace) -> LedgerRef:
    """Return the row that a listing of these two objects alone gives."""
    (layout,) = open_layouts(store, place.layout)
    listing = layout.begin_listing()
    listing.take(list(_stats(store, place)))
    names, places = Names(), Names()
    places.row_of("")
    found = layout.load(listing, None, names, places, None)
    catalog = Catalog.of(names.texts, found.ledgers, {layout.number: found.remains}, None, places.texts)
    for one in found.remains.unreadable():
        raise one.error
    refs = list(catalog.refs())
    if not refs:
        raise ObjectNotFoundError("the ledger's objects are not there any more", key=f"{store.url}/{place.data_key}")
    return refs[0]


def _stats(store: BucketStore, place: OffloadPlace) -> Iterator[ObjectStat]:
    for key in (place.data_key, place.index_key):
        try:
            yield store.head(key).stat
        except ObjectNotFoundError as error:
            if key == place.data_key or place.needs_index:
                raise ObjectNotFoundError("there is no such object", key=f"{store.url}/{error.key}") from error

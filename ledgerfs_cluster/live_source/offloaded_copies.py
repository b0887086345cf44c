"""Offloaded ledgers of a live cluster, read by the bucket's layout from the bucket in each ledger's metadata.

The place of the objects follows from the broker's record, and from the user's options for buckets that have moved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Names
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, ObjectNotFoundError, UnsupportedFormatError
from ledgerfs.forked import ForkLock
from ledgerfs.formats.mapfile.names import MapFileLedger
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.object_source import ObjectSource, open_layouts
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading

_PROTOCOLS = {"aws-s3": "s3", "s3": "s3", "aliyun-oss": "s3", "google-cloud-storage": "gs", "azureblob": "abfs"}
"""{driver, in lower case: fsspec protocol}."""

_FILESYSTEM = "filesystem"
_LOCAL = "file:/"


@dataclass(frozen=True, slots=True)
class OffloadPlace:
    """The objects of one ledger.

    Attributes
    ----------
    url, options
        Of the bucket, or the offloader's base folder, and of its filesystem.
    layout
        The layout of the objects.
    data_key, index_key
        The ledger's two objects.
    needs_index
        Whether reading the ledger requires its index.

    """

    url: str
    options: Mapping[str, Any] = field(repr=False)
    layout: str
    data_key: str
    index_key: str
    needs_index: bool


class OffloadedCopies:
    """The offloaded ledgers of one cluster, in the buckets of their contexts. Thread-safe."""

    __slots__ = ("_lock", "_reading", "_stores")

    def __init__(self, reading: LiveReading) -> None:
        self._reading = reading
        self._lock = ForkLock()
        self._stores: dict[str, BucketStore] = {}

    def reader(self, managed_ledger: str, info: LedgerInfo) -> LedgerReader:
        """Return a reader of an offloaded ledger; reads its index now, to check its size.

        Raises `ObjectNotFoundError` when its objects are not there, `CorruptIndexError` (of another ledger), `CorruptLedgerError`,
        `UnsupportedFormatError` for drivers that ledgerfs does not read, and the errors of the store.
        """
        place = _place_of(managed_ledger, info, self._reading)
        store = self._store_of(place)
        ref = _ref(store, place)
        if (ref.entries, ref.length) != (info.entries, info.size):
            reason = (
                f"the index has {ref.entries:,} entries with {ref.length:,} bytes, but the ledger list has {info.entries:,} "
                f"with {info.size:,}"
            )
            raise CorruptIndexError(reason, key=f"{store.url}/{place.index_key}")
        return ObjectSource(store, place.layout).open_ledger(ref)

    def reported(self, managed_ledger: str, info: LedgerInfo) -> tuple[int, int]:
        """Return entries and bytes of a ledger from its objects, not from the ledger list; raises as `reader`."""
        place = _place_of(managed_ledger, info, self._reading)
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
    """Return the row of a listing of only these two objects."""
    (layout,) = open_layouts(store, place.layout)
    listing = layout.begin_listing()
    listing.take(list(_stats(store, place)))
    names, places = Names(), Names()
    places.row_of("")
    found = layout.load(listing, None, names, places, None)
    catalog = Catalog.of([*names], found.ledgers, {layout.number: found.fragments}, None, [*places])
    for one in found.fragments.unreadable():
        raise one.error
    refs = list(catalog.refs())
    if not refs:
        raise ObjectNotFoundError("the ledger's objects no longer exist", key=f"{store.url}/{place.data_key}")
    return refs[0]


def _stats(store: BucketStore, place: OffloadPlace) -> Iterator[ObjectStat]:
    for key in (place.data_key, place.index_key):
        try:
            yield store.head(key).stat
        except ObjectNotFoundError as error:
            if key == place.data_key or place.needs_index:
                raise ObjectNotFoundError("the object does not exist", key=f"{store.url}/{error.key}") from error


def _place_of(managed_ledger: str, info: LedgerInfo, reading: LiveReading) -> OffloadPlace:
    """Return the place of a ledger's objects; the user's options for the bucket override the broker's record.

    Raises `CorruptLedgerError` for a ledger that is not offloaded completely, or whose context lacks the id of the objects, and
    `UnsupportedFormatError` for drivers that ledgerfs does not read, and for a folder that only the broker's machine can resolve.
    """
    context = info.context
    if context is None or not context.is_complete:
        raise CorruptLedgerError("the offload of the ledger is not complete", key=f"ledger {info.ledger_id}")
    if context.uuid is None:
        raise CorruptLedgerError(
            "the ledger list has the ledger as offloaded, but without the uuid of its objects",
            key=f"ledger {info.ledger_id}",
        )
    driver = (context.driver or context.get("managedLedgerOffloadDriver") or "").lower().replace("_", "-")
    if driver == _FILESYSTEM:
        files = MapFileLedger(managed_ledger, info.ledger_id, context.uuid)
        url = _folder_of(context.get("storageBasePath") or "", reading)
        return OffloadPlace(url, reading.bucket_options, "mapfile", files.data_key, files.index_key, needs_index=False)
    key = LedgerKey(context.uuid, info.ledger_id, is_index=False)
    url, options = _bucket_of(driver, context, reading)
    return OffloadPlace(url, options, "pulsar_blob", key.data_key, key.index_key, needs_index=True)


def _bucket_of(driver: str, context: OffloadContext, reading: LiveReading) -> tuple[str, Mapping[str, Any]]:
    bucket = context.get("bucket") or ""
    elsewhere = reading.bucket_urls.get(bucket)
    if elsewhere is not None:
        return elsewhere, reading.bucket_options
    protocol = _PROTOCOLS.get(driver)
    if protocol is None or not bucket:
        offloader = f"driver {driver!r}" if driver else "an unknown driver"
        reason = f"offloaded with {offloader}, for which ledgerfs cannot find the location; open the bucket or folder by its own URL"
        raise UnsupportedFormatError(reason, key=bucket or None)
    reported: dict[str, Any] = {}
    endpoint, region = context.get("serviceEndpoint"), context.get("region")
    if protocol == "s3" and endpoint:
        reported["endpoint_url"] = endpoint
    if protocol == "s3" and region:
        reported["client_kwargs"] = {"region_name": region}
    return f"{protocol}://{bucket}", {**reported, **reading.bucket_options}


def _folder_of(base: str, reading: LiveReading) -> str:
    """Return the URL of the filesystem offloader's base folder; only Hadoop's configuration can resolve a path without a filesystem."""
    elsewhere = reading.bucket_urls.get(base)
    if elsewhere is not None:
        return elsewhere
    if base.startswith(_LOCAL):
        # Java writes file:/x, and the root as file://, which other programs read as the working directory.
        return f"file:///{base.removeprefix(_LOCAL).lstrip('/')}"
    if "://" in base:
        return base
    reason = (
        f"offloaded into the folder {base!r} of Hadoop's default filesystem, whose address is not in the cluster's metadata; "
        f"set it with the option bucket_urls, such as {{{base!r}: 'hdfs://namenode:9000/…'}}"
    )
    raise UnsupportedFormatError(reason, key=base or None)

"""Offloaded ledgers of a living cluster, read from the bucket that the cluster's own metadata names for each, by the bucket's dialect."""

from collections.abc import Mapping
from typing import Any

from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.dialects.opening import open_dialects
from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, ObjectNotFoundError, UnsupportedFormatError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.dialect import Names
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs.storage.zookeeper.living_cluster import LiveReading

_PROTOCOLS = {"aws-s3": "s3", "s3": "s3", "aliyun-oss": "s3", "google-cloud-storage": "gs", "azureblob": "abfs"}
"""{driver, in lower case: protocol of fsspec}."""


class OffloadedLedgers:
    """The ledgers in a cluster's buckets. Safe in threads; pickles without its stores."""

    __slots__ = ("_lock", "_reading", "_stores")

    def __init__(self, reading: LiveReading) -> None:
        self._reading = reading
        self._lock = ForkLock()
        self._stores: dict[str, BucketStore] = {}

    def open(self, info: LedgerInfo, context: OffloadContext) -> LedgerReader:
        """Return a reader of an offloaded ledger, whose index is read now.

        Raises `ObjectNotFoundError` when its objects are not there, `CorruptIndexError` (of another ledger), `CorruptLedgerError`,
        `UnsupportedFormatError` for drivers that ledgerfs does not read, and the errors of the store.
        """
        store, ref = self._found(info, context)
        if (ref.entries, ref.length) != (info.entries, info.size):
            reason = f"the index tells {ref.entries:,} entries of {ref.length:,} bytes, the cluster {info.entries:,} of {info.size:,}"
            key = LedgerKey(ref.uuid, ref.ledger_id, is_index=True)
            raise CorruptIndexError(reason, key=f"{store.url}/{key.index_key}")
        (dialect,) = open_dialects(store, "pulsar_blob")
        return dialect.open_ledger(ref)

    def told(self, info: LedgerInfo, context: OffloadContext) -> tuple[int, int]:
        """Return how many entries, and bytes of them, a ledger has by its index, whatever its line in the list says; raises as `open`."""
        _, ref = self._found(info, context)
        return ref.entries, ref.length

    def _found(self, info: LedgerInfo, context: OffloadContext) -> tuple[BucketStore, LedgerRef]:
        store = self._store_of(context)
        if context.uuid is None:
            raise CorruptLedgerError(
                "listed as offloaded, without the id of the objects", key=f"ledger {info.ledger_id}"
            )
        return store, _ref(store, LedgerKey(context.uuid, info.ledger_id, is_index=False))

    def _store_of(self, context: OffloadContext) -> BucketStore:
        url, options = place_of(context, self._reading)
        name = repr((url, sorted(options.items(), key=repr)))
        with self._lock:
            store = self._stores.get(name)
            if store is None:
                fs, root = filesystem_of(url, options)
                store = self._stores[name] = BucketStore(open_store(fs, root), identity_of(fs, root))
            return store


def place_of(context: OffloadContext, reading: LiveReading) -> tuple[str, Mapping[str, Any]]:
    """Return the URL of the bucket that an offload context names, and the options of its filesystem; what the user said goes first."""
    bucket = context.get("bucket") or ""
    driver = (context.driver or context.get("managedLedgerOffloadDriver") or "").lower().replace("_", "-")
    elsewhere = reading.bucket_urls.get(bucket)
    if elsewhere is not None:
        return elsewhere, reading.bucket_options
    protocol = _PROTOCOLS.get(driver)
    if protocol is None or not bucket:
        what = f"driver {driver!r}" if driver else "an unknown driver"
        reason = f"offloaded by {what}, whose place ledgerfs cannot tell; open the folder or bucket itself"
        raise UnsupportedFormatError(reason, key=bucket or None)
    told: dict[str, Any] = {}
    endpoint, region = context.get("serviceEndpoint"), context.get("region")
    if protocol == "s3" and endpoint:
        told["endpoint_url"] = endpoint
    if protocol == "s3" and region:
        told["client_kwargs"] = {"region_name": region}
    return f"{protocol}://{bucket}", {**told, **reading.bucket_options}


def _ref(store: BucketStore, key: LedgerKey) -> LedgerRef:
    """Return the row that a listing of these two objects alone gives."""
    (dialect,) = open_dialects(store, "pulsar_blob")
    listing = dialect.begin_listing()
    try:
        listing.take([store.head(name).stat for name in (key.data_key, key.index_key)])
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError("there is no such object", key=f"{store.url}/{error.key}") from error
    names, places = Names(), Names()
    places.row_of("")
    found = dialect.load(listing, None, names, places, None)
    catalog = Catalog.of(names.texts, found.ledgers, {dialect.number: found.remains}, None, places.texts)
    for one in found.remains.unreadable():
        raise one.error
    refs = list(catalog.refs())
    if not refs:
        raise ObjectNotFoundError("the ledger's objects are not there any more", key=f"{store.url}/{key.data_key}")
    return refs[0]

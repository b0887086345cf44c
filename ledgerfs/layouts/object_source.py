"""Open a bucket as a source: objects of a store, whose ledgers may be of several layouts."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.layout import Layout, LedgerCheck, OpenLedger, Progress
from ledgerfs.catalog.layouts_known import AUTO, OF_BUCKETS, layout_rows, register_rows
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.listing import list_bucket
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.source import Source
from ledgerfs.errors import InvalidOptionError, UnsupportedWriteError
from ledgerfs.layouts.mapfile import rows as mapfile_rows
from ledgerfs.layouts.pulsar_blob import rows as pulsar_blob_rows
from ledgerfs.storage.object_store import KeepingStore, RawStore

if TYPE_CHECKING:
    from hashlib import blake2b

register_rows(pulsar_blob_rows)
register_rows(mapfile_rows)


class ObjectSource(Source):
    """A bucket, read in one layout or in all.

    Parameters
    ----------
    store
        The bucket's store, with or without a cache.
    layout
        Name of a layout, or ``auto`` for all of them. Raises `InvalidOptionError` for an unknown one.

    """

    __slots__ = ("_layout", "layouts", "opened_layouts", "store", "traffic")

    what = "a bucket"
    may_trim = False

    def __init__(self, store: BucketStore, layout: str = AUTO) -> None:
        self.store = store
        self.traffic = store.traffic
        self._layout = layout
        self.opened_layouts = open_layouts(store, layout)
        self.layouts = OF_BUCKETS if layout == AUTO else (layout,)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.store, self._layout))

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return self.store.url

    @property
    def raw_store(self) -> RawStore:
        """The store without a cache, with its write side."""
        return self.store.store

    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "ObjectSource":
        """Return the bucket read through its own cache."""
        return ObjectSource(BucketStore(self.raw_store, None, on_change, cache_dir=cache_dir), self._layout)

    def uncached(self) -> "ObjectSource":
        """Return the bucket in every layout, without caches."""
        return ObjectSource(BucketStore(self.raw_store, None, self.store.expire, cache=BlockCache(0)))

    def in_every_layout(self) -> "ObjectSource":
        """Return the bucket in every layout."""
        return self if self._layout == AUTO else ObjectSource(self.store)

    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:
        """List the objects, and read the metadata of ledgers that ``previous`` does not have."""
        return list_bucket(self.store, self.opened_layouts, previous, progress)

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of the ledger's layout; raises `InvalidOptionError` if the bucket is not read in that layout."""
        return self._layout_of(ref).open_ledger(ref)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:
        """Yield the findings of each layout."""
        for layout in self.opened_layouts:
            yield from layout.check_catalog(catalog, open_ledger)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> LedgerCheck:
        """Read a ledger in full, with the check of its layout."""
        return self._layout_of(ledger.ref).check_ledger(ledger, on_read, digest)

    def remarks(self, catalog: Catalog) -> list[Finding]:
        """Return the remarks of each layout."""
        return [finding for layout in self.opened_layouts for finding in layout.remarks(catalog)]

    def require_writable(self) -> None:
        """Raise `UnsupportedWriteError` for a bucket that is read only in layouts that ledgerfs does not write."""
        if not any(layout_rows(one.number).IS_WRITABLE for one in self.opened_layouts):
            reason = "ledgerfs cannot write ledgers in this layout, and the bucket was opened with no other; leave out the option"
            raise UnsupportedWriteError(reason, key=f"layout={self._layout}")

    def _layout_of(self, ref: LedgerRef) -> Layout:
        for layout in self.opened_layouts:
            if layout.number == ref.layout:
                return layout
        reason = "the bucket was opened with another layout than this ledger has"
        raise InvalidOptionError(reason, key=f"layout={layout_rows(ref.layout).NAME}")


def open_layouts(store: KeepingStore, layout: str = AUTO) -> Sequence[Layout]:
    """Return one layout over a store, or all of them for ``auto``; raises `InvalidOptionError` for an unknown one."""
    if layout not in {AUTO, *OF_BUCKETS}:
        raise InvalidOptionError(f"expected one of {', '.join((AUTO, *OF_BUCKETS))}", key=f"layout={layout}")
    return [_open(store, name) for name in OF_BUCKETS if layout in {AUTO, name}]


def _open(store: KeepingStore, name: str) -> Layout:
    # Import only the layout that is used.
    if name == "mapfile":
        from ledgerfs.layouts.mapfile.layout import MapFiles

        return MapFiles(store)
    from ledgerfs.layouts.pulsar_blob.layout import PulsarBlob

    return PulsarBlob(store)

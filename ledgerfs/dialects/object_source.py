"""A bucket as a source: objects of a store, whose ledgers may be of several dialects."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.dialects.mapfile import rows as mapfile_rows
from ledgerfs.dialects.pulsar_blob import rows as pulsar_blob_rows
from ledgerfs.errors import InvalidOptionError, UnsupportedWriteError
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.dialect import Dialect, LedgerCheck, OpenLedger, Progress
from ledgerfs.ledgers.dialects_known import AUTO, OF_BUCKETS, dialect_rows, register_rows
from ledgerfs.ledgers.findings import Finding
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.listing import list_bucket
from ledgerfs.ledgers.reader import LedgerReader, OnRead
from ledgerfs.ledgers.source import Source
from ledgerfs.storage.object_store import KeepingStore, RawStore

if TYPE_CHECKING:
    from hashlib import blake2b

register_rows(pulsar_blob_rows)
register_rows(mapfile_rows)


class ObjectSource(Source):
    """A bucket, read in one dialect or in all.

    Parameters
    ----------
    store
        The bucket's store, with or without a cache.
    dialect
        Name of a dialect, or ``auto`` for all of them. Raises `InvalidOptionError` for an unknown one.

    """

    __slots__ = ("_dialect", "dialects", "opened_dialects", "store", "traffic")

    what = "a bucket"
    may_trim = False

    def __init__(self, store: BucketStore, dialect: str = AUTO) -> None:
        self.store = store
        self.traffic = store.traffic
        self._dialect = dialect
        self.opened_dialects = open_dialects(store, dialect)
        self.dialects = OF_BUCKETS if dialect == AUTO else (dialect,)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.store, self._dialect))

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return self.store.url

    @property
    def raw_store(self) -> RawStore:
        """The store without a cache, with its write side."""
        return self.store.store

    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "ObjectSource":
        """Return the bucket read through a cache that no other one shares."""
        return ObjectSource(BucketStore(self.raw_store, None, on_change, cache_dir=cache_dir), self._dialect)

    def uncached(self) -> "ObjectSource":
        """Return the bucket in every dialect, past all caches."""
        return ObjectSource(BucketStore(self.raw_store, None, self.store.expire, cache=BlockCache(0)))

    def in_every_dialect(self) -> "ObjectSource":
        """Return the bucket in every dialect."""
        return self if self._dialect == AUTO else ObjectSource(self.store)

    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:
        """List the objects, and read the metadata of ledgers that ``previous`` does not have."""
        return list_bucket(self.store, self.opened_dialects, previous, progress)

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:
        """Return a reader of the ledger's dialect; raises `InvalidOptionError` for one that the bucket is not read in."""
        return self._dialect_of(ref).open_ledger(ref, offsets)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:
        """Yield the findings of each dialect."""
        for dialect in self.opened_dialects:
            yield from dialect.check_catalog(catalog, open_ledger)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> LedgerCheck:
        """Read a ledger in full, as its dialect does it."""
        return self._dialect_of(ledger.ref).check_ledger(ledger, on_read, digest)

    def remarks(self, catalog: Catalog) -> list[Finding]:
        """Return the remarks of each dialect."""
        return [finding for dialect in self.opened_dialects for finding in dialect.remarks(catalog)]

    def require_writable(self) -> None:
        """Raise `UnsupportedWriteError` for a bucket that is read only in dialects that ledgerfs does not write."""
        if not any(dialect_rows(one.number).IS_WRITABLE for one in self.opened_dialects):
            reason = "ledgerfs does not write ledgers in this dialect, and others are not looked at; open the bucket without it"
            raise UnsupportedWriteError(reason, key=f"dialect={self._dialect}")

    def _dialect_of(self, ref: LedgerRef) -> Dialect:
        for dialect in self.opened_dialects:
            if dialect.number == ref.dialect:
                return dialect
        reason = "the bucket was opened to be read in another dialect than this ledger's"
        raise InvalidOptionError(reason, key=f"dialect={dialect_rows(ref.dialect).NAME}")


def open_dialects(store: KeepingStore, dialect: str = AUTO) -> Sequence[Dialect]:
    """Return one dialect over a store, or all of them for ``auto``; raises `InvalidOptionError` for an unknown one."""
    if dialect not in {AUTO, *OF_BUCKETS}:
        raise InvalidOptionError(f"the dialects are {', '.join((AUTO, *OF_BUCKETS))}", key=f"dialect={dialect}")
    return [_open(store, name) for name in OF_BUCKETS if dialect in {AUTO, name}]


def _open(store: KeepingStore, name: str) -> Dialect:
    # A dialect is imported only if it is wanted.
    if name == "mapfile":
        from ledgerfs.dialects.mapfile.dialect import MapFiles

        return MapFiles(store)
    from ledgerfs.dialects.pulsar_blob.dialect import PulsarBlob

    return PulsarBlob(store)

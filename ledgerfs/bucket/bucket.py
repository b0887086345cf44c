"""The user's view of a bucket: its topics and ledgers."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from cachetools import LRUCache

from ledgerfs.bucket.catalog_file import max_age_of
from ledgerfs.bucket.current_catalog import CatalogFiles, CurrentCatalog, OnUnreadable
from ledgerfs.bucket.topic import Topic
from ledgerfs.bucket.wanted_topics import named_topic
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import unplaced_text
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.source import Source
from ledgerfs.catalog.topic_infos import TopicInfo, TopicInfos
from ledgerfs.display import names_shown, printable
from ledgerfs.errors import InvalidNameError, InvalidOptionError, UnplacedLedgersWarning, UnsupportedWriteError
from ledgerfs.forked import ForkLock
from ledgerfs.layouts.object_source import ObjectSource
from ledgerfs.scan.options import ScanOptions
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.traffic import TrafficStats

if TYPE_CHECKING:
    from ledgerfs.formats.schemas.schema_versions import TopicSchemas

_T = TypeVar("_T")

_FOR_OTHER_ROOMS = frozenset(
    {"attached", "has_objects", "list_all", "list_to_write", "listed_catalog", "load_to_name_topics", "objects", "raw_store", "reader"}
    | {"readers_of", "schemas_of", "source", "store", "survey", "uncached_reader", "url", "warn_of_unplaced"}
)  # fmt: skip
"""Names that are not part of the public API."""

_READERS = 1024


class ReaderPool:
    """The readers of one bucket; the least recently used are dropped. A replaced object gets a new reader.

    Parameters
    ----------
    open_ledger
        Returns a new reader; costs no request.

    """

    __slots__ = ("_lock", "_open_ledger", "_readers")

    def __init__(self, open_ledger: Callable[[LedgerRef], LedgerReader]) -> None:
        self._open_ledger = open_ledger
        self._readers: LRUCache[LedgerRef, LedgerReader] = LRUCache(_READERS)
        self._lock = ForkLock()

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of ``ref``; costs no request."""
        with self._lock:
            reader = self._readers.get(ref)
            if reader is None:
                reader = self._readers[ref] = self._open_ledger(ref)
        return reader


class Bucket:
    """An opened bucket. The first use loads the catalog, which stays until `refresh`; earlier it sends no request to the store.

    Safe in threads and after a fork; pickles without its catalog.

    Parameters
    ----------
    place
        The store of its objects, or another source of ledgers.
    cache_dir, scan_options, catalog_max_age, layout, on_unreadable
        As in `open_bucket`.
    identity
        Identity of the bucket, for the cached catalog; None for no cache.

    """

    __slots__ = (
        "__weakref__",
        "_attached",
        "_catalog",
        "_lock",
        "_options",
        "_place",
        "_readers",
        "_warned",
        "source",
    )

    def __init__(  # noqa: PLR0917  (pickles pass them by position)
        self,
        place: RawStore | Source,
        cache_dir: str | None = None,
        scan_options: ScanOptions | Mapping[str, Any] | None = None,
        catalog_max_age: float | None = None,
        identity: str | None = None,
        layout: str = AUTO,
        on_unreadable: OnUnreadable = "raise",
    ) -> None:
        files = scan_options if isinstance(scan_options, ScanOptions) else ScanOptions.of(**scan_options or {})
        files.require_of_files()
        if on_unreadable not in {"raise", "skip"}:
            raise InvalidOptionError("expected 'raise' or 'skip'", key=f"on_unreadable={on_unreadable!r}")
        self._place = place
        self._options = (cache_dir, files, catalog_max_age, identity, layout, on_unreadable)
        self.source: Source = self._opened(place, cache_dir, identity, layout)
        catalogs = None
        if identity is not None:
            catalogs = CatalogFiles.of(DiskFiles(cache_folder("files", cache_dir)), identity, self.source)
        self._catalog = CurrentCatalog(self.source, max_age_of(catalog_max_age), catalogs, on_unreadable=on_unreadable)
        self._readers = ReaderPool(self.source.open_ledger)
        self._lock = ForkLock()
        self._attached: dict[object, Any] = {}
        self._warned: tuple[Catalog | None, set[str | None]] = (None, set())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._place, *self._options))

    def _opened(self, place: RawStore | Source, cache_dir: str | None, identity: str | None, layout: str) -> Source:
        if not isinstance(place, Source):
            ranges = None if cache_dir is None else DiskFiles(cache_folder("files", cache_dir))
            return ObjectSource(BucketStore(place, identity, self.expire, ranges, cache_dir=cache_dir), layout)
        if layout != AUTO:
            raise InvalidOptionError(
                f"{place.url} is {place.what}, which has no layouts to choose from", key=f"layout={layout}"
            )
        return place.opened(cache_dir, self.expire)

    def __repr__(self) -> str:
        return f"<bucket {printable(self.url)}>"

    def __dir__(self) -> list[str]:
        return list(names_shown(self, _FOR_OTHER_ROOMS))

    def _repr_html_(self) -> str:
        """Return a table of the topics, if the catalog is loaded; never lists the bucket."""
        catalog = self.listed_catalog
        return TopicInfos([] if catalog is None else catalog.topics(), repr(self))._repr_html_()

    @property
    def identity(self) -> str | None:
        """The bucket's identity in all processes: its URL and a digest (`identity_of`), without credentials.

        None if it has none; such a bucket is not equal to any bucket of another process.
        """
        identity: str | None = self._options[3]
        return identity

    @property
    def cache_dir(self) -> str | None:
        """The folder of the disk cache, as given to `open_bucket`."""
        cache_dir: str | None = self._options[0]
        return cache_dir

    @property
    def scan_options(self) -> ScanOptions:
        """Options of the scans for the tree's table files."""
        scan_options: ScanOptions = self._options[1]
        return scan_options

    @property
    def layout(self) -> str:
        """The layout, as given to `open_bucket`."""
        layout: str = self._options[4]
        return layout

    @property
    def on_unreadable(self) -> OnUnreadable:
        """The handling of objects that the store refuses, as given to `open_bucket`."""
        on_unreadable: OnUnreadable = self._options[5]
        return on_unreadable

    @property
    def catalog(self) -> Catalog:
        """The table of all ledgers; the first use sends a listing, and a GET for each index that is not in the cached catalog."""
        return self.load_catalog()

    def load_catalog(self, progress: Progress | None = None, *, listed: bool = False) -> Catalog:
        """Return the catalog, loaded on first use; calls ``progress`` meanwhile.

        With ``listed``, lists the bucket even if another process has just done so. Raises `NotFoundError` (no such bucket),
        `AccessDeniedError` (also for an unlistable folder in it, which may have ledgers), `StoreError`.
        """
        return self._catalog.load(progress, listed=listed)

    def load_to_name_topics(self, progress: Progress | None = None) -> Catalog:
        """Return the catalog as `load_catalog` does, but only to name topics.

        Warns (`UnplacedLedgersWarning`) of an unlistable folder without known ledgers, instead of raising.
        """
        return self._catalog.load_to_name_topics(progress)

    def refresh(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again and read new and changed indexes; meanwhile other threads use the old catalog.

        Raises as `load_catalog`.
        """
        return self._catalog.refresh(progress)

    def survey(self, progress: Progress | None = None) -> Catalog:
        """List the bucket as `refresh` does, but return the catalog even if folders cannot be listed; use it only for reports."""
        return self._catalog.survey(progress)

    def list_to_write(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again, in every layout, to check what may be written.

        Raises `UnsupportedWriteError` for a bucket that is opened only in layouts that ledgerfs does not write, else as `refresh`.
        """
        return self._catalog.list_to_write(progress)

    def list_all(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again in every layout, not only in the opened one; raises as `refresh`."""
        return self._catalog.list_all(progress)

    @property
    def listed_catalog(self) -> Catalog | None:
        """The catalog that was loaded last, of any age, or None; sends no request. Do not use it for decisions."""
        return self._catalog.last

    @property
    def url(self) -> str:
        """The bucket as a URL, without credentials."""
        return self.source.url

    @property
    def has_objects(self) -> bool:
        """Whether its ledgers are objects of a store."""
        return isinstance(self.source, ObjectSource)

    @property
    def objects(self) -> ObjectSource:
        """Its objects; raises `UnsupportedWriteError` for a source without objects, which cannot store anything."""
        if not isinstance(self.source, ObjectSource):
            raise UnsupportedWriteError(f"ledgerfs cannot write to {self.source.what}", key=self.url)
        return self.source

    @property
    def store(self) -> BucketStore:
        """The store of its objects, with a cache; raises as `objects`."""
        return self.objects.store

    @property
    def raw_store(self) -> RawStore:
        """The underlying store, without a cache, with its write side; raises as `objects`."""
        return self.objects.raw_store

    def expire(self) -> None:
        """Make the next use refresh the catalog."""
        self._catalog.expire()

    def attached(self, make: "Callable[[Bucket], _T]") -> "_T":
        """Return an object that a higher layer attaches to this bucket for its lifetime; calls ``make`` once, on first use."""
        with self._lock:
            if make not in self._attached:
                self._attached[make] = make(self)
            found: _T = self._attached[make]
            return found

    def stats(self) -> TrafficStats:
        """Return this process's counts of requests, bytes, hits and retries through this bucket."""
        return self.source.traffic.stats()

    def topics(self) -> list[TopicInfo]:
        """Return a list of `TopicInfo`, sorted by name; notebooks show it as a table."""
        return TopicInfos(self.catalog.topics(), repr(self))

    def topic(self, name: str) -> "Topic":
        """Return a topic by its name (``persistent://tenant/namespace/topic`` or ``tenant/namespace/topic``).

        For the name of a partitioned topic, returns all partitions as one topic, unless ledgers have exactly that name. Raises
        `NotFoundError`, with the nearest names, if the bucket has no ledger of it, and `InvalidNameError` for an invalid name.
        """
        found = named_topic(self.catalog, name)
        return Topic(self, found.managed_ledger, is_partitioned=found.is_partitioned)

    def ledger(self, ledger_id: int, *, topic: str | None = None, uuid: str | None = None) -> LedgerReader:
        """Return a ledger by its id: the newest complete copy, or the one with ``uuid``.

        Raises `NotFoundError`, `MissingLedgerError` (the ledger is incomplete), and `AmbiguousLedgerError` if several topics have this id
        and ``topic`` is not given.
        """
        managed_ledgers = None if topic is None else self.topic(topic).managed_ledgers
        return self._readers.reader(self.catalog.find(ledger_id, managed_ledgers, uuid))

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of one row of the catalog, of any copy."""
        return self._readers.reader(ref)

    def uncached_reader(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one row of the catalog, in any layout, that reads every byte from the source, without caches."""
        return self.source.uncached().open_ledger(ref)

    def readers_of(self, managed_ledger: str | None, catalog: Catalog) -> list[LedgerReader]:
        """Return the ledgers of one managed ledger in a catalog of this bucket, ascending by id, without further copies."""
        return [self._readers.reader(ref) for ref in catalog.refs_of(managed_ledger) if ref.copy == 0]

    def schemas_of(self, topic: str) -> "TopicSchemas":
        """Read the schemas of a topic: saved in the bucket, given by hand, or those of a live cluster.

        Raises as `ledgerfs.bucket.known_schemas.KnownSchemas.versions`.
        """
        # Imported late, since most reads need no schemas.
        from ledgerfs.bucket.known_schemas import KnownSchemas
        from ledgerfs.formats.schemas.schema_versions import TopicSchemas

        try:
            versions = KnownSchemas(self).versions(topic)
        except InvalidNameError:
            # A managed ledger outside of all topics cannot have schemas.
            versions = ()
        return TopicSchemas.of(versions, are_of_cluster=self.source.keeps_schemas)

    def warn_of_unplaced(self, managed_ledgers: Iterable[str | None], catalog: Catalog) -> None:
        """Warn (`UnplacedLedgersWarning`) of ledgers that may belong to these topics, once for each catalog and topic.

        These are all ledgers of unknown topic (None), and the topics' ledgers that are being written.
        """
        with self._lock:
            if self._warned[0] is not catalog:
                self._warned = (catalog, set())
            names = [name for name in managed_ledgers if name not in self._warned[1]]
            self._warned[1].update(names)
        if not names:
            return
        unplaced, being_written = catalog.unplaced(), catalog.being_written([None, *names])
        if unplaced or being_written:
            warnings.warn(unplaced_text(self.url, unplaced, being_written), UnplacedLedgersWarning, stacklevel=3)

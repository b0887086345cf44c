"""A bucket as a user sees it: topics, ledgers, and the tree."""

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from ledgerfs.cache.block_cache import BlockCache, process_cache
from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_ranges import DiskRanges
from ledgerfs.cache.fork_lock import ForkLock
from ledgerfs.cache.offset_file import shared_offset_file
from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.errors import InvalidNameError, NotFoundError, UnplacedLedgersWarning
from ledgerfs.formats.topic_names import UNKNOWN_DIRECTORY, managed_ledger_of, topic_of
from ledgerfs.vfs.catalog import Catalog, LedgerRef
from ledgerfs.vfs.catalog_file import CatalogFile, max_age_of
from ledgerfs.vfs.layout import BucketLayout, LedgerReader, Progress
from ledgerfs.vfs.missing_ledgers import MissingLedger, unplaced_text
from ledgerfs.vfs.object_store import RawStore
from ledgerfs.vfs.pulsar_blob import PulsarBlobLayout
from ledgerfs.vfs.reader_pool import ReaderPool
from ledgerfs.vfs.scan_options import COUNT_OPTIONS, MESSAGE_OPTIONS, require_known
from ledgerfs.vfs.store_identity import identity_of
from ledgerfs.vfs.stores import open_store
from ledgerfs.vfs.stores.bucket_store import BucketStore
from ledgerfs.vfs.stores.fsspec_handle import FsspecHandle
from ledgerfs.vfs.stores.url_filesystem import filesystem_of
from ledgerfs.vfs.topic_infos import TopicInfo
from ledgerfs.vfs.traffic import TrafficStats
from ledgerfs.vfs.tree import Tree
from ledgerfs.vfs.views import make_views
from ledgerfs.vfs.views.ledger_tables import LedgerTables

if TYPE_CHECKING:
    from ledgerfs.vfs.message_by_id import Message
    from ledgerfs.vfs.scan import Scan

_SHARED_BUCKETS = 16


class Bucket:
    """An opened bucket. Nothing is requested before something is asked for; then the catalog is loaded once and kept until `refresh`.

    Safe in threads and after a fork; pickles without its catalog.

    Parameters
    ----------
    store
        Where its objects are.
    cache_dir, scan_options, catalog_max_age
        As `open_bucket` explains them.
    identity
        What tells the bucket from all others, by which catalog and learned offsets are kept on disk; None where nothing is to be kept.

    """

    __slots__ = (
        "__weakref__",
        "_catalog",
        "_catalog_file",
        "_expired",
        "_is_listed",
        "_layout",
        "_listing",
        "_lock",
        "_max_age",
        "_options",
        "_raw_store",
        "_readers",
        "_tree",
        "_views",
        "_warned",
        "store",
    )

    def __init__(
        self,
        store: RawStore,
        cache_dir: str | None = None,
        scan_options: Mapping[str, Any] | None = None,
        catalog_max_age: float | None = None,
        identity: str | None = None,
    ) -> None:
        self._raw_store = store
        self.store = BucketStore(store, identity, self.expire, _disk_ranges(cache_dir))
        self._options = (cache_dir, dict(scan_options or {}), catalog_max_age, identity)
        self._max_age = max_age_of(catalog_max_age)
        self._layout: BucketLayout = PulsarBlobLayout(self.store)
        self._catalog_file, offsets = None, None
        if identity is not None:
            folder = cache_folder("catalogs", cache_dir)
            self._catalog_file, offsets = CatalogFile(folder, identity), shared_offset_file(folder, identity)
        self._readers = ReaderPool(self._layout, offsets)
        tables = LedgerTables(self, self._options[1])
        self._views = make_views(tables, RenderedFiles(cache_folder("rendered", cache_dir)))
        self._lock = ForkLock()
        self._listing = ForkLock()
        self._catalog: Catalog | None = None
        self._expired = False
        self._is_listed = False
        self._tree: Tree | None = None
        self._warned: tuple[Catalog | None, set[str | None]] = (None, set())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._raw_store, *self._options))

    def __repr__(self) -> str:
        return f"<bucket {self.store.url}>"

    @property
    def identity(self) -> str | None:
        """What tells the bucket from all others, in any process: its URL and a digest (`identity_of`), without credentials.

        None where that cannot be told; such a bucket is no other's equal, and not even its own in another process.
        """
        identity: str | None = self._options[3]
        return identity

    @property
    def catalog(self) -> Catalog:
        """The table of all ledgers; on first use one listing, and one GET for each index that no process has read before."""
        return self.load_catalog()

    def load_catalog(self, progress: Progress | None = None, *, listed: bool = False) -> Catalog:
        """Return the catalog, loading it on first use, with word of how far that is.

        With ``listed`` not one that another process has listed, however young. Raises `NotFoundError` (no such bucket),
        `AccessDeniedError`, `StoreError`.
        """
        known = self._known_catalog(listed=listed)
        if known is not None:
            return known
        with self._listing:
            # Another thread may have listed it meanwhile.
            known = self._known_catalog(listed=listed)
            return self._list(progress) if known is None else known

    def refresh(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again; only indexes that are new or changed are read. Others go on with what was known, until it is done."""
        with self._listing:
            return self._list(progress)

    def _known_catalog(self, *, listed: bool) -> Catalog | None:
        """Return the catalog if it is good enough."""
        with self._lock:
            if self._catalog is None and not (self._expired or listed) and self._max_age > 0:
                self._catalog = self._kept_catalog(self._max_age)
            is_good = self._catalog is not None and not self._expired and (self._is_listed or not listed)
            return self._catalog if is_good else None

    def _list(self, progress: Progress | None) -> Catalog:
        with self._lock:
            listed_ms = int(time.time() * 1000)
            previous = self._kept_catalog() if self._catalog is None else self._catalog
            # What is written while the bucket is listed may not be in the listing.
            self._expired = False
        try:
            catalog = self._layout.load_catalog(previous, progress)
        except BaseException:
            self._expired = True
            raise
        with self._lock:
            self._catalog = catalog
            self._is_listed = True
            self._tree = None
        if self._catalog_file is not None:
            self._catalog_file.save(catalog, listed_ms)
        return catalog

    def _kept_catalog(self, max_age: float | None = None) -> Catalog | None:
        return None if self._catalog_file is None else self._catalog_file.load(max_age)

    @property
    def raw_store(self) -> RawStore:
        """The store itself, with its write side; what it is asked is not kept."""
        return self._raw_store

    def expire(self) -> None:
        """Make the next use refresh the catalog."""
        self._expired = True

    @property
    def tree(self) -> Tree:
        """The tree of views, topics and ledgers."""
        catalog = self.catalog  # not with the lock held, which whoever lists the bucket needs in the end
        with self._lock:
            if self._tree is None or self._tree.catalog is not catalog:
                self._tree = Tree(catalog, self._readers, self._views, self.warn_of_unplaced)
            return self._tree

    def stats(self) -> TrafficStats:
        """Return what was asked of the store through this bucket in this process, and what came of it."""
        return self.store.traffic.stats()

    def topics(self) -> list[TopicInfo]:
        """Return what the bucket holds of each topic, sorted by name."""
        return self.catalog.topics()

    def topic(self, name: str) -> "Topic":
        """Return a topic by its name (``persistent://tenant/namespace/topic`` or ``tenant/namespace/topic``).

        Raises `NotFoundError` when the bucket has no ledger of it, `InvalidNameError` when it is no name of a topic.
        """
        if name == UNKNOWN_DIRECTORY and self.catalog.has(None):
            return Topic(self, None)
        try:
            managed_ledger = managed_ledger_of(name)
        except InvalidNameError:
            managed_ledger = name
        if not self.catalog.has(managed_ledger):
            # A name that is no topic, which is shown as it is; it never hides a topic of the same spelling.
            managed_ledger = name
        if not self.catalog.has(managed_ledger):
            raise NotFoundError("no ledger of this topic in the bucket", key=topic_of(managed_ledger_of(name)))
        return Topic(self, managed_ledger)

    def ledger(self, ledger_id: int, *, topic: str | None = None, uuid: str | None = None) -> LedgerReader:
        """Return a ledger by its id; of several copies the newest complete one, unless ``uuid`` names another.

        Raises `NotFoundError`, `MissingLedgerError` (the bucket knows of it, and has not all of it), and `AmbiguousLedgerError` when
        several topics have such an id and ``topic`` is not given.
        """
        managed_ledgers = None if topic is None else [self.topic(topic).managed_ledger]
        return self._readers.reader(self.catalog.find(ledger_id, managed_ledgers, uuid))

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of one row of the catalog, whichever copy it is."""
        return self._readers.reader(ref)

    def uncached_reader(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of the same that asks the store itself for every byte."""
        store = BucketStore(self._raw_store, None, self.expire, cache=BlockCache(0))
        return PulsarBlobLayout(store).open_ledger(ref)

    def readers_of(self, managed_ledger: str | None) -> list[LedgerReader]:
        """Return the ledgers of one managed ledger, ascending by id, each once."""
        return self._readers_in(self.catalog, managed_ledger)

    def for_reading(self, managed_ledger: str | None) -> tuple[list[LedgerReader], tuple[MissingLedger, ...]]:
        """Return `readers_of`, and what the same catalog knows to be missing; warns as `warn_of_unplaced`."""
        catalog = self.catalog
        self.warn_of_unplaced(managed_ledger, catalog)
        return self._readers_in(catalog, managed_ledger), catalog.missing_of(managed_ledger)

    def warn_of_unplaced(self, managed_ledger: str | None, catalog: Catalog | None = None) -> None:
        """Warn (`UnplacedLedgersWarning`) of ledgers that may be of any topic, once for each catalog and topic."""
        catalog = self.catalog if catalog is None else catalog
        with self._lock:
            if self._warned[0] is not catalog:
                self._warned = (catalog, set())
            if managed_ledger in self._warned[1]:
                return
            self._warned[1].add(managed_ledger)
        unplaced, being_written = catalog.unplaced(), catalog.being_written(managed_ledger)
        if unplaced or being_written:
            warnings.warn(unplaced_text(self.store.url, unplaced, being_written), UnplacedLedgersWarning, stacklevel=3)

    def _readers_in(self, catalog: Catalog, managed_ledger: str | None) -> list[LedgerReader]:
        return [self._readers.reader(ref) for ref in catalog.refs_of(managed_ledger) if ref.copy == 0]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of a bucket."""

    bucket: Bucket
    managed_ledger: str | None

    @property
    def name(self) -> str:
        """``persistent://tenant/namespace/topic``."""
        return topic_of(self.managed_ledger)

    @property
    def ledgers(self) -> list[LedgerReader]:
        """Its ledgers, ascending by id, which is their order in time."""
        return self.bucket.readers_of(self.managed_ledger)

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Ledgers of it that the bucket knows of and cannot deliver, ascending by id."""
        return self.bucket.catalog.missing_of(self.managed_ledger)

    def scan(self, columns: Sequence[str] | None = None, **options: Any) -> "Scan":  # noqa: ANN401  (those of make_scan)
        """Return the topic as a table that streams: iterate it, or hand it to pyarrow, pandas, Polars or DuckDB.

        Parameters
        ----------
        columns
            Names, in the order wanted (`ledgerfs.messages.table_schema`); what is not asked for is not built.
        options
            ``start_time``, ``end_time`` (ISO 8601 text, datetime, or ms; the end is excluded), ``transactions`` ("committed", "readable",
            "all"), ``include_markers``, ``private_keys`` ({name: PEM text or path}), ``on_encrypted`` ("raise", "null", "skip"),
            ``on_corrupt`` ("raise", "skip"), ``check_checksums``, ``max_message_bytes``, ``clock_slack_ms`` (how far a message may
            be published before one that stands before it; 10 minutes).

        The scan raises `MissingLedgerError` before its first row where the topic has ledgers that are `missing`, unless ``on_corrupt`` is
        "skip". Where the bucket has ledgers of which nothing tells the topic, this warns: `UnplacedLedgersWarning`.
        """
        # pyarrow and numba, which this imports, are not needed by those who list and copy.
        from ledgerfs.vfs.scan import make_scan

        ledgers, missing = self.bucket.for_reading(self.managed_ledger)
        return make_scan(self.name, ledgers, missing=missing, columns=columns, **options)

    def count(self, **options: Any) -> int:  # noqa: ANN401  (those of make_scan)
        """Return the number of messages, without building or decompressing any; ``options`` are those of `scan`."""
        require_known(options, COUNT_OPTIONS)
        return self.scan((), **options).count()

    def message(self, message_id: str | tuple[int, ...], **options: Any) -> "Message":  # noqa: ANN401  (those of read_message)
        """Return one message by its id, for the requests that reading its entry costs; more for a chunked message.

        Parameters
        ----------
        message_id
            ``ledger:entry``, ``ledger:entry:index``, or what Pulsar prints, ``ledger:entry:partition`` and
            ``ledger:entry:partition:index``, as text or tuple (`ledgerfs.vfs.message_id`). A chunked message is found by any of its parts,
            and by ``first;last``.
        options
            ``private_keys``, ``on_encrypted``, ``max_message_bytes``, ``check_checksums``, ``include_markers``, as in `scan`.

        Raises
        ------
        NotFoundError
            No such ledger, entry, message of the batch; a marker; a part of a chunked message whose other parts are not near.
        InvalidNameError
            No id, or one of an entry that is a batch of several messages.
        MissingLedgerError
            The ledger is one of those that are `missing`.
        CorruptLedgerError, CorruptMessageError, EncryptedMessageError
            The entry cannot be read.

        """
        # pyarrow and numba, as above.
        from ledgerfs.vfs.message_by_id import read_message

        require_known(options, MESSAGE_OPTIONS)
        return read_message(self, message_id, **options)


def open_bucket(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    cache_dir: str | None = None,
    scan_options: Mapping[str, Any] | None = None,
    catalog_max_age: float | None = None,
    cache_bytes: int | None = None,
) -> Bucket:
    """Open a bucket by any URL that fsspec knows: ``s3://tier``, ``gs://…``, ``abfs://…``, ``file:///…``, a local path.

    Parameters
    ----------
    url
        The bucket, or a folder in it.
    storage_options
        What the URL's filesystem takes, such as ``{"endpoint_url": …, "key": …, "secret": …}`` for s3fs.
    cache_dir
        Folder for what is kept on disk: catalogs, rendered files, and byte ranges of remote objects. None for ``$LEDGERFS_CACHE_DIR``, else
        ``~/.cache/ledgerfs``, then without byte ranges.
    scan_options
        What `Topic.scan` takes, for the tables that are files of the tree: ``{"private_keys": …}``, ``{"transactions": "all"}``, ….
    catalog_max_age
        Seconds for which a listing by any process here is good enough to open the bucket without another one; None for
        ``$LEDGERFS_CATALOG_MAX_AGE``, else 0: the bucket is always listed. `Bucket.refresh` and `verify` list in any case.

    cache_bytes
        What this process may hold of remote objects in memory, for all its buckets together; None leaves it at ``$LEDGERFS_CACHE_BYTES``,
        else a quarter of the memory, at most 1 GiB.

    Raises
    ------
    UnusableUrlError
        No filesystem of that name, or its library is not installed. A bucket that does not exist is told when it is first used.

    """
    if cache_bytes is not None:
        process_cache.resize(cache_bytes)
    fs, root = filesystem_of(os.fspath(url), storage_options or {})
    return Bucket(open_store(fs, root), cache_dir, scan_options, catalog_max_age, identity_of(fs, root))


def _disk_ranges(cache_dir: str | None) -> DiskRanges | None:
    """Return where byte ranges are kept on disk: only in a folder that was asked for."""
    return None if cache_dir is None else DiskRanges(cache_folder("ranges", cache_dir).path)


def shared_bucket(
    fs: Any,  # noqa: ANN401  (fsspec is not typed)
    root: str,
    cache_dir: str | None = None,
    scan_options: Mapping[str, Any] | None = None,
    catalog_max_age: float | None = None,
) -> Bucket:
    """Return the bucket over a folder of an fsspec filesystem, the same one for the same arguments in this process.

    fsspec makes an instance of our filesystem for each thread; they share one catalog by this.
    """
    handle = FsspecHandle.of(fs)
    options = (sorted(handle.options.items()), cache_dir, sorted((scan_options or {}).items()), catalog_max_age)
    arguments = (handle.cls, repr(handle.args), repr(options), root)
    with _shared_lock:
        bucket = _shared.get(arguments)
        if bucket is None:
            bucket = Bucket(open_store(fs, root), cache_dir, scan_options, catalog_max_age, identity_of(fs, root))
            _shared[arguments] = bucket
        return bucket


_shared: "LRUCache[tuple[type, str, str, str], Bucket]" = LRUCache(_SHARED_BUCKETS)
_shared_lock = ForkLock()

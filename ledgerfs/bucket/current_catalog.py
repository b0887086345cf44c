"""The catalog of an opened bucket: listed on first use, cached in memory and on disk, listed again when it expires."""

import time
import warnings
from dataclasses import replace
from typing import Literal, NamedTuple

from ledgerfs.bucket.catalog_file import CatalogFile
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import closed_text, refused_text
from ledgerfs.catalog.source import Source
from ledgerfs.errors import UnplacedLedgersWarning, UnreadableObjectsWarning
from ledgerfs.forked import ForkLock
from ledgerfs.layouts.object_source import ObjectSource

OnUnreadable = Literal["raise", "skip"]


class CatalogFiles(NamedTuple):
    """The cached catalogs of a bucket: the one for reads, and the one of all layouts for writers."""

    current: CatalogFile
    whole: CatalogFile

    @classmethod
    def of(cls, files: DiskFiles, identity: str, source: Source) -> "CatalogFiles":
        """Return the files of a source, by the layouts in which it is read."""
        whole = _in_every_layout(source).layouts
        return cls(CatalogFile(files, identity, source.layouts), CatalogFile(files, identity, whole))


class CurrentCatalog:
    """The catalog of one bucket, in its opened layouts. Safe in threads and after a fork.

    Parameters
    ----------
    source
        The source to list.
    max_age
        Maximum age of another process's listing, s.
    files
        The cached catalogs; None for no disk cache.
    on_unreadable
        ``skip`` omits objects that the store refuses, with a warning; ``raise`` raises its error.

    """

    __slots__ = (
        "_catalog",
        "_expired",
        "_files",
        "_is_listed",
        "_listing",
        "_lock",
        "_max_age",
        "_on_unreadable",
        "_source",
        "_whole",
    )

    def __init__(
        self,
        source: Source,
        max_age: float,
        files: CatalogFiles | None,
        *,
        on_unreadable: OnUnreadable = "raise",
    ) -> None:
        self._source = source
        self._max_age = max_age
        self._on_unreadable = on_unreadable
        self._files = files
        self._lock = ForkLock()
        self._listing = ForkLock()
        self._catalog: Catalog | None = None
        self._whole: Catalog | None = None
        self._expired = False
        self._is_listed = False

    @property
    def last(self) -> Catalog | None:
        """The catalog that was loaded last, of any age, or None."""
        return self._catalog

    def expire(self) -> None:
        """Make the next use list the bucket."""
        self._expired = True

    def load(self, progress: Progress | None = None, *, listed: bool = False) -> Catalog:
        """Return the catalog, loaded on first use; with ``listed``, do not use another process's listing.

        Raises `NotFoundError` (no such bucket), `AccessDeniedError` (also for a folder that may have ledgers), `StoreError`.
        """
        known = self._known(listed=listed)
        if known is not None:
            return known
        with self._listing:
            # Another thread may have listed the bucket meanwhile.
            known = self._known(listed=listed)
            return self._list(progress) if known is None else known

    def load_to_name_topics(self, progress: Progress | None = None) -> Catalog:
        """Return the catalog as `load` does, but only warn of unlistable folders without known ledgers.

        Do not read or write by this catalog: topics may have ledgers in these folders.
        """
        known = self._known(listed=False)
        if known is not None:
            return known
        with self._listing:
            catalog = self._survey(progress)
        if catalog.skips_refused or not catalog.closed or replace(catalog, closed=()).refused():
            return self._checked(catalog)
        warnings.warn(closed_text(self._source.url, catalog.closed), UnplacedLedgersWarning, stacklevel=2)
        return catalog

    def refresh(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again; meanwhile other threads use the old catalog; raises as `load`."""
        with self._listing:
            return self._list(progress)

    def survey(self, progress: Progress | None = None) -> Catalog:
        """List the bucket as `refresh` does, but return the catalog even if the store refused folders or objects."""
        with self._listing:
            return self._survey(progress)

    def list_to_write(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again, in every layout, to check what may be written.

        Raises as `Source.require_writable`, otherwise as `load`.
        """
        self._source.require_writable()
        return self.list_all(progress)

    def list_all(self, progress: Progress | None = None) -> Catalog:
        """List the bucket again, in every layout; raises as `load`, also for objects that reads may skip."""
        whole = _in_every_layout(self._source)
        if whole is self._source:
            with self._listing:
                catalog = self._survey(progress)
                catalog.require_writable()
                return catalog
        with self._listing:
            listed_ms = _now_ms()
            # The next read lists the opened layouts again.
            self.expire()
            if self._whole is None and self._files is not None:
                self._whole = self._files.whole.load()
            catalog = whole.list_ledgers(self._whole, progress)
            catalog.require_writable()
            self._whole = catalog
            if self._files is not None and catalog.is_complete:
                self._files.whole.save(catalog, listed_ms)
            return catalog

    def _known(self, *, listed: bool) -> Catalog | None:
        """Return the catalog if it has not expired."""
        with self._lock:
            if self._catalog is None and not (self._expired or listed) and self._max_age > 0:
                kept = self._kept(self._max_age)
                self._catalog = None if kept is None else self._as_read(kept)
            is_good = self._catalog is not None and not self._expired and (self._is_listed or not listed)
            return self._catalog if is_good else None

    def _list(self, progress: Progress | None) -> Catalog:
        return self._checked(self._survey(progress))

    def _checked(self, catalog: Catalog) -> Catalog:
        """Return a catalog for readers; raises for objects that the store refused, or warns if readers skip them."""
        if not catalog.skips_refused:
            catalog.require_readable()
        elif refused := catalog.refused():
            warnings.warn(refused_text(self._source.url, refused), UnreadableObjectsWarning, stacklevel=2)
            with self._lock:
                self._catalog, self._is_listed, self._expired = catalog, True, False
        return catalog

    def _survey(self, progress: Progress | None) -> Catalog:
        with self._lock:
            listed_ms = _now_ms()
            previous = self._kept() if self._catalog is None else self._catalog
            # A listing may lack objects that are written meanwhile.
            self._expired = False
        try:
            catalog = self._as_read(self._source.list_ledgers(previous, progress))
        except BaseException:
            self._expired = True
            raise
        if catalog.refused():
            self._expired = True
            return catalog
        with self._lock:
            self._catalog = catalog
            self._is_listed = True
        if self._files is not None and catalog.is_complete:
            self._files.current.save(catalog, listed_ms)
        return catalog

    def _as_read(self, catalog: Catalog) -> Catalog:
        return replace(catalog, skips_refused=self._on_unreadable == "skip")

    def _kept(self, max_age: float | None = None) -> Catalog | None:
        return None if self._files is None else self._files.current.load(max_age)


def _in_every_layout(source: Source) -> Source:
    return source.in_every_layout() if isinstance(source, ObjectSource) else source


def _now_ms() -> int:
    return int(time.time() * 1000)

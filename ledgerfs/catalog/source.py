"""The seam above storage: a place that has ledgers. A bucket is one source; packages plug in others, by URL scheme.

An entry point of the group ``ledgerfs.sources`` names a `SourceScheme` by its URL scheme. fsspec knows the same scheme
(``fsspec.specs``), so that its URL can stand wherever a bucket's does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.layout import LedgerCheck, OpenLedger, Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.tail import Tail
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.plugins import plugged_in
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from hashlib import blake2b


GROUP = "ledgerfs.sources"


class Source(ABC):
    """A place that has ledgers, read only. Safe in threads and after a fork; pickles without what `opened` gave it.

    Attributes
    ----------
    traffic
        The counts of this process's requests.
    what
        What the place is, in words.
    layouts
        Names of the layouts that it is read in; catalogs on disk are kept by them.
    keeps_schemas
        Whether the place itself has the schemas of its topics; otherwise they are saved beside a bucket, or unknown.
    may_trim
        Whether ledgers may leave their topics there at any time.

    """

    __slots__ = ()

    traffic: Traffic
    what: ClassVar[str]
    layouts: tuple[str, ...]
    keeps_schemas: ClassVar[bool] = False
    may_trim: ClassVar[bool] = True

    @property
    @abstractmethod
    def url(self) -> str:
        """The place as a URL, without credentials."""

    @abstractmethod
    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "Source":
        """Return the same source for one bucket; nothing is asked yet.

        ``cache_dir`` is the user's folder for what is kept on disk, and ``on_change`` is called when the place has changed since it was
        listed.
        """

    @abstractmethod
    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:
        """Return the catalog of all ledgers as they are now; what is unchanged since ``previous`` need not be read again.

        Raises `BucketNotFoundError` (no such place), `AccessDeniedError`, `StoreError`; damage raises nothing.
        """

    @abstractmethod
    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader; it sends no request before it is used."""

    def uncached(self) -> "Source":
        """Return a source whose readers ask the place itself for every byte."""
        return self

    @abstractmethod
    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterable[Finding]:
        """Yield the findings of the catalog alone; reads no entries."""

    @abstractmethod
    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> LedgerCheck:
        """Read a ledger in full; ``on_read`` is called as bytes are read, ``digest`` is updated with the records of a whole ledger."""

    def remarks(self, catalog: Catalog) -> Iterable[Finding]:  # noqa: ARG002
        """Return remarks on the place, after all ledgers were read in full."""
        return ()

    def tail(self, managed_ledger: str | None) -> Tail | None:  # noqa: ARG002
        """Return what looks at the end of a topic again and again; None where only whole ledgers come."""
        return None

    def schema_versions(self, topic: str) -> tuple[SchemaVersion, ...]:  # noqa: ARG002
        """Return the versions of a topic's schema that the place itself has, ascending by number, read now.

        Raises `InvalidNameError` for a name that cannot have any, and the errors of the place.
        """
        return ()

    def schema_topics(self) -> Sequence[str]:
        """Return the names of the topics of which `schema_versions` returns any, sorted."""
        return ()

    def require_writable(self) -> None:
        """Raise `UnsupportedWriteError` unless ledgers can be written here."""
        raise UnsupportedWriteError(f"nothing is written to {self.what} here", key=self.url)

    def uuid_of_copy(self, ref: LedgerRef) -> str | None:
        """Return the uuid that a copy of a ledger keeps; None for a new one."""
        return ref.uuid

    def created_ms_of(self, ref: LedgerRef) -> int | None:
        """Return when a ledger was made, read from its metadata where listings have no such time."""
        return ref.created_ms

    def require_copyable(self, ref: LedgerRef, managed_ledger: str | None, state: int | None) -> None:  # noqa: B027
        """Raise `RefusedLedgerError` for a ledger that would mean something else in a bucket.

        ``managed_ledger`` and ``state`` are those of its own metadata.
        """


class SourceScheme(ABC):
    """A URL scheme of sources. What is imported with it is little; the source itself is imported by `source`."""

    @abstractmethod
    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the source that a filesystem of fsspec with this scheme names; nothing is asked yet. Raises `InvalidOptionError`."""

    def url_of(self, paths: Sequence[str], options: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """Return the URL of some absolute paths of this machine that are a place of this kind; None if they are not."""
        return None

    def options_of_task(self, options: Mapping[str, Any], rate: int | None, tasks: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the options for one of ``tasks`` tasks that may run at once and read ``rate`` bytes a second of each server together."""
        return options

    def most_tasks(self, connections: int | None) -> int | None:  # noqa: ARG002
        """Return into how many tasks a query may be cut whose tasks have ``connections`` to each server; None for any number."""
        return None


def scheme_of(url: str) -> SourceScheme | None:
    """Return the scheme of a URL that names a source; None for a bucket's."""
    return _loaded(url.partition("://")[0]) if "://" in url else None


def scheme_of_filesystem(fs: Any) -> SourceScheme | None:  # noqa: ANN401  (fsspec is not typed)
    """Return the scheme of a filesystem of fsspec that names a source; None for one with files."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return next((found for found in map(_loaded, names) if found is not None), None)


def url_of_paths(paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
    """Return the URL of the source that some absolute paths are; None for folders."""
    found = (scheme.url_of(paths, options) for scheme in map(_loaded, plugged_in(GROUP)) if scheme is not None)
    return next((url for url in found if url is not None), None)


@cache
def _loaded(name: str) -> SourceScheme | None:
    entry = plugged_in(GROUP).get(name)
    scheme: SourceScheme | None = None if entry is None else entry.load()()
    return scheme

"""The interface of sources of ledgers. A bucket is one source; packages plug in others, by URL scheme.

An entry point of the group ``ledgerfs.sources`` registers a `SourceScheme` under its URL scheme. The scheme is also registered with fsspec
(``fsspec.specs``), so its URLs work wherever a bucket's do.
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
    """A read-only source of ledgers. Safe in threads and after a fork; a pickle omits the arguments of `opened`.

    Attributes
    ----------
    traffic
        The counts of this process's requests.
    what
        A description of the source, for messages.
    layouts
        Names of its opened layouts; part of the key of cached catalogs.
    keeps_schemas
        Whether the source itself has the schemas of its topics; otherwise they are saved beside a bucket, or unknown.
    may_trim
        Whether its topics may lose ledgers at any time.

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
        """The source as a URL, without credentials."""

    @abstractmethod
    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "Source":
        """Return the same source for one bucket, without a request.

        ``cache_dir`` is the user's folder of the disk cache; the source calls ``on_change`` if it has changed since the listing.
        """

    @abstractmethod
    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:
        """Return the current catalog of all ledgers; does not have to read again what is unchanged since ``previous``.

        Raises `BucketNotFoundError` (no such source), `AccessDeniedError`, `StoreError`; damage does not raise.
        """

    @abstractmethod
    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader, which sends its first request on first use."""

    def uncached(self) -> "Source":
        """Return a source whose readers bypass all caches."""
        return self

    @abstractmethod
    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterable[Finding]:
        """Yield the findings from the catalog, without reading entries."""

    @abstractmethod
    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> LedgerCheck:
        """Read a ledger in full; calls ``on_read`` during the read, and updates ``digest`` with the records of a whole ledger."""

    def remarks(self, catalog: Catalog) -> Iterable[Finding]:  # noqa: ARG002
        """Return remarks on the source, after a full read of all ledgers."""
        return ()

    def tail(self, managed_ledger: str | None) -> Tail | None:  # noqa: ARG002
        """Return a `Tail`, which follows the end of a topic; None if the source gets only whole ledgers."""
        return None

    def schema_versions(self, topic: str) -> tuple[SchemaVersion, ...]:  # noqa: ARG002
        """Read the source's own versions of a topic's schema, ascending by number.

        Raises `InvalidNameError` for a name that cannot have schemas, and the errors of the source.
        """
        return ()

    def schema_topics(self) -> Sequence[str]:
        """Return the names of topics with `schema_versions`, sorted."""
        return ()

    def require_writable(self) -> None:
        """Raise `UnsupportedWriteError` unless ledgers can be written to this source."""
        raise UnsupportedWriteError(f"ledgerfs cannot write to {self.what}", key=self.url)

    def uuid_of_copy(self, ref: LedgerRef) -> str | None:
        """Return the uuid for a copy of a ledger; None for a new one."""
        return ref.uuid

    def created_ms_of(self, ref: LedgerRef) -> int | None:
        """Return the creation of a ledger; reads its metadata if listings do not contain the time."""
        return ref.created_ms

    def require_copyable(self, ref: LedgerRef, managed_ledger: str | None, state: int | None) -> None:  # noqa: B027
        """Raise `RefusedLedgerError` for a ledger whose meaning would change in a bucket.

        ``managed_ledger`` and ``state`` are from its own metadata.
        """


class SourceScheme(ABC):
    """A URL scheme of sources. Keep its imports small; `source` imports the source itself."""

    @abstractmethod
    def source(self, fs: Any, root: str) -> Source:  # noqa: ANN401  (fsspec is not typed)
        """Return the source of an fsspec filesystem with this scheme, without a request. Raises `InvalidOptionError`."""

    def url_of(self, paths: Sequence[str], options: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """Return the URL of some absolute local paths that are such a source; None if they are not."""
        return None

    def options_of_task(self, options: Mapping[str, Any], rate: int | None, tasks: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the options for one of ``tasks`` concurrent tasks that together read ``rate`` bytes a second from each server."""
        return options

    def most_tasks(self, connections: int | None) -> int | None:  # noqa: ARG002
        """Return the largest number of tasks for a query with ``connections`` to each server; None for any number."""
        return None


def scheme_of(url: str) -> SourceScheme | None:
    """Return the scheme of a source's URL; None for a bucket's."""
    return _loaded(url.partition("://")[0]) if "://" in url else None


def scheme_of_filesystem(fs: Any) -> SourceScheme | None:  # noqa: ANN401  (fsspec is not typed)
    """Return the scheme of a source's fsspec filesystem; None for a filesystem with files."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return next((found for found in map(_loaded, names) if found is not None), None)


def url_of_paths(paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
    """Return the URL of a source at some absolute paths; None for plain folders."""
    found = (scheme.url_of(paths, options) for scheme in map(_loaded, plugged_in(GROUP)) if scheme is not None)
    return next((url for url in found if url is not None), None)


@cache
def _loaded(name: str) -> SourceScheme | None:
    entry = plugged_in(GROUP).get(name)
    scheme: SourceScheme | None = None if entry is None else entry.load()()
    return scheme

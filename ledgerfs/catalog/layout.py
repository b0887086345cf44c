"""The interface of layouts. Higher layers use only `Catalog`, `LedgerRef`, `LedgerReader` and findings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.fragments import Fragments
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.repairs import Repair
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat

Progress = Callable[[str, int, int | None], None]
"""Called with (step, amount done, total amount or None)."""

OpenLedger = Callable[[LedgerRef], LedgerReader]
"""Returns the reader of a row of the catalog."""


class Names(dict[Any, int]):
    """{text of a new catalog: its row}, in order of insertion; the texts are managed ledgers, or places."""

    def row_of(self, text: str | None) -> int:
        """Return the row of a text; add a new text."""
        return self.setdefault(text, len(self))


class Listing(Protocol):
    """Collects the objects of one layout from the pages of a listing."""

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take the objects of this layout; return the rest."""
        ...

    def may_be_behind(self, key: str) -> bool:
        """Return whether the folder that a link leads to may have ledgers of this layout, by the link's position among taken objects."""
        ...


class FoundLedgers(NamedTuple):
    """The rows of `LEDGER` that a layout found (names and places are rows of `Names`), and its other objects."""

    ledgers: Table
    fragments: Fragments


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """A request for repairs.

    Attributes
    ----------
    store
        The bucket's store, without a cache.
    catalog
        A new listing in every layout; a cached catalog is not safe for repairs.
    list_all
        Lists the bucket again, in every layout, for repairs that check again when they run.
    layouts
        Numbers of the opened layouts; their readers do not see copies in other ones.
    open_ledger
        Returns a reader, of any layout, that reads every byte from the store, without caches.
    managed_ledger
        The user's name for the managed ledger of ledgers whose topic is unknown; None without one.
    ledgers
        The ledger ids to check; None for all.
    older_than_ms, now_ms
        Age from which on an object is no longer being written, and the time of the request.
    metadata
        Whether to read the user metadata of every object, with a request for each.

    """

    store: RawStore
    catalog: Catalog
    list_all: Callable[[], Catalog]
    layouts: frozenset[int]
    open_ledger: OpenLedger
    managed_ledger: str | None
    ledgers: frozenset[int] | None
    older_than_ms: int
    now_ms: int
    metadata: bool
    progress: Progress | None


class LedgerCheck(Protocol):
    """The result of reading one ledger in full."""

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        ...

    @property
    def findings(self) -> Sequence[Finding]:
        """Its findings."""
        ...

    @property
    def entries(self) -> int:
        """Number of entries read."""
        ...

    @property
    def bytes(self) -> int:
        """Number of bytes read from the store."""
        ...

    @property
    def digest(self) -> blake2b | None:
        """The given digest after all records; None without one."""
        ...

    @property
    def schema_versions(self) -> AbstractSet[int]:
        """The schema versions that its messages refer to."""
        ...


class Layout(Protocol):
    """One layout over one bucket."""

    @property
    def number(self) -> int:
        """Its number (`ledgerfs.catalog.layouts_known.LayoutRows.NUMBER`)."""
        ...

    @property
    def is_in_folders(self) -> bool:
        """Whether folders of the bucket may have ledgers, so that they must be listed."""
        ...

    def begin_listing(self) -> Listing:
        """Return a collector for the pages of a listing."""
        ...

    def kind_of_other(self, key: str) -> str | None:
        """Return this layout's name for the kind of a key outside of all ledgers; None if it is unknown."""
        ...

    def load(
        self,
        listing: Any,  # noqa: ANN401
        previous: Catalog | None,
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Return the ledgers of a listing from `begin_listing`; does not read ledgers again that are unchanged in ``previous``."""
        ...

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog, completed by this layout's other objects where that needs all ledgers of the bucket."""
        ...

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of `GAP` for missing ledgers with objects of this layout; ``now_ms`` is the time of the listing."""
        ...

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader, which sends its first request on first use."""
        ...

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterable[Finding]:
        """Yield the findings from listing and catalog, without reading entries."""
        ...

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: blake2b | None = None) -> LedgerCheck:
        """Read a ledger in full; calls ``on_read`` during the read, and updates ``digest`` with the records of a whole ledger."""
        ...

    def remarks(self, catalog: Catalog) -> Iterable[Finding]:
        """Yield remarks on the bucket, after a full read of all ledgers."""
        ...

    @property
    def repaired_kinds(self) -> frozenset[str]:
        """The kinds of findings that `repairs` covers completely."""
        ...

    def repairs(self, request: RepairRequest) -> Iterable[Repair]:
        """Yield the defects of the bucket's objects with their repairs; changes nothing."""
        ...

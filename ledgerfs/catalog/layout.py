"""How ledgers lie in a bucket. All rooms above know only `Catalog`, `LedgerRef`, `LedgerReader` and findings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.remains import Remains
from ledgerfs.catalog.repairs import Repair
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat

Progress = Callable[[str, int, int | None], None]
"""Called as (the step, how much of it is done, how much there is or None)."""

OpenLedger = Callable[[LedgerRef], LedgerReader]
"""Returns the reader of a row of the catalog."""


class Names(dict[Any, int]):
    """{text of a catalog that is being made: its row}, in the order they came; the texts are managed ledgers, or places."""

    def row_of(self, text: str | None) -> int:
        """Return the row of a text, which is added if it is new."""
        return self.setdefault(text, len(self))


class Listing(Protocol):
    """The objects of one layout in a listing, taken as its pages come."""

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take the objects of this layout; return the rest."""
        ...

    def may_be_behind(self, key: str) -> bool:
        """Whether ledgers of this layout may be in the folder that a link leads to, by the link's place among what was taken."""
        ...


class FoundLedgers(NamedTuple):
    """The rows of `LEDGER` that a layout found, whose names and places are rows of the given `Names`, and its other objects."""

    ledgers: Table
    remains: Remains


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What a user wants to repair.

    Attributes
    ----------
    store
        The bucket's store, without a cache.
    catalog
        The bucket as it was listed just now, in every layout: no repair is decided by a kept catalog.
    list_all
        Lists the bucket once more, in every layout, for repairs that look again when they are carried out.
    layouts
        Numbers of the layouts that the bucket is read in: who reads it so sees no copy in another one.
    open_ledger
        Returns a reader, of any layout, that asks the store itself for every byte.
    managed_ledger
        The user's name for the managed ledger of ledgers whose topic is unknown; None without one.
    ledgers
        The ledger ids to look at; None for all.
    older_than_ms, now_ms
        Age from which on an object is not being written any more, and the time of the request.
    metadata
        Whether to ask for the user metadata of every object, with a request for each.

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
        """The findings in it."""
        ...

    @property
    def entries(self) -> int:
        """How many entries were read."""
        ...

    @property
    def bytes(self) -> int:
        """How many bytes of the store were read."""
        ...

    @property
    def digest(self) -> blake2b | None:
        """The digest of all records, if one was given."""
        ...

    @property
    def schema_versions(self) -> AbstractSet[int]:
        """The versions of its topic's schema that its messages name."""
        ...


class Layout(Protocol):
    """One layout, over one bucket."""

    @property
    def number(self) -> int:
        """Its number (`ledgerfs.catalog.layouts_known.LayoutRows.NUMBER`)."""
        ...

    @property
    def is_in_folders(self) -> bool:
        """Whether ledgers may be in folders of the bucket: then these are listed, too."""
        ...

    def begin_listing(self) -> Listing:
        """Return the object that takes the pages of a listing."""
        ...

    def kind_of_other(self, key: str) -> str | None:
        """Return the kind of a key that belongs to no ledger, in a word of this layout; None if it is unknown."""
        ...

    def load(
        self,
        listing: Any,  # noqa: ANN401
        previous: Catalog | None,
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Return the ledgers of a listing that `begin_listing` made; those that are unchanged in ``previous`` are not read again."""
        ...

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog, completed by this layout's remains where that needs all ledgers of the bucket."""
        ...

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield the missing ledgers that this layout's objects show, as rows of `GAP`; ``now_ms`` is the time of the listing."""
        ...

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader; it sends no request before it is used."""
        ...

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterable[Finding]:
        """Yield the findings of listing and catalog alone; reads no entries."""
        ...

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: blake2b | None = None) -> LedgerCheck:
        """Read a ledger in full; ``on_read`` is called as bytes are read, ``digest`` is updated with the records of a whole ledger."""
        ...

    def remarks(self, catalog: Catalog) -> Iterable[Finding]:
        """Yield remarks on the bucket, after all ledgers were read in full."""
        ...

    @property
    def repaired_kinds(self) -> frozenset[str]:
        """The kinds of findings that `repairs` covers completely."""
        ...

    def repairs(self, request: RepairRequest) -> Iterable[Repair]:
        """Yield what is wrong with the objects in the bucket, each with its repair; changes nothing."""
        ...

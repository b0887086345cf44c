"""The seam between dialects: how ledgers lie in a bucket. All above it knows only `Catalog`, `LedgerRef`, `LedgerReader` and findings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_rows import Table
from ledgerfs.ledgers.findings import Finding
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader, OnRead
from ledgerfs.ledgers.remains import Remains
from ledgerfs.ledgers.repairs import Repair
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat

Progress = Callable[[str, int, int | None], None]
"""Called as (what is being done, how much of it is done, how much there is or None)."""

OpenLedger = Callable[[LedgerRef], LedgerReader]
"""Returns the reader of a row of the catalog."""


@dataclass(slots=True)
class Names:
    """Texts of a catalog that is being made (managed ledgers, or places), each once, in the order seen."""

    texts: list[Any] = field(default_factory=list)
    _rows: dict[Any, int] = field(default_factory=dict)

    def row_of(self, text: str | None) -> int:
        """Return the row of a text, which is added if need be."""
        row = self._rows.setdefault(text, len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        return row


class Listing(Protocol):
    """What one dialect makes of a listing as its pages come."""

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take what is this dialect's; return the rest."""
        ...

    def may_be_behind(self, key: str) -> bool:
        """Whether ledgers of this dialect may be in the folder that a link leads to, by the link's place among what was taken."""
        ...


class FoundLedgers(NamedTuple):
    """What a dialect found: rows of `LEDGER`, whose names and places are rows of the `Names` that it was given, and what else there is."""

    ledgers: Table
    remains: Remains


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What a user wants repaired.

    Attributes
    ----------
    store
        Where the bucket's objects are, without a cache.
    catalog
        The bucket as it was listed just now: nothing is ever decided by what was known of it.
    open_ledger
        Returns a reader that asks the store itself for every byte.
    managed_ledger
        Of ledgers whose topic nothing tells, as the user says it; None where nobody does.
    ledgers
        The ledger ids that are looked at; None for all.
    older_than_s
        How old an object has to be before nobody may be about to go on with it.
    metadata
        Whether the user metadata of every object is asked for, a request each.

    """

    store: RawStore
    catalog: Catalog
    open_ledger: OpenLedger
    managed_ledger: str | None
    ledgers: Collection[int] | None
    older_than_s: float
    metadata: bool
    progress: Progress | None


class LedgerCheck(Protocol):
    """What was found in one ledger that was read in full."""

    @property
    def ref(self) -> LedgerRef:
        """The ledger."""
        ...

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong with it."""
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
        """Of all records, where one was given."""
        ...


class Dialect(Protocol):
    """One dialect, over one bucket."""

    @property
    def number(self) -> int:
        """Its number in `ledgerfs.ledgers.dialects_known`."""
        ...

    @property
    def is_in_folders(self) -> bool:
        """Whether ledgers may be in folders of the bucket, so that these are listed as well."""
        ...

    def begin_listing(self) -> Listing:
        """Return what takes the pages of a listing."""
        ...

    def kind_of_other(self, key: str) -> str | None:
        """Return what a key is that is no ledger's, in a word of this dialect; None for what it does not know."""
        ...

    def load(
        self,
        listing: Any,  # noqa: ANN401
        previous: Catalog | None,
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Return the ledgers of a listing that `begin_listing` made; what ``previous`` knows of unchanged ones is not asked for again."""
        ...

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog with what only can be told of this dialect's remains when all ledgers of the bucket are known."""
        ...

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield what is missing by what this dialect left, as rows of `GAP`; ``now_ms`` is the time of the listing, ms since 1970 UTC."""
        ...

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:
        """Return a reader, which starts with what is known of offsets, and adds to it; nothing is requested before it is used."""
        ...

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterable[Finding]:
        """Yield what listing and catalog alone tell to be wrong; reads no entries."""
        ...

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: blake2b | None = None) -> LedgerCheck:
        """Read a ledger in full; ``on_read`` is told of bytes as they are read, ``digest`` is fed with the records of a whole one."""
        ...

    def remarks(self, catalog: Catalog) -> Iterable[Finding]:
        """Yield what is to be said of the bucket when all ledgers were read in full."""
        ...

    @property
    def repaired_kinds(self) -> frozenset[str]:
        """The kinds of findings of which `repairs` tells everything."""
        ...

    def repairs(self, request: RepairRequest) -> Iterable[Repair]:
        """Yield what is wrong with what lies in the bucket, each with what can be done about it; changes nothing."""
        ...

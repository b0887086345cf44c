"""The seam between bucket dialects: which ledgers a bucket holds, and how one of them is read.

Each dialect (Pulsar's blob offloader now; its filesystem offloader, Redpanda and bookie directories later) is one module that implements
`BucketLayout`; everything above this line works on `Catalog`, `LedgerRef` and `LedgerReader` only.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.cache.object_window import Parts
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.ledgers.catalog import Catalog, LedgerRef
from ledgerfs.ledgers.file_contents import Contents
from ledgerfs.storage.object_store import KeepingStore

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.storage.objects import ReadRequest

Progress = Callable[[str, int, int | None], None]
"""Called as (what is being done, how much of it is done, how much there is or None)."""

OnDamage = Callable[[int, int, CorruptLedgerError], None]
"""Called for entries that cannot be read as (first id, last id, why)."""


class Entry(NamedTuple):
    """One entry: its id in the ledger, and its bytes as BookKeeper stored them."""

    id: int
    data: memoryview


class LedgerReader(Protocol):
    """Read access to one ledger. Stateless to its callers: any number of threads may read anywhere at once."""

    @property
    def ref(self) -> LedgerRef:
        """What the catalog knows of the ledger."""
        ...

    @property
    def index(self) -> OffloadIndex:
        """Where its blocks are; read from the store on first use."""
        ...

    @property
    def first_entry(self) -> int:
        """Id of the first entry."""
        ...

    @property
    def last_entry(self) -> int:
        """Id of the last entry."""
        ...

    @property
    def length(self) -> int:
        """Bytes of all entries, without record headers."""
        ...

    @property
    def records_size(self) -> int:
        """Bytes of all records, headers included: the size of the ledger's ``.entries`` file."""
        ...

    @property
    def store(self) -> KeepingStore:
        """Where its objects are."""
        ...

    def expect(self) -> None:
        """Begin to fetch what the first read needs; returns at once."""
        ...

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries ``first`` to ``last``, both included."""
        ...

    def plan(self, first: int, last: int, *, is_known: bool = False) -> "Iterator[ReadRequest]":
        """Yield the reads that `batches` wants for many entries, small ones first unless it is known that all will be read."""
        ...

    def batches(
        self, first: int, last: int, parts: Parts | None = None, on_damage: OnDamage | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield the same entries in whole buffers, for bulk work, from the parts of `plan` if they are given."""
        ...

    def block_front(self, block: int, size: int) -> bytes:
        """Return the first ``size`` bytes of a block's records, or all it has: a look that costs little."""
        ...

    def open_records(self) -> Contents:
        """Return the ledger's ``.entries`` file, opened."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that the bucket tells of the ledger, as values that JSON knows."""
        ...


class BucketLayout(Protocol):
    """One dialect of buckets."""

    def load_catalog(self, previous: Catalog | None = None, progress: Progress | None = None) -> Catalog:
        """List the bucket; what ``previous`` knows of unchanged ledgers is not asked for again."""
        ...

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:
        """Return a reader, which starts with what is known of offsets, and adds to it; nothing is requested before it is used."""
        ...

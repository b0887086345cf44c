"""Reading one ledger: what the reader of every layout can do, however its ledgers are stored."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.display import printable
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.ledger_metadata import LedgerMetadata

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

Cuts = npt.NDArray[np.int64]
"""Ids of entries, ascending, at which reading can begin at little cost; the first one is the ledger's first entry."""

OnRead = Callable[[int], None]
"""Called with the bytes of entries that were read since the last call."""

OnDamage = Callable[[int, int, CorruptLedgerError], None]
"""Called for entries that cannot be read, with (first id, last id, error)."""


class Entry(NamedTuple):
    """One entry: its id in the ledger, and its bytes as BookKeeper stored them."""

    id: int
    data: memoryview


class Glance(NamedTuple):
    """The first bytes of an entry, or all of them, and how many it has."""

    front: memoryview
    size: int


class Span(NamedTuple):
    """Entries ``first`` to ``last``, both included, of a ledger, and what to call for those that cannot be read."""

    ledger: "LedgerReader"
    first: int
    last: int
    on_damage: OnDamage | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """How a ledger was written, so that a copy of it can be written in the same way.

    Attributes
    ----------
    block_size
        Bytes of its blocks; None if it has no blocks.
    largest_block
        Bytes of its largest block, which its largest entry fits into; None if it has no blocks.

    """

    block_size: int | None = None
    largest_block: int | None = None


@runtime_checkable
class ReaderOfCopies(Protocol):
    """A reader of a place that may have several copies of an entry."""

    def require_agreement(self) -> None:
        """Raise `CorruptLedgerError`, naming object and offset, if two sound copies of an entry differ: nobody can tell which is right."""
        ...


class LedgerReader(Protocol):
    """Read access to one ledger. It has no position: any number of threads may read anywhere at once."""

    ref: LedgerRef
    """The ledger in the catalog."""

    def __repr__(self) -> str:
        what = f"ledger {self.ref.ledger_id} of {printable(self.ref.topic)}"
        return f"<{what}: {self.ref.entries:,} entries, {self.ref.length:,} bytes>"

    @property
    def first_entry(self) -> int:
        """Id of the first entry."""
        return 0

    @property
    def last_entry(self) -> int:
        """Id of the last entry, as the catalog has it."""
        return self.ref.last_entry

    @property
    def length(self) -> int:
        """Bytes of all entries, without record headers."""
        return self.ref.length

    @property
    def records_size(self) -> int:
        """Bytes of all records, headers included: the size of the ledger's ``.entries`` file."""
        return self.ref.records_size

    @property
    def is_remote(self) -> bool:
        """Whether its bytes come from a remote store and are cached, so that reading them once more may give others."""
        ...

    def cuts(self) -> Cuts:
        """Return where reading can begin at little cost."""
        ...

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries ``first`` to ``last``, both included.

        Raises `EntryRangeError` when the ledger does not have them all, and as `batches`.
        """
        return [Entry(entry_id, data) for batch in self.batches(first, last) for entry_id, data in batch]

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the same entries in whole buffers, for bulk work. With ``on_damage``, damaged ones are left out, and it is called.

        Raises `CorruptLedgerError`, `StaleObjectError`, `StoreError`, `UnsupportedFormatError`.
        """
        ...

    @property
    def stream(self) -> "Stream":
        """The function that reads several ledgers one after the other; equal for all ledgers that one call can take."""
        ...

    def glance(self, entry: int, size: int) -> Glance:
        """Return the first ``size`` bytes of an entry that is a cut, at little more cost than that read; raises `CorruptLedgerError`."""
        ((_, data),) = self.read(entry, entry)
        return Glance(data[:size], len(data))

    def reread(self) -> None:
        """Drop the cached bytes of the ledger: they were damaged, and will be read again."""

    def metadata(self) -> LedgerMetadata | None:
        """Return BookKeeper's metadata of the ledger; None without any."""
        ...

    def origin(self) -> Origin:
        """Return how the ledger was written."""
        return Origin()

    def user_metadata(self) -> Mapping[str, str] | None:
        """Return the user metadata of its objects, which costs a request; None without any."""
        return None

    def records(self) -> FileReader | None:
        """Return a reader of the ledger's ``.entries`` file; None if the file has to be rendered."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return all that is known of the ledger, as values that JSON knows."""
        ...


Stream = Callable[[Sequence[Span]], "Iterator[tuple[int, EntryBatch]]"]
"""Reads spans of several ledgers one after the other, and fetches the next ones ahead: yields (number of the span, its entries)."""

"""The interface of a ledger's reader, for all layouts."""

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
"""Split points: ids of entries, ascending, from which a read needs few other bytes; the first one is the ledger's first entry."""

OnRead = Callable[[int], None]
"""Called with the bytes of entries read since the last call."""

OnDamage = Callable[[int, int, CorruptLedgerError], None]
"""Called with (first id, last id, error) of unreadable entries."""


class Entry(NamedTuple):
    """One entry: its id in the ledger, and its bytes from BookKeeper."""

    id: int
    data: memoryview


class Glance(NamedTuple):
    """A peek at an entry: its first bytes, or all of them, and its size."""

    front: memoryview
    size: int


class Span(NamedTuple):
    """Entries ``first`` to ``last`` (inclusive) of a ledger, and a callback for unreadable ones."""

    ledger: "LedgerReader"
    first: int
    last: int
    on_damage: OnDamage | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Block sizes of a ledger, for a copy with the same ones.

    Attributes
    ----------
    block_size
        Size of its blocks in bytes; None without blocks.
    largest_block
        Size of its largest block in bytes, enough for its largest entry; None without blocks.

    """

    block_size: int | None = None
    largest_block: int | None = None


@runtime_checkable
class ReaderOfCopies(Protocol):
    """A reader whose source may have several copies of an entry."""

    def require_agreement(self) -> None:
        """Raise `CorruptLedgerError` with object and offset if two valid copies of an entry differ, since either may be right."""
        ...


class LedgerReader(Protocol):
    """Read access to one ledger, without a position, for any number of threads."""

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
        """Id of the last entry, from the catalog."""
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
        """Whether its bytes are cached from a remote store, so that a new read may return others."""
        ...

    def cuts(self) -> Cuts:
        """Return the split points."""
        ...

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries ``first`` to ``last`` (inclusive).

        Raises `EntryRangeError` if the ledger does not have all of them, and as `batches`.
        """
        return [Entry(entry_id, data) for batch in self.batches(first, last) for entry_id, data in batch]

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the same entries in whole buffers, for bulk work. With ``on_damage``, omits damaged entries and calls it.

        Raises `CorruptLedgerError`, `StaleObjectError`, `StoreError`, `UnsupportedFormatError`.
        """
        ...

    @property
    def stream(self) -> "Stream":
        """The function that reads several ledgers in sequence; equal for all ledgers that one call accepts."""
        ...

    def glance(self, entry: int, size: int) -> Glance:
        """Return the first ``size`` bytes of the entry at a split point, and read few more; raises `CorruptLedgerError`."""
        ((_, data),) = self.read(entry, entry)
        return Glance(data[:size], len(data))

    def reread(self) -> None:
        """Drop the cached bytes of the ledger after damage, so that they are read again."""

    def metadata(self) -> LedgerMetadata | None:
        """Return BookKeeper's metadata of the ledger; None without any."""
        ...

    def origin(self) -> Origin:
        """Return the block sizes of the ledger."""
        return Origin()

    def user_metadata(self) -> Mapping[str, str] | None:
        """Return the user metadata of its objects, with a request; None without any."""
        return None

    def records(self) -> FileReader | None:
        """Return a reader of the ledger's ``.entries`` file; None if the file must be materialized."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return a full description of the ledger, as JSON values."""
        ...


Stream = Callable[[Sequence[Span]], "Iterator[tuple[int, EntryBatch]]"]
"""Reads spans of several ledgers in sequence, with read-ahead; yields (number of the span, its entries)."""

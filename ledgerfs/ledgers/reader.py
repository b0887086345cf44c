"""Reading one ledger: what every dialect's reader can do, and nothing of how its ledgers lie in a store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.bookkeeper.ledger_metadata import LedgerMetadata
from ledgerfs.ledgers.file_reader import FileReader
from ledgerfs.ledgers.ledger_ref import LedgerRef

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

Cuts = npt.NDArray[np.int64]
"""Ids of entries, ascending, at which reading can begin at little cost; the first one is the ledger's first entry."""

OnRead = Callable[[int], None]
"""Called with the bytes of entries that were read since the last call."""

OnDamage = Callable[[int, int, CorruptLedgerError], None]
"""Called for entries that cannot be read as (first id, last id, why)."""


class Entry(NamedTuple):
    """One entry: its id in the ledger, and its bytes as BookKeeper stored them."""

    id: int
    data: memoryview


class Glance(NamedTuple):
    """The first bytes of an entry, perhaps all, and how many it has."""

    front: memoryview
    size: int


class Span(NamedTuple):
    """Entries ``first`` to ``last``, both included, of a ledger, and what is told of those that cannot be read."""

    ledger: "LedgerReader"
    first: int
    last: int
    on_damage: OnDamage | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """How a ledger was written, as far as a copy of it can be written in the same way.

    Attributes
    ----------
    block_size
        Bytes of its blocks; None where it has none.
    largest_block
        Bytes of its largest block, in which its largest entry fits; None where it has none.

    """

    block_size: int | None = None
    largest_block: int | None = None


class LedgerReader(Protocol):
    """Read access to one ledger. Stateless to its callers: any number of threads may read anywhere at once."""

    @property
    def ref(self) -> LedgerRef:
        """What the catalog knows of the ledger."""
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
    def is_remote(self) -> bool:
        """Whether its bytes come from afar and are kept on the way, so that asking once more may bring others."""
        ...

    def cuts(self) -> Cuts:
        """Return where reading can begin at little cost."""
        ...

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries ``first`` to ``last``, both included."""
        ...

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the same entries in whole buffers, for bulk work. With ``on_damage``, which is told, damaged ones are left out."""
        ...

    @property
    def stream(self) -> "Stream":
        """What reads ledgers of this kind one after the other; equal for all that one call of it can take."""
        ...

    def glance(self, entry: int, size: int) -> Glance:
        """Return the first ``size`` bytes of an entry that is a cut, for little more than reading so much; raises `CorruptLedgerError`."""
        ...

    def reread(self) -> None:
        """Forget what is kept of the ledger's bytes: they were damaged, and are to be asked for once more."""
        ...

    def metadata(self) -> LedgerMetadata | None:
        """Return what BookKeeper knew of the ledger; None where nothing tells."""
        ...

    def origin(self) -> Origin:
        """Return how the ledger was written."""
        ...

    def user_metadata(self) -> Mapping[str, str] | None:
        """Return the user metadata of its objects, which costs a request; None where there is none."""
        ...

    def records(self) -> FileReader | None:
        """Return the ledger's ``.entries`` file, opened; None where it has to be rendered."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that the bucket tells of the ledger, as values that JSON knows."""
        ...


Stream = Callable[[Sequence[Span]], "Iterator[tuple[int, EntryBatch]]"]
"""Reads spans of several ledgers one after the other, the next ones fetched ahead: yields (number of the span, entries of it)."""

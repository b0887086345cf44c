"""Follow the end of a live topic: its current ledgers, and the readable entries of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ledgerfs.catalog.reader import LedgerReader


class Next(NamedTuple):
    """Position of the next entry to read: ledger, and entry id, which may be behind the last one. Sorts in the topic's order."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


BEGINNING = Next(0, 0)
"""Before all ledgers."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Entries of a ledger that were trimmed before they were read.

    Attributes
    ----------
    last_entry
        Id of the last one; None if it is unknown how many there were, if any.
    reason
        Why they cannot be read, as text.

    """

    ledger_id: int
    first_entry: int
    last_entry: int | None
    reason: str

    def __str__(self) -> str:
        if self.last_entry is None:
            return f"{self.ledger_id}:{self.first_entry} and all entries after it"
        return f"{self.ledger_id}:{self.first_entry} to {self.ledger_id}:{self.last_entry}"


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot of a topic, from one of its ledgers on.

    Attributes
    ----------
    ledgers
        Readers of the ledgers that have entries, ascending by id. Each ends at the last entry readable at that moment.
    end
        Position behind the last entry, in the last ledger of the topic, even if that has no entries yet.
    gone
        Unread entries that were trimmed since the previous snapshot.
    is_ended
        Whether the topic is terminated: no entries follow ``end``.

    """

    ledgers: Sequence[LedgerReader]
    end: Next
    gone: Sequence[Gone] = ()
    is_ended: bool = False


class Tail(Protocol):
    """Takes snapshots of one topic. For one thread."""

    def look(self, since: Next, *, is_anew: bool = False) -> Look:
        """Return a snapshot of the topic from the ledger of ``since`` on; everything before it was read.

        Raises `StoreUnreachableError` if a server does not answer, so that a later call may succeed; `ObjectNotFoundError` if the topic was
        deleted, `StaleObjectError` if it was deleted and created again since the first snapshot.

        Parameters
        ----------
        since
            The next entry to read.
        is_anew
            Whether to read the ledger list again, even if it was just read.

        """
        ...

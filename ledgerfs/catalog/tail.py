"""The end of a topic that is still written: which ledgers it has now, and how far each can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ledgerfs.catalog.reader import LedgerReader


class Next(NamedTuple):
    """The next entry of a topic to be read: its ledger, and its id, which may be behind the last one. They order as the topic does."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


BEGINNING = Next(0, 0)
"""Before all ledgers."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Entries of a ledger that left the topic before they were read.

    Attributes
    ----------
    last_entry
        None if nobody knows how many there were, or whether there were any.
    reason
        Why they cannot be read, in words.

    """

    ledger_id: int
    first_entry: int
    last_entry: int | None
    reason: str

    def __str__(self) -> str:
        if self.last_entry is None:
            return f"{self.ledger_id}:{self.first_entry} and all behind it"
        return f"{self.ledger_id}:{self.first_entry} to {self.ledger_id}:{self.last_entry}"


@dataclass(frozen=True, slots=True)
class Look:
    """A topic at one moment, from one of its ledgers on.

    Attributes
    ----------
    ledgers
        Readers of the ledgers that have entries, ascending by id. Each ends where it could be read to at that moment.
    end
        Behind the last entry of these; in the last ledger of the topic, even if it has no entries yet.
    gone
        What has left the topic since the look before, unread.
    is_ended
        Whether the topic is closed for ever: nothing comes behind ``end``.

    """

    ledgers: Sequence[LedgerReader]
    end: Next
    gone: Sequence[Gone] = ()
    is_ended: bool = False


class Tail(Protocol):
    """Looks at one topic again and again. For one thread."""

    def look(self, since: Next, *, is_anew: bool = False) -> Look:
        """Return the topic from the ledger of ``since`` on, before which everything was read.

        Raises `StoreUnreachableError` if what has to be asked does not answer, so that asking later may help; `ObjectNotFoundError` if the
        topic was deleted, `StaleObjectError` if it was made again since the first look.

        Parameters
        ----------
        since
            The next entry to be read.
        is_anew
            Whether to ask for the list of ledgers although it was asked for just now.

        """
        ...

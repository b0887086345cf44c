"""What a suite is given: a bucket of one layout, what is in its ledgers, and ways to damage it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownLedger:
    """One ledger, as something else than the layout tells it.

    Attributes
    ----------
    managed_ledger
        Name of its managed ledger.
    entries
        The bytes of each entry, from the first one on.
    first_entry
        Id of the first entry.
    values
        Payloads of its messages in order, None for an empty one; None where that is not known.

    """

    ledger_id: int
    managed_ledger: str | None
    entries: Sequence[bytes]
    first_entry: int = 0
    values: Sequence[bytes | None] | None = None

    @property
    def name(self) -> tuple[str | None, int]:
        """What tells it from the others of its bucket."""
        return self.managed_ledger, self.ledger_id

    @property
    def last_entry(self) -> int:
        """Id of the last entry."""
        return self.first_entry + len(self.entries) - 1

    def part(self, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return the entries ``first`` to ``last``, both included, each with its id."""
        low = first - self.first_entry
        return list(enumerate(self.entries[low : last - self.first_entry + 1], first))


@dataclass(frozen=True, slots=True)
class Damage:
    """One way in which a ledger may be damaged.

    Attributes
    ----------
    what
        In words, for whoever sees a test fail.
    ledger
        `KnownLedger.name` of the one.
    objects
        What the objects that change are then; None for one that is gone.
    kinds
        Kinds of findings that may tell of it, of which there has to be one of severity ``damage``.

    """

    what: str
    ledger: tuple[str | None, int]
    objects: Mapping[str, bytes | None]
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class SampleBucket:
    """A sound bucket, two ledgers or more, no two copies of one.

    Attributes
    ----------
    objects
        Every object of the layout, by key.
    ledgers
        Every ledger of them.
    damages
        Ways to damage it.
    others
        Keys that are not this layout's, such as those of other layouts.

    """

    objects: Mapping[str, bytes]
    ledgers: Sequence[KnownLedger]
    damages: Sequence[Damage] = ()
    others: Sequence[str] = field(default=("notes.txt", "lost+found/", "a-ledger", "1-index"))

"""The input of a suite: a bucket of one layout, the contents of its ledgers, and ways to damage it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownLedger:
    """One ledger, with contents from another source than the layout.

    Attributes
    ----------
    managed_ledger
        Name of its managed ledger.
    entries
        The bytes of each entry, in order.
    first_entry
        Id of the first entry.
    values
        Payloads of its messages in order, None for an empty one; None if unknown.

    """

    ledger_id: int
    managed_ledger: str | None
    entries: Sequence[bytes]
    first_entry: int = 0
    values: Sequence[bytes | None] | None = None

    @property
    def name(self) -> tuple[str | None, int]:
        """Managed ledger and id, unique in its bucket."""
        return self.managed_ledger, self.ledger_id

    @property
    def last_entry(self) -> int:
        """Id of the last entry."""
        return self.first_entry + len(self.entries) - 1

    def part(self, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return the entries ``first`` to ``last``, both inclusive, with their ids."""
        low = first - self.first_entry
        return list(enumerate(self.entries[low : last - self.first_entry + 1], first))


@dataclass(frozen=True, slots=True)
class Damage:
    """One way to damage a ledger.

    Attributes
    ----------
    what
        Description for the message of a failed test.
    ledger
        `KnownLedger.name` of the damaged ledger.
    objects
        New contents of the changed objects; None for a deleted object.
    kinds
        Kinds of findings that may report it; at least one must have severity ``damage``.

    """

    what: str
    ledger: tuple[str | None, int]
    objects: Mapping[str, bytes | None]
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class SampleBucket:
    """A sound bucket with at least two ledgers and no further copies.

    Attributes
    ----------
    objects
        Every object of the layout, by key.
    ledgers
        Every ledger in these objects.
    damages
        Ways to damage the bucket.
    others
        Keys that do not belong to this layout, such as keys of other layouts.

    """

    objects: Mapping[str, bytes]
    ledgers: Sequence[KnownLedger]
    damages: Sequence[Damage] = ()
    others: Sequence[str] = field(default=("notes.txt", "lost+found/", "a-ledger", "1-index"))

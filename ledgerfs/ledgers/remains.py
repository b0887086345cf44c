"""What else than ledgers is in a bucket: what interrupted or damaged ones left behind, and keys that are nobody's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import LedgerfsError
from ledgerfs.ledgers.catalog_rows import Table


class Unreadable(NamedTuple):
    """What tells that there is a ledger of this id, and cannot be read: the copy's uuid, the object's key, and why."""

    ledger_id: int
    uuid: str
    key: str
    error: LedgerfsError


class Kept(NamedTuple):
    """What is kept of remains for the next process: a value that JSON knows, and tables by their names."""

    told: Any
    tables: dict[str, Table]


class Remains(Protocol):
    """What is left in a bucket of ledgers of one dialect that are not whole."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        ...

    @property
    def is_lasting(self) -> bool:
        """Whether a kept catalog tells the same; false where the bucket has to be listed again to know."""
        ...

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "Remains":
        """Return the same with other rows of names."""
        ...

    def why_not(self, ledger_id: int) -> str | None:
        """Return why there is no ledger of this id, if these tell of it; raises the error that kept one from being read."""
        ...

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield what tells of ledgers and cannot be read."""
        ...

    def ledger_ids(self) -> Iterator[int]:
        """Yield the ids of all ledgers that these tell of."""
        ...

    def counts(self) -> dict[str, int]:
        """Return how much there is of what, in words for users."""
        ...


@dataclass(frozen=True, slots=True)
class OtherKeys:
    """Keys that are none of a ledger's: how many of each kind, and the first names."""

    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    MAX_NAMES = 1000

    def add(self, kind: str, key: str) -> None:
        """Count a key."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        names = self.names.setdefault(kind, [])
        if len(names) < self.MAX_NAMES:
            names.append(key)

    def join(self, other: "OtherKeys") -> None:
        """Count what another one counted."""
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            names = self.names.setdefault(kind, [])
            names += other.names[kind][: self.MAX_NAMES - len(names)]

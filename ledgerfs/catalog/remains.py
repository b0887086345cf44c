"""Objects of a bucket that are not whole ledgers: those of interrupted or damaged ones, and keys of no layout."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.errors import LedgerfsError


class Unreadable(NamedTuple):
    """An object that shows a ledger of this id and cannot be read: the copy's uuid, the object's key, and why."""

    ledger_id: int
    uuid: str
    key: str
    error: LedgerfsError


class Kept(NamedTuple):
    """Remains as they are kept for the next process: a value that JSON knows, and tables by their names."""

    told: Any
    tables: dict[str, Table]


class Remains(Protocol):
    """The objects of ledgers of one layout that are not whole."""

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        ...

    @property
    def is_lasting(self) -> bool:
        """Whether a kept catalog may have them; false if the bucket has to be listed again to know them."""
        ...

    @property
    def topics(self) -> frozenset[int]:
        """Rows of names that are topics although no entry of them is there yet: reading them gives nothing, and is no error."""
        return frozenset()

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "Remains":
        """Return the same with other rows of names."""
        ...

    def why_not(self, ledger_id: int) -> str | None:
        """Return why there is no ledger of this id, None if that is unknown; raises the error of one that could not be read."""
        ...

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the objects that show ledgers and cannot be read."""
        ...

    def ledger_ids(self) -> Iterator[int]:
        """Yield the ids of all ledgers that these objects show."""
        ...

    def counts(self) -> dict[str, int]:
        """Return {kind in words for users: how many}."""
        ...


@dataclass(frozen=True, slots=True)
class OtherKeys:
    """Keys that belong to no ledger: how many of each kind, and the first names."""

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
        """Add the counts of another one."""
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            names = self.names.setdefault(kind, [])
            names += other.names[kind][: self.MAX_NAMES - len(names)]

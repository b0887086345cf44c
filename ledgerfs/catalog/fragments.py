"""Objects of a bucket that are not complete ledgers: objects of interrupted or damaged ones, and foreign keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.errors import LedgerfsError


class Unreadable(NamedTuple):
    """An unreadable object of a ledger: the ledger's id, the copy's uuid, the object's key, and the reason."""

    ledger_id: int
    uuid: str
    key: str
    error: LedgerfsError


class Kept(NamedTuple):
    """The cached form of a layout's other objects: a JSON value, and tables by name."""

    reported: Any
    tables: dict[str, Table]


class Fragments(Protocol):
    """The objects of incomplete ledgers of one layout."""

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        ...

    @property
    def is_lasting(self) -> bool:
        """Whether a cached catalog may contain them; false if the bucket must be listed again."""
        ...

    @property
    def topics(self) -> frozenset[int]:
        """Name rows of topics without entries: a read of them returns nothing, without an error."""
        return frozenset()

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "Fragments":
        """Return the same with other rows of names."""
        ...

    def why_not(self, ledger_id: int) -> str | None:
        """Return the reason why there is no ledger of this id, None if unknown; raises the error of an unreadable one."""
        ...

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the unreadable objects of ledgers."""
        ...

    def ledger_ids(self) -> Iterator[int]:
        """Yield the ids of all ledgers of these objects."""
        ...

    def counts(self) -> dict[str, int]:
        """Return {kind as text for users: number}."""
        ...


@dataclass(frozen=True, slots=True)
class OtherKeys:
    """Keys outside of all ledgers: number of each kind, and the first keys."""

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
        """Add the counts and keys of another one."""
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            names = self.names.setdefault(kind, [])
            names += other.names[kind][: self.MAX_NAMES - len(names)]

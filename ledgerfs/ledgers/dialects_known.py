"""The dialects there are, by number: what rows of a catalog say, also of one that another process kept.

A dialect is a package of `ledgerfs.dialects`, loaded when a bucket has something of it: this room knows only their names.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ledgerfs.ledgers.remains import Kept, Remains

NAMES = ("pulsar_blob", "mapfile")
"""A number stays with its name for good: catalogs on disk have it."""


AUTO = "auto"
"""In place of a name: every dialect takes what it knows by its name, since a bucket may hold several."""


class DialectRows(Protocol):
    """The module ``rows`` of a dialect."""

    @property
    def KEPT_TABLES(self) -> "Mapping[str, np.dtype[np.void]]":  # noqa: N802  (a constant of the module)
        """The tables of its `Kept`, and of what kind their rows are."""
        ...

    @property
    def IS_WRITABLE(self) -> bool:  # noqa: N802
        """Whether ledgerfs writes and deletes ledgers of this dialect."""
        ...

    def objects_of(
        self, row: tuple[Any, ...], own: bytes, managed_ledger: str | None, place: str
    ) -> tuple[tuple[str, ObjectStat], ...]:
        """Return the objects of a ledger, each with its role, from its row and the dialect's own columns of that."""
        ...

    def key_of_missing(self, uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:
        """Return the key of the object that tells of a missing ledger; ``kind`` is a `GapKind`."""
        ...

    def kept(self, remains: "Remains") -> "Kept":
        """Return what is kept of remains for the next process."""
        ...

    def remains_of_kept(self, kept: "Kept") -> "Remains":
        """Return them again; raises `ValueError` for what contradicts itself."""
        ...


@cache
def dialect_rows(number: int) -> DialectRows:
    """Return what a dialect makes of rows of a catalog."""
    return cast("DialectRows", import_module(f"ledgerfs.dialects.{NAMES[number]}.rows"))

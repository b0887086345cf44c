"""The dialects by number, and how they read rows of a catalog, also of one that another process kept.

A dialect is a package of `ledgerfs.dialects`, loaded when a bucket has objects of it: this room knows only its name.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ledgerfs.ledgers.remains import Kept, Remains

NAMES = ("pulsar_blob", "mapfile", "live_cluster", "bookie")
"""The number of a name never changes: catalogs on disk have it."""

OF_BUCKETS = ("pulsar_blob", "mapfile")
"""The dialects that may be together in one bucket."""

OF_CLUSTERS = ("live_cluster",)
"""The dialects of a living cluster, which stands where a bucket is expected."""

OF_DISKS = ("bookie",)
"""The dialects of disks of bookies, which stand where a bucket is expected."""


def in_one_place(number: int) -> tuple[int, ...]:
    """Return the numbers of all dialects that may be in one place with a dialect, itself among them."""
    names = next(names for names in (OF_BUCKETS, OF_CLUSTERS, OF_DISKS) if NAMES[number] in names)
    return tuple(map(NAMES.index, names))


AUTO = "auto"
"""Instead of a name: every dialect takes its own objects, by their keys, since a bucket may hold several dialects."""


class DialectRows(Protocol):
    """The module ``rows`` of a dialect."""

    @property
    def KEPT_TABLES(self) -> "Mapping[str, np.dtype[np.void]]":  # noqa: N802  (a constant of the module)
        """{table of its `Kept`: type of the rows}."""
        ...

    @property
    def IS_WRITABLE(self) -> bool:  # noqa: N802
        """Whether ledgerfs writes and deletes ledgers of this dialect."""
        ...

    def objects_of(
        self, row: tuple[Any, ...], own: bytes, managed_ledger: str | None, place: str
    ) -> tuple[tuple[str, ObjectStat], ...]:
        """Return the objects of a ledger, each with its role, from its row and the dialect's own columns."""
        ...

    def is_open(self, own: bytes) -> bool:
        """Return whether a ledger was still written when it was listed, from the dialect's own columns."""
        ...

    def key_of_missing(self, uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:
        """Return the key of the object that shows a missing ledger; ``kind`` is a `GapKind`."""
        ...

    def kept(self, remains: "Remains") -> "Kept":
        """Return remains as they are kept for the next process."""
        ...

    def remains_of_kept(self, kept: "Kept") -> "Remains":
        """Return the remains again; raises `ValueError` for invalid tables."""
        ...


@cache
def dialect_rows(number: int) -> DialectRows:
    """Return the module ``rows`` of a dialect."""
    return cast("DialectRows", import_module(f"ledgerfs.dialects.{NAMES[number]}.rows"))

"""How layouts read their rows of a catalog, by number, also of one that another process kept.

A layout registers its module ``rows`` when it is loaded: rows are read after the bucket was opened.
"""

from typing import TYPE_CHECKING, Any, Protocol

from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ledgerfs.catalog.remains import Kept, Remains

OF_BUCKETS = ("pulsar_blob", "mapfile")
"""The layouts that may be together in one bucket."""

AUTO = "auto"
"""Instead of a name: every layout takes its own objects, by their keys, since a bucket may hold several layouts."""


class LayoutRows(Protocol):
    """The module ``rows`` of a layout."""

    @property
    def NAME(self) -> str:  # noqa: N802  (a constant of the module)
        """The layout's name."""
        ...

    @property
    def NUMBER(self) -> int:  # noqa: N802
        """Its number, which never changes: catalogs on disk have it."""
        ...

    @property
    def KEPT_TABLES(self) -> "Mapping[str, np.dtype[np.void]]":  # noqa: N802
        """{table of its `Kept`: type of the rows}."""
        ...

    @property
    def IS_WRITABLE(self) -> bool:  # noqa: N802
        """Whether ledgerfs writes and deletes ledgers of this layout."""
        ...

    def objects_of(
        self, row: tuple[Any, ...], own: bytes, managed_ledger: str | None, place: str
    ) -> tuple[tuple[str, ObjectStat], ...]:
        """Return the objects of a ledger, each with its role, from its row and the layout's own columns."""
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


_known: dict[int, LayoutRows] = {}


def register_rows(rows: LayoutRows) -> None:
    """Have rows with this layout's number be read by its module; raises `ValueError` for a number of another layout."""
    if _known.setdefault(rows.NUMBER, rows).NAME != rows.NAME:
        raise ValueError(f"layout {rows.NAME} has the number of {_known[rows.NUMBER].NAME}")


def layout_rows(number: int) -> LayoutRows:
    """Return the module ``rows`` of a layout that was loaded."""
    return _known[number]


def is_known(number: int) -> bool:
    """Whether rows with this number can be read."""
    return number in _known

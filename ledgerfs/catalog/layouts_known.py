"""Registry of the layouts' modules ``rows``, by number, which read rows of any catalog, also of a cached one.

A layout registers its module when it is loaded, so open the bucket before you read rows.
"""

from typing import TYPE_CHECKING, Any, Protocol

from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ledgerfs.catalog.fragments import Fragments, Kept

OF_BUCKETS = ("pulsar_blob", "mapfile")
"""The layouts of buckets; one bucket may have several."""

AUTO = "auto"
"""Read all layouts; each takes its objects by their keys."""


class LayoutRows(Protocol):
    """The module ``rows`` of a layout."""

    @property
    def NAME(self) -> str:  # noqa: N802  (a constant of the module)
        """The layout's name."""
        ...

    @property
    def NUMBER(self) -> int:  # noqa: N802
        """Its number, which never changes, since cached catalogs contain it."""
        ...

    @property
    def KEPT_TABLES(self) -> "Mapping[str, np.dtype[np.void]]":  # noqa: N802
        """{name of a table in `Kept`: type of its rows}."""
        ...

    @property
    def IS_WRITABLE(self) -> bool:  # noqa: N802
        """Whether ledgerfs writes and deletes ledgers of this layout."""
        ...

    def objects_of(
        self, row: tuple[Any, ...], own: bytes, managed_ledger: str | None, place: str
    ) -> tuple[tuple[str, ObjectStat], ...]:
        """Return the objects of a ledger with their roles, from its row and the layout's own columns."""
        ...

    def key_of_missing(self, uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:
        """Return the key of the object of a missing ledger; ``kind`` is a `GapKind`."""
        ...

    def kept(self, fragments: "Fragments") -> "Kept":
        """Return the layout's other objects in cached form."""
        ...

    def fragments_of_kept(self, kept: "Kept") -> "Fragments":
        """Return the objects from their cached form; raises `ValueError` for invalid tables."""
        ...


_known: dict[int, LayoutRows] = {}


def register_rows(rows: LayoutRows) -> None:
    """Register the module of a layout by its number; raises `ValueError` if another layout has this number."""
    if _known.setdefault(rows.NUMBER, rows).NAME != rows.NAME:
        raise ValueError(f"layout {rows.NAME} has the number of {_known[rows.NUMBER].NAME}")


def layout_rows(number: int) -> LayoutRows:
    """Return the module ``rows`` of a loaded layout."""
    return _known[number]


def is_known(number: int) -> bool:
    """Return whether the layout with this number is loaded."""
    return number in _known

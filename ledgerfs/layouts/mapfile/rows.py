"""Rows of a catalog for ledgers in MapFiles, for modules that know a layout only by its number (`ledgerfs.catalog.layouts_known`)."""

from typing import Any

from ledgerfs.catalog.catalog_rows import version_of
from ledgerfs.catalog.fragments import Fragments, Kept
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.layouts.mapfile import columns
from ledgerfs.layouts.mapfile.columns import OWN_STRUCT
from ledgerfs.layouts.mapfile.fragments import MapFileFragments
from ledgerfs.storage.objects import ObjectStat

NAME = "mapfile"
NUMBER = columns.NUMBER
KEPT_TABLES: dict[str, Any] = {}
IS_WRITABLE = False


def objects_of(
    row: tuple[Any, ...], own: bytes, managed_ledger: str | None, place: str
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return the data of a row of `LEDGER`, and the index if there is one."""
    folder = _folder(uuid_from_halves(row[0], row[1]), row[2], managed_ledger, place)
    index_size, index_ms, data_version, index_version, *_ = OWN_STRUCT.unpack_from(own)
    stored, changed_ms = row[12], row[16]
    data = ("data", ObjectStat(f"{folder}/data", stored, changed_ms, version_of(data_version)))
    if index_size < 0:
        return (data,)
    index = ObjectStat(f"{folder}/index", index_size, index_ms, version_of(index_version))
    return data, ("index", index)


def key_of_missing(uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:
    """Return the key of the index if only that exists, of the folder if neither file exists or the place is its path, else of the data."""
    if place.endswith("//"):
        return place[:-2]
    folder = _folder(uuid, ledger_id, managed_ledger, place)
    if kind == GapKind.NOTHING_LEFT:
        return folder
    return f"{folder}/index" if kind == GapKind.DATA_LOST else f"{folder}/data"


def kept(fragments: Fragments) -> Kept:
    """Return nothing to cache: the next listing finds incomplete ledgers again."""
    if not isinstance(fragments, MapFileFragments):
        raise TypeError(type(fragments).__name__)
    return Kept(None, {})


def fragments_of_kept(kept: Kept) -> MapFileFragments:  # noqa: ARG001  (nothing is kept)
    """Return none."""
    return MapFileFragments()


def _folder(uuid: str, ledger_id: int, managed_ledger: str | None, place: str) -> str:
    return f"{place}{managed_ledger}/{ledger_id}-{uuid}"

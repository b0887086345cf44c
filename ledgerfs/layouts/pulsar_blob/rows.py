"""Rows of a catalog for offloaded ledgers, for modules that know a layout only by its number (`ledgerfs.catalog.layouts_known`)."""

from typing import Any

from ledgerfs.catalog.catalog_rows import version_of
from ledgerfs.catalog.fragments import Fragments, Kept
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.formats.pulsar_blob.object_names import INDEX_SUFFIX, LedgerKey
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.layouts.pulsar_blob import columns
from ledgerfs.layouts.pulsar_blob.columns import ORPHAN, OWN_STRUCT
from ledgerfs.layouts.pulsar_blob.fragments import BlobFragments
from ledgerfs.storage.objects import ObjectStat

NAME = "pulsar_blob"
NUMBER = columns.NUMBER
KEPT_TABLES = {"orphans": ORPHAN}
IS_WRITABLE = True


def objects_of(
    row: tuple[Any, ...],
    own: bytes,
    managed_ledger: str | None,  # noqa: ARG001  (keys are flat)
    place: str,  # noqa: ARG001
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return the data and the index object of a row of `LEDGER`."""
    data_key = LedgerKey(uuid_from_halves(row[0], row[1]), row[2], is_index=False).data_key
    data_ms, index_size, data_version, index_version, _, _ = OWN_STRUCT.unpack_from(own)
    stored, changed_ms = row[12], row[16]
    return (
        ("data", ObjectStat(data_key, stored, data_ms, version_of(data_version))),
        (
            "index",
            ObjectStat(f"{data_key}{INDEX_SUFFIX}", index_size, changed_ms, version_of(index_version)),
        ),
    )


def key_of_missing(uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:  # noqa: ARG001  (keys are flat)
    """Return the key of the one object that exists: the data object's or the index's."""
    key = LedgerKey(uuid, ledger_id, is_index=False)
    return key.data_key if kind in {GapKind.INDEX_LOST, GapKind.CONTRADICTED, GapKind.BEING_WRITTEN} else key.index_key


def kept(fragments: Fragments) -> Kept:
    """Return the orphans that the cached catalog stores: no bad indexes, which the next listing finds again."""
    if not isinstance(fragments, BlobFragments):
        raise TypeError(type(fragments).__name__)
    return Kept(None, {"orphans": fragments.orphans})


def fragments_of_kept(kept: Kept) -> BlobFragments:
    """Return the orphans from the result of `kept`."""
    return BlobFragments(kept.tables["orphans"])

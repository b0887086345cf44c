"""Ledgers of a live cluster as rows of a catalog (`ledgerfs.catalog.layouts_known.LayoutRows`), with the column of their own."""

from typing import Any

from ledgerfs.catalog.catalog_rows import OWN_BYTES
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.storage.objects import ObjectStat
from ledgerfs_cluster.cluster_ledgers import IS_WRITABLE, KEPT_TABLES, kept, key_of_missing, remains_of_kept
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path

__all__ = ["IS_WRITABLE", "KEPT_TABLES", "NAME", "NUMBER", "kept", "key_of_missing", "objects_of", "remains_of_kept"]

NAME, NUMBER = "live_cluster", 2

_HOT_CUT = 1 << 20
"""Bytes between entries at which reading begins at little cost: every entry does, of bookies; fewer are quicker to handle."""

_COLD_CUT = 64 << 20
"""The same of an offloaded ledger, whose blocks have this size unless a broker was told another one."""

IN_BOOKKEEPER, IN_BUCKET = "ledger", "data"
"""The roles of what stands for a ledger in the catalog: its node, or the object that alone has its entries."""


def pack_own(*, is_in_bucket: bool) -> bytes:
    """Return the layout's own column of a row: whether BookKeeper does not have the ledger any more."""
    return bytes([is_in_bucket]).ljust(OWN_BYTES, b"\0")


def cut_bytes(*, is_in_bucket: bool) -> int:
    """Return how many bytes there are from one cut to the next, about."""
    return _COLD_CUT if is_in_bucket else _HOT_CUT


def objects_of(
    row: tuple[Any, ...],
    own: bytes,
    managed_ledger: str | None,  # noqa: ARG001  (ledgers are named by their ids)
    place: str,
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return what stands for a ledger: its node in ZooKeeper, or its data object.

    Its version is the id of the last entry that was there: what is before that never changes.
    """
    if own[0] == 1:
        role, key = IN_BUCKET, LedgerKey(uuid_from_halves(row[0], row[1]), row[2], is_index=False).data_key
    else:
        role, key = IN_BOOKKEEPER, ledger_path(row[2], place)
    return ((role, ObjectStat(key, row[11], row[16], str(row[10]))),)

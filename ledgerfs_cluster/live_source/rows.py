"""Ledgers of a live cluster as rows of a catalog (`ledgerfs.catalog.layouts_known.LayoutRows`), with this layout's own column."""

from typing import Any

from ledgerfs.catalog.catalog_rows import OWN_BYTES
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.storage.objects import ObjectStat
from ledgerfs_cluster.cluster_ledgers import IS_WRITABLE, KEPT_TABLES, fragments_of_kept, kept, key_of_missing
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path

__all__ = ["IS_WRITABLE", "KEPT_TABLES", "NAME", "NUMBER", "fragments_of_kept", "kept", "key_of_missing", "objects_of"]

NAME, NUMBER = "live_cluster", 2

_HOT_CUT = 1 << 20
"""Bytes between split points in BookKeeper: reading can begin at any entry, but fewer points are quicker to handle."""

_COLD_CUT = 64 << 20
"""Bytes between split points of an offloaded ledger: the size of its blocks, unless configured otherwise in the broker."""

IN_BOOKKEEPER, IN_BUCKET = "ledger", "data"
"""Roles of the object that stands for a ledger in the catalog: its node, or the only object with its entries."""


def pack_own(*, is_in_bucket: bool) -> bytes:
    """Return the layout's own column of a row: whether BookKeeper no longer has the ledger."""
    return bytes([is_in_bucket]).ljust(OWN_BYTES, b"\0")


def cut_bytes(*, is_in_bucket: bool) -> int:
    """Return the approximate number of bytes between two split points."""
    return _COLD_CUT if is_in_bucket else _HOT_CUT


def objects_of(
    row: tuple[Any, ...],
    own: bytes,
    managed_ledger: str | None,  # noqa: ARG001  (ledgers are named by their ids)
    place: str,
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return the object that stands for a ledger: its node in ZooKeeper, or its data object.

    Its version is the id of the last existing entry: earlier entries never change.
    """
    if own[0] == 1:
        role, key = IN_BUCKET, LedgerKey(uuid_from_halves(row[0], row[1]), row[2], is_index=False).data_key
    else:
        role, key = IN_BOOKKEEPER, ledger_path(row[2], place)
    return ((role, ObjectStat(key, row[11], row[16], str(row[10]))),)

"""Ledgers on disks as rows of a catalog (`ledgerfs.catalog.layouts_known.LayoutRows`), with this layout's own columns."""

from typing import Any

import numpy as np

from ledgerfs.catalog.catalog_rows import OWN_BYTES
from ledgerfs.storage.objects import ObjectStat
from ledgerfs_cluster.cluster_ledgers import IS_WRITABLE, KEPT_TABLES, fragments_of_kept, kept, key_of_missing
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path

__all__ = ["IS_WRITABLE", "KEPT_TABLES", "NAME", "NUMBER", "fragments_of_kept", "kept", "key_of_missing", "objects_of"]

NAME, NUMBER = "bookie", 3

CUT_BYTES = 8 << 20
"""Bytes between split points: reading can begin at any entry, but fewer points are quicker to handle."""

OWN = np.dtype([("newest", "<i8"), ("_", f"V{OWN_BYTES - 8}")])
"""This layout's own column: the greatest id of an existing entry, which may be after the end of an open ledger."""


def pack_own(newest: int) -> bytes:
    """Return the layout's own column of a row."""
    return newest.to_bytes(8, "little").ljust(OWN_BYTES, b"\0")


def objects_of(
    row: tuple[Any, ...],
    own: bytes,  # noqa: ARG001
    managed_ledger: str | None,  # noqa: ARG001  (ledgers are named by their ids)
    place: str,
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return the object that stands for a ledger: its node.

    Its version is the id of the last existing entry: earlier entries never change.
    """
    return (("ledger", ObjectStat(ledger_path(row[2], place), row[11], row[16], str(row[10]))),)

"""Ledgers of a living cluster as rows of a catalog, for who knows of dialects only their numbers (`ledgerfs.ledgers.dialects_known`)."""

from typing import Any

from ledgerfs.dialects.live_cluster import columns
from ledgerfs.dialects.live_cluster.columns import IN_BOOKKEEPER, IN_BUCKET, Place, place_in
from ledgerfs.dialects.live_cluster.remains import LiveRemains
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.ledgers.missing_ledgers import GapKind
from ledgerfs.ledgers.remains import Kept, Remains
from ledgerfs.storage.objects import ObjectStat

NAME = "live_cluster"
NUMBER = columns.NUMBER
KEPT_TABLES: dict[str, Any] = {}
IS_WRITABLE = False


def objects_of(
    row: tuple[Any, ...],
    own: bytes,
    managed_ledger: str | None,  # noqa: ARG001  (ledgers are named by their ids)
    place: str,
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return what stands for a ledger: its node in ZooKeeper, or its data object.

    Its version is the id of the last entry that was there: what is before that never changes.
    """
    if place_in(own) is Place.BUCKET:
        role, key = IN_BUCKET, LedgerKey(uuid_from_halves(row[0], row[1]), row[2], is_index=False).data_key
    else:
        role, key = IN_BOOKKEEPER, ledger_path(row[2], place)
    return ((role, ObjectStat(key, row[11], row[16], str(row[10]))),)


def key_of_missing(uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:  # noqa: ARG001
    """Return the node that should be there, or that cannot be read."""
    if kind == GapKind.LIST_UNREADABLE and managed_ledger is not None:
        return managed_ledger_path(managed_ledger)
    return ledger_path(ledger_id, place)


def kept(remains: Remains) -> Kept:
    """Return what is kept for the next process."""
    if not isinstance(remains, LiveRemains):
        raise TypeError(type(remains).__name__)
    return Kept({"empty": sorted(remains.empty), "topics": sorted(remains.topics)}, {})


def remains_of_kept(kept: Kept) -> LiveRemains:
    """Return what was kept; raises `ValueError` for what was not."""
    told = kept.told
    if not isinstance(told, dict) or not told.keys() >= {"empty", "topics"}:
        raise ValueError("these are no remains of a living cluster")
    return LiveRemains(frozenset(map(int, told["empty"])), frozenset(map(int, told["topics"])))

"""Ledgers on disks as rows of a catalog, for who knows of dialects only their numbers (`ledgerfs.ledgers.dialects_known`)."""

from typing import Any

from ledgerfs.dialects.bookie import columns
from ledgerfs.dialects.bookie.columns import ROLE
from ledgerfs.dialects.bookie.remains import DiskRemains
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.ledgers.missing_ledgers import GapKind
from ledgerfs.ledgers.remains import Kept, Remains
from ledgerfs.storage.objects import ObjectStat

NAME = "bookie"
NUMBER = columns.NUMBER
KEPT_TABLES: dict[str, Any] = {}
IS_WRITABLE = False


def objects_of(
    row: tuple[Any, ...],
    own: bytes,  # noqa: ARG001
    managed_ledger: str | None,  # noqa: ARG001  (ledgers are named by their ids)
    place: str,
) -> tuple[tuple[str, ObjectStat], ...]:
    """Return what stands for a ledger: its node.

    Its version is the id of the last entry that was there: what is before that never changes.
    """
    return ((ROLE, ObjectStat(ledger_path(row[2], place), row[11], row[16], str(row[10]))),)


def key_of_missing(uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:  # noqa: ARG001
    """Return the node of the ledger, or of its topic's list."""
    if kind == GapKind.LIST_UNREADABLE and managed_ledger is not None:
        return managed_ledger_path(managed_ledger)
    return ledger_path(ledger_id, place)


def kept(remains: Remains) -> Kept:
    """Return what is kept for the next process: nothing, since the next listing finds it again."""
    if not isinstance(remains, DiskRemains):
        raise TypeError(type(remains).__name__)
    return Kept(None, {})


def remains_of_kept(kept: Kept) -> DiskRemains:  # noqa: ARG001  (nothing is kept)
    """Return none."""
    return DiskRemains()

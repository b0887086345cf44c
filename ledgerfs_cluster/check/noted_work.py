"""What the lifecycle of a cluster has noted of work that goes on: what that is about lies where nothing names it, and is no orphan."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from ledgerfs.formats.array_types import Mask
from ledgerfs_cluster.check.suspects import Suspects
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.tiered_objects import uuid_text
from ledgerfs_cluster.snapshot.tables import Table

_GOES_ON = "nothing: ledgerfs lifecycle run goes on with it; ledgerfs lifecycle status tells whether one does, and what is marked"


def without_noted(sure: Suspects, noted: Collection[str]) -> tuple[Suspects, list[Finding]]:
    """Return what is suspect and not noted, and findings about what is; ``noted`` are names of records, also of damaged ones."""
    rows, findings, tiers = sure.unnamed.rows, list[Finding](), []
    is_marked = _are_noted((f"orphan-{row['ledger_id']}" for row in rows), noted)
    what = "ledgers that nothing names are marked in the journal"
    findings += _finding(FindingKind.IN_TRASH, "journal", rows[is_marked], ("length",), what)
    for one in sure.tiers:
        pairs, columns, url = one.unnamed, ("data_size", "index_size"), one.objects.url
        names = [f"{row['ledger_id']}-{uuid_text(row)}" for row in pairs]
        is_running = _are_noted((f"attempt-{name}" for name in names), noted)
        is_trash = _are_noted((f"objects-{name}" for name in names), noted) & ~is_running
        what = "offloads that no list names are noted as attempts that go on"
        findings += _finding(FindingKind.NOTED_OFFLOAD, url, pairs[is_running], columns, what)
        what = "offloads that no list names are marked in the journal"
        findings += _finding(FindingKind.IN_TRASH, url, pairs[is_trash], columns, what)
        tiers.append(replace(one, unnamed=pairs[~is_running & ~is_trash]))
    return replace(sure, unnamed=replace(sure.unnamed, rows=rows[~is_marked]), tiers=tuple(tiers)), findings


def _are_noted(names: Iterable[str], noted: Collection[str]) -> Mask:
    return np.array([one in noted for one in names], np.bool_)


def _finding(kind: FindingKind, subject: str, rows: Table, columns: Iterable[str], what: str) -> list[Finding]:
    """Return a finding about rows with their bytes in some columns; none without rows."""
    if not rows.size:
        return []
    ids, size = (
        tuple(np.unique(rows["ledger_id"]).tolist()),
        sum(int(np.maximum(rows[one], 0).sum()) for one in columns),
    )
    text = f"{rows.size:,} {what} of the lifecycle of this cluster"
    return [Finding(kind, subject, ids, size, 0, text, _GOES_ON)]

"""What the lifecycle of a cluster has noted of work that goes on: what that is about lies where nothing names it, and is no orphan."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ledgerfs.formats.array_types import Mask
from ledgerfs_cluster.check.suspects import Suspects, TierSuspects
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.tiered_objects import uuid_text
from ledgerfs_cluster.snapshot.tables import Table

Offload = tuple[int, str]
"""A ledger, and the uuid of an offload of it."""

_GOES_ON = "nothing: ledgerfs lifecycle run goes on with it; ledgerfs lifecycle status tells whether one does, and what is marked"


@dataclass(frozen=True, slots=True)
class NotedWork:
    """What is noted.

    Attributes
    ----------
    attempts
        Offloads that were begun, and that no list names before they are complete.
    trash_ledgers, trash_offloads
        Ledgers, and objects of offloads, that are marked to be deleted.
    unreadable
        {path: why} of notes that are damaged; what their names tell is among the others.

    """

    attempts: frozenset[Offload] = frozenset()
    trash_ledgers: frozenset[int] = frozenset()
    trash_offloads: frozenset[Offload] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def also(self, other: "NotedWork") -> "NotedWork":
        """Return what either notes: what began, or ended, between two looks."""
        return NotedWork(
            self.attempts | other.attempts,
            self.trash_ledgers | other.trash_ledgers,
            self.trash_offloads | other.trash_offloads,
            {**self.unreadable, **other.unreadable},
        )


def without_noted(sure: Suspects, noted: NotedWork) -> tuple[Suspects, list[Finding]]:
    """Return what is suspect and not noted, and findings about what is."""
    is_trash = np.isin(sure.unnamed.rows["ledger_id"], list(noted.trash_ledgers))
    ledgers = sure.unnamed.rows[is_trash]
    findings = []
    if ledgers.size:
        what = f"{ledgers.size:,} ledgers that nothing names are marked in the journal"
        ids, size = tuple(ledgers["ledger_id"].tolist()), int(ledgers["length"].sum())
        findings.append(_finding(FindingKind.IN_TRASH, "journal", ids, size, what))
    tiers = []
    for one in sure.tiers:
        left, found = _of_tier(one, noted)
        tiers.append(left)
        findings += found
    unnamed = replace(sure.unnamed, rows=sure.unnamed.rows[~is_trash])
    return replace(sure, unnamed=unnamed, tiers=tuple(tiers)), findings


def _of_tier(tier: TierSuspects, noted: NotedWork) -> tuple[TierSuspects, list[Finding]]:
    pairs, url = tier.unnamed, tier.objects.url
    is_running, is_trash = _are_among(pairs, noted.attempts), _are_among(pairs, noted.trash_offloads)
    findings = list(_of_pairs(pairs[is_running], FindingKind.NOTED_OFFLOAD, url, "are noted as attempts that go on"))
    findings += _of_pairs(pairs[is_trash & ~is_running], FindingKind.IN_TRASH, url, "are marked in the journal")
    return replace(tier, unnamed=pairs[~is_running & ~is_trash]), findings


def _are_among(pairs: Table, offloads: frozenset[Offload]) -> Mask:
    found = [(int(row["ledger_id"]), uuid_text(row)) in offloads for row in pairs] if offloads else [False] * pairs.size
    return np.array(found, np.bool_)


def _of_pairs(pairs: Table, kind: FindingKind, url: str, how: str) -> Iterator[Finding]:
    if pairs.size:
        size = sum(int(np.maximum(pairs[name], 0).sum()) for name in ("data_size", "index_size"))
        what = f"{pairs.size:,} offloads that no list names {how}"
        yield _finding(kind, url, tuple(np.unique(pairs["ledger_id"]).tolist()), size, what)


def _finding(kind: FindingKind, subject: str, ids: tuple[int, ...], size: int, what: str) -> Finding:
    return Finding(kind, subject, ids, size, 0, f"{what} of the lifecycle of this cluster", _GOES_ON)

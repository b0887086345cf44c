"""Ledgers in BookKeeper without an owner, and those that a list marks as deleted: pure functions over a snapshot.

A snapshot reads ledgers before their possible owners. One snapshot is not enough: a ledger is created before it is referenced, and loses
its reference before it is deleted. So confirm orphans by a second check, some seconds later, and skip ledgers younger than a grace period.

Ledgers of other Pulsar clusters on the same BookKeeper look like orphans, too. Ledgers contain the name of a topic, but not of a cluster,
so there is no proof; `signs_of_sharing` returns hints. A cluster with its metadata on another ZooKeeper leaves no trace but its topics.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import managed_ledger_of, topic_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.ownership import (
    COMPACTED,
    DELAYED,
    MANAGED_LEDGER,
    SCHEMA,
    DamagedOwners,
    is_in,
    known_topics,
    made_for,
    named_ledgers,
    topic_made_for,
)
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table

PULSAR = "pulsar"
_KINDS = {
    MANAGED_LEDGER: FindingKind.ORPHAN_LEDGER,
    SCHEMA: FindingKind.ORPHAN_SCHEMA_LEDGER,
    COMPACTED: FindingKind.ORPHAN_COMPACTED_LEDGER,
    DELAYED: FindingKind.ORPHAN_DELAYED_LEDGER,
}
_NAMED_BY = {
    FindingKind.ORPHAN_LEDGER: "the topic's ledger list",
    FindingKind.ORPHAN_CURSOR_LEDGER: "the node of its subscription",
    FindingKind.ORPHAN_SCHEMA_LEDGER: "its schema locator",
    FindingKind.ORPHAN_COMPACTED_LEDGER: "the compaction cursor",
    FindingKind.ORPHAN_DELAYED_LEDGER: "the properties of its subscription",
}
_OWN_PATH = "/ledgers"
"""Root of BookKeeper's metadata beside the cluster that it was set up with."""
_SHARED = "first find out whether it belongs to another Pulsar cluster, since other clusters seem to use this BookKeeper, too; "


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Pulsar's ledgers without an owner.

    Attributes
    ----------
    rows
        Rows of `LEDGER`: older than the grace period, and everything that could reference them was read.
    young
        Number of others that are younger than the grace period.
    unclear
        Number of others that may have an owner: an unreadable or unknown one, or a running compaction.

    """

    rows: Table
    young: int
    unclear: int


def unnamed_ledgers(survey: Survey, now_ms: int, grace_ms: int) -> Unnamed:
    """Return the ledgers without an owner that were created, closed and changed at least ``grace_ms`` before ``now_ms``."""
    ledgers = survey.ledgers
    is_pulsars = ledgers["application"] == (survey.words.index(PULSAR) if PULSAR in survey.words else -2)
    free = ledgers[is_pulsars & ~is_in(ledgers["ledger_id"], named_ledgers(survey))]
    is_young = np.maximum(free["created_ms"], free["changed_ms"]) > now_ms - grace_ms
    old = free[~is_young]
    is_unclear = _may_be_named(survey, old)
    return Unnamed(old[~is_unclear], int(is_young.sum()), int(is_unclear.sum()))


def flagged_ledgers(survey: Survey, now_ms: int, grace_ms: int) -> tuple[Table, int]:
    """Return rows of `LISTED` marked as deleted in BookKeeper that exist, and the number of others in lists that changed recently."""
    flagged = survey.listed[survey.listed["is_deleted_from_bookkeeper"]]
    there = flagged[is_in(flagged["ledger_id"], survey.ledgers["ledger_id"])]
    # Brokers delete right after the mark, and retry for minutes.
    is_young = survey.topic_table["changed_ms"][there["topic"]] > now_ms - grace_ms
    return there[~is_young], int(is_young.sum())


def orphan_findings(survey: Survey, rows: Table, *, is_shared: bool = False) -> Iterator[Finding]:
    """Yield a finding for each owner of orphans: one for closed ledgers, one for ledgers that a writer may have open.

    ``is_shared``: there are signs that other Pulsar clusters have ledgers here (`signs_of_sharing`).
    """
    is_open = rows["state"] != LedgerState.CLOSED
    known = known_topics(survey)
    for part, opened in ((rows[~is_open], False), (rows[is_open], True)):
        for group in _groups(part, ("component", "owner", "cursor")):
            found = _orphans_of(survey, part[group], known, is_open=opened)
            yield replace(found, mend=f"{_SHARED}{found.mend}") if is_shared and not opened else found


def flagged_findings(survey: Survey, rows: Table, lost: Int64, sound: Int64) -> Iterator[Finding]:
    """Yield a finding for each topic with existing ledgers that are marked as deleted.

    ``lost`` are sorted ids of ledgers without their objects: BookKeeper has the only copy. ``sound`` are those whose objects were seen.
    """
    is_last = is_in(rows["ledger_id"], lost)
    is_safe = is_in(rows["ledger_id"], sound) & ~is_last
    safe = "run `ledgerfs verify` on the bucket, then `bookkeeper shell deleteledger -ledgerid N`"
    unknown = "run the check again with --bucket, to see whether the objects exist, then `bookkeeper shell deleteledger -ledgerid N`"
    last = "do not delete: BookKeeper has the only copy, since the objects are incomplete (see this ledger's other finding)"
    for part, mend in ((rows[is_safe], safe), (rows[~is_safe & ~is_last], unknown), (rows[is_last], last)):
        for group in _groups(part, ("topic",)):
            some = part[group]
            yield Finding(
                FindingKind.FLAGGED_DELETED,
                topic_of(survey.topics[int(some["topic"][0])]),
                tuple(some["ledger_id"].tolist()),
                int(some["size"].sum()),
                0,
                "listed as offloaded and deleted from BookKeeper, but they still exist there; brokers do not retry the deletion",
                mend,
            )


def _orphans_of(survey: Survey, rows: Table, known: frozenset[str], *, is_open: bool) -> Finding:
    component, owner, cursor = made_for(survey, rows[0])
    if component is None or owner is None:
        raise ValueError("an orphan needs an owner in its metadata")
    kind = FindingKind.ORPHAN_CURSOR_LEDGER if cursor is not None else _KINDS[component]
    state = "not closed" if is_open else "closed"
    mend = "run the check again directly before, then `bookkeeper shell deleteledger -ledgerid N`"
    whose = "; it may belong to a topic of the same name in another Pulsar cluster on this BookKeeper: ledgers do not contain their cluster"
    mend = f"if no other Pulsar cluster uses this BookKeeper: {mend}"
    if topic_made_for(component, owner) not in known:
        whose = "; this cluster has no such topic: the topic was deleted, or belongs to another Pulsar cluster on this BookKeeper"
        mend = f"find out which cluster owns it; {mend}"
    if is_open:
        mend = "do not delete: a writer may still be running; check again after its broker has stopped"
    return Finding(
        kind,
        _subject(component, owner, cursor),
        tuple(rows["ledger_id"].tolist()),
        -1 if is_open else int(rows["length"].sum()),
        0,
        (
            f"{state} in BookKeeper and created for this by its metadata, but neither {_NAMED_BY[kind]} nor anything else "
            f"references it{whose}"
        ),
        mend,
    )


def _subject(component: str, owner: str, cursor: str | None) -> str:
    if component == SCHEMA:
        return f"schema {owner}"
    try:
        topic = topic_of(owner if component == MANAGED_LEDGER else managed_ledger_of(owner))
    except InvalidNameError:
        topic = owner
    return topic if cursor is None else f"{topic} subscription {cursor}"


def _may_be_named(survey: Survey, rows: Table) -> Mask:
    """Return which ledgers may have an unreadable or unknown owner; shape (rows,)."""
    damaged, topics = DamagedOwners(survey), frozenset(survey.topics)
    found = np.zeros(rows.size, np.bool_)
    for group in _groups(rows, ("component", "owner", "cursor", "state")):
        row = rows[group[0]]
        component, owner, cursor = made_for(survey, row)
        # A compacted topic is referenced only after compaction has finished.
        is_being_made = component == COMPACTED and row["state"] != LedgerState.CLOSED
        is_being_made = is_being_made and topic_made_for(COMPACTED, owner or "") in topics
        found[group] = is_being_made or damaged.may_name(component, owner, cursor) is not False
    return found


def _groups(rows: Table, columns: tuple[str, ...]) -> Iterator[Int64]:
    """Yield the indexes of rows with equal values in some columns, in the order of their first rows."""
    if not rows.size:
        return
    order = np.lexsort([rows[name] for name in reversed(columns)])
    ordered = rows[order]
    differs: Mask = np.zeros(rows.size - 1, np.bool_)
    for name in columns:
        differs |= ordered[name][1:] != ordered[name][:-1]
    yield from np.split(order, np.flatnonzero(differs) + 1)


def signs_of_sharing(survey: Survey) -> list[str]:
    """Return a sentence for each sign of other clusters; an empty list is no proof that there are none."""
    signs = []
    if survey.ledgers_path != _OWN_PATH:
        signs.append(
            f"BookKeeper has its metadata in {survey.ledgers_path}, which is common if several clusters share it"
        )
    if survey.neighbours:
        signs.append(f"ZooKeeper has the metadata of other Pulsar clusters in {', '.join(survey.neighbours)}")
    others = _open_ledgers_of_others(survey)
    if others:
        signs.append(f"{others:,} ledgers that are not closed belong to topics that this cluster does not have")
    return signs


def _open_ledgers_of_others(survey: Survey) -> int:
    """Return the number of open ledgers of topics that do not exist here."""
    words = survey.words
    if MANAGED_LEDGER not in words:
        return 0
    ledgers = survey.ledgers
    is_open = (ledgers["state"] != LedgerState.CLOSED) & (ledgers["component"] == words.index(MANAGED_LEDGER))
    owners, counts = np.unique(ledgers["owner"][is_open & (ledgers["owner"] >= 0)], return_counts=True)
    # A topic with an unreadable list exists here.
    known = known_topics(survey) | DamagedOwners(survey).topics
    return sum(
        count for owner, count in zip(owners.tolist(), counts.tolist(), strict=True) if words[owner] not in known
    )

"""Lost or endangered data of a cluster: listed ledgers that do not exist, and ledgers on unavailable bookies.

Pure functions over a snapshot. A list that was read after the ledgers contains newer ones, too, so one snapshot may show loss where there
is none: confirm it by a second check.
"""

from collections.abc import Iterator

import numpy as np

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.orphans import PULSAR
from ledgerfs_cluster.rules.ownership import are_there
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table, parts_by

_ENDLESS = 2**63 - 1
"""The last entry of an open ledger."""
_AT_ONCE = 1 << 16
"""Number of fragments whose bookies are in memory at a time."""
_COPY = np.dtype([("bookie", "i4"), ("row", "i4"), ("is_dark", "?")])


def lost_ledgers(survey: Survey) -> Table:
    """Return rows of `LISTED` that are neither completely offloaded nor in BookKeeper, except ledgers listed as empty."""
    listed = survey.listed[~survey.listed["is_complete"]]
    is_empty = (listed["entries"] == 0) & (listed["closed_ms"] != 0)
    found: Table = listed[~is_empty & ~are_there(survey, listed["ledger_id"])]
    return found


def unequal_ledgers(survey: Survey) -> Table:
    """Return rows of `LISTED` that are closed in BookKeeper with other entries or bytes than in their lists.

    Neither changes any more. For a ledger listed without entries only BookKeeper's numbers count. If BookKeeper's copy is marked as
    deleted, the list describes only the offload's objects, which may have other entries.
    """
    listed, ledgers = survey.listed, survey.ledgers
    if not (listed.size and ledgers.size):
        return listed[:0]
    nodes = ledgers[np.minimum(np.searchsorted(ledgers["ledger_id"], listed["ledger_id"]), ledgers.size - 1)]
    is_closed = (nodes["ledger_id"] == listed["ledger_id"]) & (nodes["state"] == LedgerState.CLOSED)
    is_alone = listed["is_complete"] & listed["is_deleted_from_bookkeeper"]
    is_other = (nodes["last_entry"] + 1 != listed["entries"]) | (nodes["length"] != listed["size"])
    found: Table = listed[is_closed & is_other & ~is_alone & (listed["entries"] > 0)]
    return found


def unequal_findings(survey: Survey, rows: Table) -> Iterator[Finding]:
    """Yield a finding for each ledger whose end differs between its list and BookKeeper; ``survey`` contains both."""
    for row in rows:
        node = survey.ledgers[np.searchsorted(survey.ledgers["ledger_id"], row["ledger_id"])]
        entries, size = int(node["last_entry"]) + 1, int(node["length"])
        effect = "subscriptions may skip entries after the end in the list"
        if entries < row["entries"]:
            effect = "counts entries of the list that do not exist"
        yield Finding(
            FindingKind.UNEQUAL_LEDGER,
            topic_of(survey.topics[int(row["topic"])]),
            (int(row["ledger_id"]),),
            abs(size - int(row["size"])),
            0,
            f"the ledger list has {int(row['entries']):,} entries with {int(row['size']):,} bytes, but BookKeeper closed the ledger with "
            f"{entries:,} with {size:,}: a broker reads BookKeeper's entries, but {effect}",
            "make a copy before it is trimmed: `bookkeeper shell readledger -ledgerid N` prints its entries; details: `ledgerfs verify`",
        )


def lost_findings(survey: Survey, rows: Table) -> Iterator[Finding]:
    """Yield a finding for each topic with lost ledgers."""
    for some in parts_by(rows, rows["topic"]):
        has_attempts = bool((some["has_context"] & (some["uuid_high"] != 0)).any())
        objects = "; an offload did not finish, but its objects may be complete" if has_attempts else ""
        yield Finding(
            FindingKind.LOST_LEDGER,
            topic_of(survey.topics[int(some["topic"][0])]),
            tuple(some["ledger_id"].tolist()),
            -1 if (some["entries"] == 0).any() else int(some["size"].sum()),
            0,
            f"the ledger list has these ledgers, but BookKeeper lacks them and no offload is complete{objects}",
            "restore the ledgers from a backup or a copy; without them readers need autoSkipNonRecoverableData=true in broker.conf",
        )


def missing_bookies(survey: Survey) -> frozenset[str]:
    """Return unavailable bookies that have entries of Pulsar's ledgers."""
    is_used = np.zeros(len(survey.bookie_names), np.bool_)
    for _, members in _fragments_of(survey, _with_entries(survey)):
        is_used[members] = True
    return frozenset(survey.bookie_names[row] for row in np.flatnonzero(is_used).tolist()) - survey.bookies


def under_replicated(survey: Survey, missing: frozenset[str]) -> Iterator[Finding]:
    """Yield a finding for each missing bookie, with the ledgers that have entries there."""
    rows = _with_entries(survey)
    is_gone = np.array([one in missing for one in survey.bookie_names], np.bool_)
    found = [_copies_on(is_gone, rows, *part) for part in _fragments_of(survey, rows)]
    if not any(part.size for part in found):
        return
    copies = np.concatenate(found)
    # A ledger may have several fragments on a bookie: keep the worst.
    copies = copies[np.lexsort((~copies["is_dark"], copies["row"], copies["bookie"]))]
    is_first = np.ones(copies.size, np.bool_)
    is_first[1:] = (np.diff(copies["row"]) != 0) | (np.diff(copies["bookie"]) != 0)
    copies = copies[is_first]
    by_name = {}
    for some in np.split(copies, np.flatnonzero(np.diff(copies["bookie"])) + 1):
        by_name[survey.bookie_names[int(some["bookie"][0])]] = some
    for bookie, some in sorted(by_name.items()):
        yield _on_missing(rows[some["row"]], bookie, int(some["is_dark"].sum()))


def _fragments_of(survey: Survey, rows: Table) -> Iterator[tuple[Int64, Int64]]:
    """Yield fragments with entries of some ledgers, in bounded groups: indexes of the rows, and their bookies.

    Bookies have the shape (fragments, ensemble size), and are rows of `Survey.bookie_names`.
    """
    if not rows.size:
        return
    ids = np.ascontiguousarray(rows["ledger_id"])
    last = np.where(rows["state"] == LedgerState.CLOSED, rows["last_entry"], _ENDLESS)
    for start in range(0, survey.fragments.size, _AT_ONCE):
        some = survey.fragments[start : start + _AT_ONCE]
        places = np.minimum(np.searchsorted(ids, some["ledger_id"]), ids.size - 1)
        is_used = (ids[places] == some["ledger_id"]) & (last[places] >= some["first_entry"])
        places, some = places[is_used], some[is_used]
        for size in np.unique(some["size"]).tolist():
            of_size = some["size"] == size
            members = some["first_member"][of_size][:, np.newaxis] + np.arange(size)
            yield places[of_size], survey.members["bookie"][members]


def _copies_on(is_gone: Mask, rows: Table, places: Int64, members: Int64) -> Table:
    """Return a row of `_COPY` for each missing bookie in each fragment."""
    gone = is_gone[members]
    quorums = rows["write_quorum"][places]
    is_dark = np.zeros(places.size, np.bool_)
    for quorum in np.unique(quorums).tolist():
        of_quorum = quorums == quorum
        # An entry's copies are on write-quorum many neighbours of the ensemble, which is a ring.
        copies = gone[of_quorum]
        neighbours = [np.roll(copies, -k, axis=1) for k in range(max(1, min(quorum, members.shape[1])))]
        is_dark[of_quorum] = np.logical_and.reduce(neighbours).any(axis=1)
    fragments, _ = np.nonzero(gone)
    found = np.empty(fragments.size, _COPY)
    found["bookie"], found["row"], found["is_dark"] = members[gone], places[fragments], is_dark[fragments]
    return found


def _on_missing(rows: Table, bookie: str, dark: int) -> Finding:
    worst = f"; {dark:,} have entries without a copy on any available bookie" if dark else ""
    return Finding(
        FindingKind.UNDER_REPLICATED,
        f"bookie {bookie}",
        tuple(np.sort(rows["ledger_id"]).tolist()),
        int(rows["length"].sum()),
        0,
        f"{rows.size:,} ledgers have entries on this bookie, which is not in /ledgers/available (a killed bookie stays up to 30 s){worst}",
        f"start the bookie, or run `bookkeeper shell recover {bookie}` (autorecovery does the same)",
    )


def _with_entries(survey: Survey) -> Table:
    """Return the rows of Pulsar's ledgers that have, or may have, entries."""
    ledgers = survey.ledgers
    pulsar = survey.words.index(PULSAR) if PULSAR in survey.words else -2
    is_empty = (ledgers["state"] == LedgerState.CLOSED) & (ledgers["last_entry"] < 0)
    found: Table = ledgers[(ledgers["application"] == pulsar) & ~is_empty]
    return found

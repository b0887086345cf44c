"""What a cluster has lost, or may lose next: listed ledgers that are nowhere, and ledgers on bookies that are not available.

Pure functions over a survey. A list that was read after the ledgers names newer ones, too, so that one look shows loss where there is none:
whoever tells users of it looks twice.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ledgerfs.clusters.findings import Finding, FindingKind
from ledgerfs.clusters.orphans import PULSAR
from ledgerfs.clusters.ownership import is_in
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tables import Table
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs.formats.topic_names import topic_of

_ENDLESS = 2**63 - 1
"""The last entry of a ledger that is still written."""


def lost_ledgers(survey: Survey) -> Table:
    """Return rows of `LISTED` that are not offloaded completely, and not in BookKeeper; without those that are listed as empty."""
    listed = survey.listed[~survey.listed["is_complete"]]
    is_empty = (listed["entries"] == 0) & (listed["closed_ms"] != 0)
    is_there = is_in(listed["ledger_id"], survey.ledgers["ledger_id"])
    if survey.damaged_ledgers:
        is_there |= is_in(listed["ledger_id"], np.array(sorted(survey.damaged_ledgers), np.int64))
    found: Table = listed[~is_empty & ~is_there]
    return found


def listed_before(survey: Survey, rows: Table) -> Table:
    """Return those of some rows of `LISTED` whose lists have not changed since ledgers were read: others may name newer ones.

    An id does not tell: it is given before the ledger is made, and later ones may be made sooner.
    """
    found: Table = rows[survey.topic_table["changed_ms"][rows["topic"]] < survey.began_ms]
    return found


def lost_findings(survey: Survey, rows: Table) -> Iterator[Finding]:
    """Yield a finding for each topic with ledgers that are lost."""
    for topic in np.unique(rows["topic"]).tolist():
        some = rows[rows["topic"] == topic]
        has_attempts = bool((some["has_context"] & (some["uuid_high"] != 0)).any())
        objects = "; an attempt to offload is not complete: its objects may be whole" if has_attempts else ""
        yield Finding(
            FindingKind.LOST_LEDGER,
            topic_of(survey.topics[topic]),
            tuple(some["ledger_id"].tolist()),
            -1 if (some["entries"] == 0).any() else int(some["size"].sum()),
            0,
            f"listed, not offloaded completely, and BookKeeper has no such ledger{objects}",
            "restore the ledger from a backup or a copy; readers get past it only with autoSkipNonRecoverableData=true in broker.conf",
        )


def missing_bookies(survey: Survey) -> frozenset[str]:
    """Return the bookies that ensembles of Pulsar's ledgers name, and that are not available."""
    rows = _with_entries(survey)["bookies"]
    used = {bookie for row in np.unique(rows).tolist() for _, part in survey.ensembles[row] for bookie in part}
    return frozenset(used - survey.bookies)


def under_replicated(survey: Survey, missing: frozenset[str]) -> Iterator[Finding]:
    """Yield a finding for each bookie of some that are missing: the ledgers that have entries there."""
    rows = _with_entries(survey)
    if not (rows.size and missing):
        return
    rows = rows[np.lexsort((rows["write_quorum"], rows["bookies"]))]
    last = np.where(rows["state"] == LedgerState.CLOSED, rows["last_entry"], _ENDLESS)
    on, dark = (np.zeros((len(missing), rows.size), np.bool_) for _ in range(2))
    numbers = {bookie: number for number, bookie in enumerate(sorted(missing))}
    edges = np.flatnonzero((np.diff(rows["bookies"]) != 0) | (np.diff(rows["write_quorum"]) != 0)) + 1
    for start, end in pairwise([0, *edges.tolist(), rows.size]):
        quorum = int(rows["write_quorum"][start])
        for first, bookies in survey.ensembles[int(rows["bookies"][start])]:
            gone, is_used = missing.intersection(bookies), last[start:end] >= first
            for bookie in gone:
                on[numbers[bookie], start:end] |= is_used
                if _is_dark(bookies, gone, quorum):
                    dark[numbers[bookie], start:end] |= is_used
    for bookie, number in numbers.items():
        if on[number].any():
            yield _on_missing(rows[on[number]], bookie, int(dark[number].sum()))


def _on_missing(rows: Table, bookie: str, dark: int) -> Finding:
    worst = f"; {dark:,} have entries of which no copy is on an available bookie" if dark else ""
    return Finding(
        FindingKind.UNDER_REPLICATED,
        f"bookie {bookie}",
        tuple(np.sort(rows["ledger_id"]).tolist()),
        int(rows["length"].sum()),
        0,
        f"{rows.size:,} ledgers have entries on it, and it is not in /ledgers/available, where a killed bookie stays up to 30 s{worst}",
        f"start the bookie, or bookkeeper shell recover {bookie} (autorecovery does that, too)",
    )


def _is_dark(bookies: Sequence[str], gone: frozenset[str], quorum: int) -> bool:
    """Whether all copies of some entry are on bookies that are gone."""
    size = len(bookies)
    return any(all(bookies[(first + k) % size] in gone for k in range(quorum)) for first in range(size))


def _with_entries(survey: Survey) -> Table:
    """Return the rows of Pulsar's ledgers that have entries, or may have."""
    ledgers = survey.ledgers
    pulsar = survey.words.index(PULSAR) if PULSAR in survey.words else -2
    is_empty = (ledgers["state"] == LedgerState.CLOSED) & (ledgers["last_entry"] < 0)
    found: Table = ledgers[(ledgers["application"] == pulsar) & ~is_empty]
    return found

"""Missing ledgers that schemas and compaction reference: pure functions over a snapshot.

Brokers reference a ledger after they create it, and delete it after they reference another; of schemas they delete ledgers first. So one
snapshot may show findings in a healthy cluster: confirm by a second check. Other subscriptions' ledgers have no messages; not judged.
"""

from collections.abc import Iterator
from enum import IntEnum

import numpy as np

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.ownership import are_of_compaction, are_there
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table, parts_by


class Namer(IntEnum):
    """Kind of reference to a ledger."""

    SCHEMA = 0
    """A schema locator."""
    COMPACTED = 1
    """The state of the compaction cursor, which references the compacted topic."""
    COMPACTION = 2
    """The node of the compaction cursor, which references the ledger of its state."""


_SAID = {
    Namer.SCHEMA: (
        FindingKind.LOST_SCHEMA_LEDGER,
        "BookKeeper lacks the ledgers of schema versions {}, which the schema locator references: their values cannot be decoded",
        (
            "for readers, set the schema with `ledgerfs schemas set`, if you have it; for producers, run `pulsar-admin schemas "
            "delete --force` and upload it again, which begins at version 0"
        ),
    ),
    Namer.COMPACTED: (
        FindingKind.LOST_COMPACTED_LEDGER,
        (
            "BookKeeper lacks the ledger of the compacted topic, which the compaction cursor references: consumers "
            "with readCompacted fail, and the next compaction fails, too, since it reads this ledger"
        ),
        "restore the ledger from a backup or a copy; other consumers and ledgerfs still read the uncompacted ledgers of the topic",
    ),
    Namer.COMPACTION: (
        FindingKind.LOST_COMPACTED_LEDGER,
        (
            "BookKeeper lacks the cursor ledger of compaction: a broker that loads the "
            "topic falls back to position {}, and may not find the compacted topic"
        ),
        "restore the ledger from a backup or a copy before a broker loads the topic; else the next compaction loses old messages",
    ),
}
"""Kind, evidence and repair step of a finding, by reference."""

GONE = np.dtype([("namer", "i1"), ("ledger_id", "i8"), ("row", "i8")])
"""A missing ledger; ``row`` is the row of its reference in `Survey.schemas` or `Survey.cursors`."""


def gone_ledgers(survey: Survey) -> Table:
    """Return rows of `GONE` in a snapshot, without references in states that could not be read."""
    cursors, is_compaction = survey.cursors, are_of_compaction(survey)
    is_reported = is_compaction & ~cursors["is_stale"] & (cursors["compacted_ledger"] >= 0)
    is_in_a_ledger = cursors["cursors_ledger"] >= 0
    return np.concatenate(
        [
            _gone(survey, survey.schemas, Namer.SCHEMA),
            _gone(survey, cursors, Namer.COMPACTED, "compacted_ledger", is_reported),
            _gone(survey, cursors, Namer.COMPACTION, "cursors_ledger", is_compaction & is_in_a_ledger),
        ]
    )


def unread_compactions(survey: Survey) -> int:
    """Return how many compaction cursors have an unread state: their compacted topics may be missing."""
    return int((are_of_compaction(survey) & survey.cursors["is_stale"]).sum())


def gone_findings(survey: Survey, rows: Table) -> Iterator[Finding]:
    """Yield a finding for each schema and each compacted topic with missing ledgers."""
    schemas = rows[rows["namer"] == Namer.SCHEMA]
    for some in parts_by(schemas, survey.schemas["name"][schemas["row"]]):
        name = survey.words[int(survey.schemas["name"][some["row"][0]])]
        versions = ", ".join(map(str, np.sort(survey.schemas["version"][some["row"]]).tolist()))
        yield _finding(Namer.SCHEMA, f"schema {name}", some["ledger_id"], versions)
    for row in rows[rows["namer"] != Namer.SCHEMA]:
        cursor = survey.cursors[int(row["row"])]
        topic, position = (
            topic_of(survey.topics[int(cursor["topic"])]),
            f"{cursor['mark_ledger']}:{cursor['mark_entry']}",
        )
        yield _finding(Namer(int(row["namer"])), topic, row["ledger_id"], position)


def _finding(namer: Namer, subject: str, ledger_ids: Int64, *reported: str) -> Finding:
    kind, evidence, mend = _SAID[namer]
    return Finding(kind, subject, tuple(np.unique(ledger_ids).tolist()), -1, 0, evidence.format(*reported), mend)


def _gone(survey: Survey, table: Table, namer: Namer, column: str = "ledger_id", only: Mask | None = None) -> Table:
    """Return rows of `GONE` for the references in a column, optionally of some rows only."""
    ids = table[column]
    is_gone = ~are_there(survey, ids)
    if only is not None:
        is_gone &= only
    places = np.flatnonzero(is_gone)
    found = np.empty(places.size, GONE)
    found["namer"], found["row"] = namer, places
    found["ledger_id"] = ids[places]
    return found

"""Ledgers of a dump that nothing names, and whose owners have changed since it was begun: pure functions over its survey.

A dump is one look. Ledgers are read before what names them, so what a broker trims, or replaces, in between looks like an orphan.
"""

import numpy as np

from ledgerfs.clusters.ownership import COMPACTED, COMPACTION, MANAGED_LEDGER, SCHEMA
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tables import Table
from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import decode_topic, managed_ledger_of


def with_unchanged_owners(survey: Survey, rows: Table, before_ms: int) -> Table:
    """Return those of some rows of `LEDGER` whose owners are as they were at a time, or are not there."""
    if not rows.size:
        return rows
    changed = _Changed(survey, before_ms)
    # Row -1 is that of no word.
    words = [*survey.words, None]
    whose = [rows[name].tolist() for name in ("component", "owner", "cursor")]
    is_changed = {
        key: changed.is_owner(words[key[0]], words[key[1]], words[key[2]]) for key in set(zip(*whose, strict=True))
    }
    found: Table = rows[[not is_changed[key] for key in zip(*whose, strict=True)]]
    return found


class _Changed:
    """The lists, subscriptions and locators that were set since a time."""

    __slots__ = ("_compacting", "_cursors", "_of_cursors", "_schemas", "_topics")

    def __init__(self, survey: Survey, before_ms: int) -> None:
        topics = np.flatnonzero(survey.topic_table["changed_ms"] >= before_ms).tolist()
        self._topics = frozenset(survey.topics[row] for row in topics)
        cursors = survey.cursors[survey.cursors["changed_ms"] >= before_ms]
        self._cursors = frozenset(_names(survey, cursors))
        self._of_cursors = frozenset(topic for topic, _ in self._cursors)
        # The state of a subscription in use changes without its node, and names another compacted ledger.
        in_use = survey.cursors[survey.cursors["cursors_ledger"] >= 0]
        compacting = {topic for topic, cursor in _names(survey, in_use) if cursor == COMPACTION}
        self._compacting = frozenset(compacting | {topic for topic, cursor in self._cursors if cursor == COMPACTION})
        schemas = survey.schemas["name"][survey.schemas["changed_ms"] >= before_ms]
        self._schemas = frozenset(decode_topic(survey.words[row]) for row in np.unique(schemas).tolist())

    def is_owner(self, component: str | None, owner: str | None, cursor: str | None) -> bool:
        """Whether what custom metadata tell of an owner is one of these."""
        if owner is None:
            return False
        if component == MANAGED_LEDGER:
            return owner in self._topics if cursor is None else (owner, cursor) in self._cursors
        if component == SCHEMA:
            return decode_topic(owner) in self._schemas
        try:
            topic = managed_ledger_of(owner)
        except InvalidNameError:
            return False
        return topic in (self._compacting if component == COMPACTED else self._of_cursors)


def _names(survey: Survey, cursors: Table) -> list[tuple[str, str]]:
    """Return the managed ledger and the name of each of some rows of `CURSOR`."""
    pairs = zip(cursors["topic"].tolist(), cursors["name"].tolist(), strict=True)
    return [(survey.topics[topic], survey.cursor_names[name]) for topic, name in pairs]

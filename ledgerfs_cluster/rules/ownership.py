"""Whose a ledger is: what a survey's lists, cursors and schemas name, and what may be named where a node could not be read.

A damaged list is never "no owner": whatever it may name is left alone.
"""

from collections.abc import Container
from enum import Enum
from functools import reduce
from urllib.parse import unquote_plus

import numpy as np

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import managed_ledger_of as managed_ledger_of_topic
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, cursor_of, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.snapshot.survey import Survey

MANAGED_LEDGER, SCHEMA = "managed-ledger", "schema"
COMPACTED, DELAYED = "compacted-ledger", "delayed-index-bucket"


class Claim(Enum):
    """What is known of the owner of a ledger that nothing names."""

    NONE = "none"
    """Everything that could name it was read."""
    UNREADABLE = "unreadable"
    """What would name it could not be read."""
    UNCLEAR = "unclear"
    """It is not known where its owner would be: of another component, or without a name."""
    IN_USE = "in use"
    """It is named only when it is finished: compaction may be running."""


def named_ledgers(survey: Survey) -> Int64:
    """Return the ids of all ledgers that anything names, sorted, each once."""
    cursors = survey.cursors
    columns = (
        survey.listed["ledger_id"],
        cursors["cursors_ledger"],
        cursors["compacted_ledger"],
        survey.schemas["ledger_id"],
        survey.delayed["ledger_id"],
    )
    return reduce(np.union1d, columns)


def is_in(ids: Int64, sorted_ids: Int64) -> Mask:
    """Return which ids are among sorted ones; shape (ids,)."""
    if not sorted_ids.size:
        return np.zeros(ids.size, np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), sorted_ids.size - 1)
    found: Mask = sorted_ids[places] == ids
    return found


def are_there(survey: Survey, ids: Int64) -> Mask:
    """Return which ids are of ledgers that BookKeeper has, also those whose nodes are damaged; shape (ids,)."""
    damaged = np.array(sorted(survey.damaged_ledgers), np.int64)
    return is_in(ids, survey.ledgers["ledger_id"]) | is_in(ids, damaged)


def is_at_or_below(path: str, folders: Container[str]) -> bool:
    """Whether a path, or a folder above it, is among some: of a folder that may not be listed nobody knows what is below."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


class Claims:
    """Tells what may name a ledger that nothing of a survey names."""

    __slots__ = ("_cursors", "_of_cursors", "_schemas", "_topics", "_unknown_compaction", "topics")

    def __init__(self, survey: Survey) -> None:
        self.topics = frozenset(survey.topics)
        paths = [one.path for one in survey.damaged]
        self._topics = frozenset(filter(None, map(managed_ledger_of, paths)))
        self._cursors = frozenset(filter(None, map(cursor_of, paths)))
        self._of_cursors = frozenset(topic for topic, _ in self._cursors)
        below = [path.removeprefix(f"{SCHEMAS}/") for path in paths if path.startswith(f"{SCHEMAS}/")]
        self._schemas = frozenset(map(unquote_plus, below))
        self._unknown_compaction = frozenset(_stale(survey, COMPACTION))

    @property
    def damaged_topics(self) -> frozenset[str]:
        """Managed ledgers whose lists could not be read."""
        return self._topics

    def of(self, component: str | None, owner: str | None, cursor: str | None, *, is_open: bool) -> Claim:
        """Return what is known of the owner that a ledger's custom metadata tells."""
        if owner is None:
            return Claim.UNCLEAR
        if component == SCHEMA:
            return Claim.UNREADABLE if is_at_or_below(unquote_plus(owner), self._schemas) else Claim.NONE
        if component == MANAGED_LEDGER:
            return self._of_topic(owner, cursor)
        if component in {COMPACTED, DELAYED}:
            return self._of_topics_own(component, owner, is_open=is_open)
        return Claim.UNCLEAR

    def _of_topic(self, name: str, cursor: str | None) -> Claim:
        if managed_ledger_of(f"{MANAGED_LEDGERS}/{name}") != name:
            # A walk does not look for a list there.
            return Claim.UNCLEAR
        is_unreadable = name in self._topics or (cursor is not None and (name, cursor) in self._cursors)
        return Claim.UNREADABLE if is_unreadable else Claim.NONE

    def _of_topics_own(self, component: str, topic: str, *, is_open: bool) -> Claim:
        try:
            name = managed_ledger_of_topic(topic)
        except InvalidNameError:
            return Claim.UNCLEAR
        if name in self._topics or (name in self._of_cursors if component == DELAYED else self._hides_compacted(name)):
            return Claim.UNREADABLE
        is_compacting = component == COMPACTED and is_open and name in self.topics
        return Claim.IN_USE if is_compacting else Claim.NONE

    def _hides_compacted(self, name: str) -> bool:
        return (name, COMPACTION) in self._cursors or name in self._unknown_compaction


def _stale(survey: Survey, cursor: str) -> list[str]:
    """Return the managed ledgers whose cursor of this name may be further than its node tells."""
    if cursor not in survey.cursor_names:
        return []
    rows = survey.cursors[survey.cursors["is_stale"] & (survey.cursors["name"] == survey.cursor_names.index(cursor))]
    return [survey.topics[topic] for topic in rows["topic"].tolist()]

"""Owners of ledgers: references in a snapshot's lists, cursors and schemas, and possible owners in unreadable nodes.

A damaged list is never "no owner": all ledgers that it may contain are left alone.
"""

from collections.abc import Container
from functools import reduce
from urllib.parse import unquote_plus

import numpy as np

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import managed_ledger_of as managed_ledger_of_topic
from ledgerfs.formats.topic_names import split_partition
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, cursor_of, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.snapshot.survey import Survey

MANAGED_LEDGER, SCHEMA = "managed-ledger", "schema"
COMPACTED, DELAYED = "compacted-ledger", "delayed-index-bucket"


def named_ledgers(survey: Survey) -> Int64:
    """Return the ids of all referenced ledgers, sorted and unique."""
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
    """Return which ids are in a sorted array; shape (ids,)."""
    if not sorted_ids.size:
        return np.zeros(ids.size, np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), sorted_ids.size - 1)
    found: Mask = sorted_ids[places] == ids
    return found


def are_there(survey: Survey, ids: Int64) -> Mask:
    """Return which ids exist in BookKeeper, also those with damaged nodes; shape (ids,)."""
    damaged = np.array(sorted(survey.damaged_ledgers), np.int64)
    return is_in(ids, survey.ledgers["ledger_id"]) | is_in(ids, damaged)


def is_at_or_below(path: str, folders: Container[str]) -> bool:
    """Return whether a path or one of its parents is in ``folders``: the children of an unlisted folder are unknown."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


class DamagedOwners:
    """Unreadable possible owners of ledgers: lists, subscriptions, and schema locators or their folders."""

    __slots__ = ("_compacted", "_cursors", "_of_cursors", "_schemas", "topics")

    def __init__(self, survey: Survey) -> None:
        paths = [one.path for one in survey.damaged]
        below = (path.removeprefix(f"{SCHEMAS}/") for path in paths if path.startswith(f"{SCHEMAS}/"))
        is_stale = are_of_compaction(survey) & survey.cursors["is_stale"]
        stale = {survey.topics[row] for row in survey.cursors["topic"][is_stale].tolist()}
        self.topics = frozenset(filter(None, map(managed_ledger_of, paths)))
        self._cursors = frozenset(filter(None, map(cursor_of, paths)))
        self._of_cursors = frozenset(topic for topic, _ in self._cursors)
        self._schemas = frozenset(map(unquote_plus, below))
        self._compacted = stale | {topic for topic, cursor in self._cursors if cursor == COMPACTION}

    def may_name(self, component: str | None, owner: str | None, cursor: str | None) -> bool | None:
        """Return whether one of them may own a ledger with these custom metadata; None if its kind of owner is unknown."""
        if owner is None or component not in {SCHEMA, MANAGED_LEDGER, COMPACTED, DELAYED}:
            return None
        if component == SCHEMA:
            return is_at_or_below(unquote_plus(owner), self._schemas)
        topic = topic_made_for(component, owner)
        # Snapshots read lists at these paths only.
        if managed_ledger_of(f"{MANAGED_LEDGERS}/{topic}") != topic:
            return None
        if component == MANAGED_LEDGER:
            return topic in self.topics or (topic, cursor) in self._cursors
        return topic in self.topics or topic in (self._compacted if component == COMPACTED else self._of_cursors)


def made_for(survey: Survey, row: np.void) -> tuple[str | None, str | None, str | None]:
    """Return component, owner and cursor from the custom metadata of a ledger, a row of `LEDGER`."""
    component, owner, cursor = (
        None if row[name] < 0 else survey.words[int(row[name])] for name in ("component", "owner", "cursor")
    )
    return component, owner, cursor


def topic_made_for(component: str, owner: str) -> str:
    """Return the managed ledger of the topic that a ledger was created for; for a schema, the schema's topic."""
    if component == MANAGED_LEDGER:
        return owner
    try:
        return managed_ledger_of_topic(f"persistent://{owner}" if component == SCHEMA else owner)
    except InvalidNameError:
        return owner


def known_topics(survey: Survey) -> frozenset[str]:
    """Return the managed ledgers of a cluster, and the topics that they are partitions of."""
    return frozenset(survey.topics) | {split_partition(one)[0] for one in survey.topics}


def are_of_compaction(survey: Survey) -> Mask:
    """Return which rows of `CURSOR` are compaction cursors."""
    if COMPACTION not in survey.cursor_names:
        return np.zeros(survey.cursors.size, np.bool_)
    found: Mask = survey.cursors["name"] == survey.cursor_names.index(COMPACTION)
    return found

"""Whose a ledger is: what a survey's lists, cursors and schemas name, and what may be named where a node could not be read.

A damaged list is never "no owner": whatever it may name is left alone.
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


class DamagedOwners:
    """What may name ledgers and could not be read: lists, subscriptions, and locators of schemas or folders of them."""

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
        """Return whether one of them may name a ledger with these custom metadata; None where nobody knows what would name it."""
        if owner is None or component not in {SCHEMA, MANAGED_LEDGER, COMPACTED, DELAYED}:
            return None
        if component == SCHEMA:
            return is_at_or_below(unquote_plus(owner), self._schemas)
        topic = topic_made_for(component, owner)
        # A walk does not look for a list at other paths.
        if managed_ledger_of(f"{MANAGED_LEDGERS}/{topic}") != topic:
            return None
        if component == MANAGED_LEDGER:
            return topic in self.topics or (topic, cursor) in self._cursors
        return topic in self.topics or topic in (self._compacted if component == COMPACTED else self._of_cursors)


def made_for(survey: Survey, row: np.void) -> tuple[str | None, str | None, str | None]:
    """Return the component, the owner and the cursor that the custom metadata of a ledger have, a row of `LEDGER`."""
    component, owner, cursor = (
        None if row[name] < 0 else survey.words[int(row[name])] for name in ("component", "owner", "cursor")
    )
    return component, owner, cursor


def topic_made_for(component: str, owner: str) -> str:
    """Return the managed ledger of the topic that a ledger was made for; of a schema, that of its topic."""
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
    """Return which rows of `CURSOR` are cursors of compaction."""
    if COMPACTION not in survey.cursor_names:
        return np.zeros(survey.cursors.size, np.bool_)
    found: Mask = survey.cursors["name"] == survey.cursor_names.index(COMPACTION)
    return found

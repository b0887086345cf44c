"""What is written to each topic, as the ledgers that a dump lists tell it: how much, and in ledgers of which size."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.expiry import moved_cursors
from ledgerfs.clusters.retention import slowest_of
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tables import Table
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.lifecycle.simulation.columns import ClosedLedgers, Floats, Topics

HISTORY_S = 14 * 86400.0
"""How much of the past is looked at, unless told."""
LEAST_S = 3600.0
"""The least time that what was written counts as written in: a topic that began a minute ago does not go on like that."""
ROLLOVER_S = 4 * 3600.0
"""The longest time that brokers write to a ledger, unless configured: for topics of which none was closed."""
_SILENCE = 3.0
"""Where nothing is known of the last ledger, so many of the longest times between two closings count as written in like before."""
_USUAL_QUORUM = 2


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Topics and ledgers of a dump, with what had to be assumed.

    Attributes
    ----------
    rows
        The row in the survey of each of ``topics``.
    silent
        Topics to which nothing was written in the history.
    one_ledger
        Topics that have one ledger, and are taken to close one every `ROLLOVER_S`.
    unknown
        Topics of whose last ledger no bytes are known; it counts as empty.
    held_back
        Topics of which subscriptions hold ledgers back.

    """

    topics: Topics
    ledgers: ClosedLedgers
    rows: Int64
    history_s: float
    silent: int
    one_ledger: int
    unknown: int
    held_back: int


@dataclass(frozen=True, slots=True)
class _Listed:
    """All ledgers of topics that have some, with where each topic's begin and end."""

    topics: Int64
    first: Int64
    last: Int64
    rows: Table
    sizes: Floats
    closed_s: Floats
    began_s: Floats
    is_last_known: Mask


def arrivals_of(survey: Survey, broker_ttl_ms: int = 0, history_s: float = HISTORY_S) -> Arrivals:
    """Return what arrives at each topic of a survey, from the bytes of ledgers and the times at which they were closed."""
    table = survey.topic_table
    rows = np.flatnonzero(table["ledgers"] > 0)
    listed = _listed(survey, rows)
    rates, periods, elapsed = _rates(listed, history_s)
    with np.errstate(invalid="ignore", divide="ignore"):
        next_close = np.where(rates > 0, periods - np.mod(elapsed, periods), np.inf)
    open_bytes = np.where(listed.is_last_known, listed.sizes[listed.last], 0.0)
    behind = _behind(survey, rows, broker_ttl_ms)
    topics = Topics(rates, periods, next_close, open_bytes, _quorums(survey, listed), behind)
    return Arrivals(
        topics,
        _closed(listed, survey.read_ms),
        rows,
        history_s,
        int((rates == 0).sum()),
        int((table["ledgers"][rows] == 1).sum()),
        int((~listed.is_last_known).sum()),
        int((behind > 0).sum()),
    )


def _listed(survey: Survey, topic_rows: Int64) -> _Listed:
    table, now = survey.topic_table[topic_rows], survey.read_ms
    counts = table["ledgers"].astype(np.int64)
    ends = np.cumsum(counts)
    first, last = ends - counts, ends - 1
    topics = np.repeat(np.arange(topic_rows.size), counts)
    rows = survey.listed[np.repeat(table["first"] - first, counts) + np.arange(topics.size)]
    sizes = rows["size"].astype(np.float64)
    ends_told = table["last_end"]
    told = np.isin(ends_told, [LastEnd.CLOSED, LastEnd.OPEN])
    sizes[last[told]] = table["last_size"][told]
    closed = np.where(rows["closed_ms"] > 0, np.minimum(rows["closed_ms"] - now, 0) / 1000, np.nan)
    created = _created_s(survey, rows["ledger_id"])
    before = np.full(topics.size, np.nan)
    before[1:] = closed[:-1]
    before[first] = np.nan
    began = np.where(np.isnan(before), created, before)
    # Clocks of brokers and of ZooKeeper are not one.
    began = np.where(began > closed, closed, np.minimum(began, 0.0))
    return _Listed(
        topics, first, last, rows, sizes, closed, began, told | (ends_told == LastEnd.LISTED) | ~np.isnan(closed[last])
    )


def _created_s(survey: Survey, ids: Int64) -> Floats:
    """Return when the nodes of ledgers were made; not a number for those that are gone."""
    nodes = survey.ledgers
    if not nodes.size:
        return np.full(ids.size, np.nan)
    places = np.minimum(np.searchsorted(nodes["ledger_id"], ids), nodes.size - 1)
    is_there = (nodes["ledger_id"][places] == ids) & (nodes["created_ms"][places] > 0)
    return np.where(is_there, (nodes["created_ms"][places] - survey.read_ms) / 1000, np.nan)


def _rates(listed: _Listed, history_s: float) -> tuple[Floats, Floats, Floats]:
    """Return of each topic bytes a second, seconds between closings, and seconds since the last one."""
    count = listed.first.size
    is_last = np.zeros(listed.topics.size, np.bool_)
    is_last[listed.last] = True
    is_open = np.isnan(listed.closed_s)
    ended = np.where(is_open, 0.0, listed.closed_s)
    # Of a first ledger whose node is gone it is not known how long it was written to.
    is_known = ~np.isnan(listed.began_s) & (~is_open | (is_last & listed.is_last_known[listed.topics]))
    began = np.where(np.isnan(listed.began_s), ended, listed.began_s)
    inside = np.clip(ended - np.maximum(began, -history_s), 0.0, None)
    length = ended - began
    part = np.where(length > 0, inside / np.maximum(length, 1e-3), ended >= -history_s)
    counted = np.bincount(listed.topics, np.where(is_known, listed.sizes * part, 0.0), count)
    closings = np.bincount(listed.topics, is_known & ~is_open & (ended >= -history_s), count)
    since = np.full(count, 0.0)
    np.minimum.at(since, listed.topics, np.where(np.isnan(began), 0.0, began))
    since = np.maximum(since, -history_s)
    last_closed = np.full(count, -np.inf)
    np.maximum.at(last_closed, listed.topics, np.where(is_open, -np.inf, ended))
    longest = np.zeros(count)
    np.maximum.at(longest, listed.topics, np.where(is_open, 0.0, length))
    quiet = np.where(np.isfinite(last_closed), -last_closed, 0.0)
    # What of the time since the last closing is not known, because nobody told of the open ledger.
    unknown = np.where(listed.is_last_known, 0.0, np.minimum(quiet, _SILENCE * longest))
    window = np.maximum(-since - unknown, LEAST_S)
    rates = counted / window
    # With the time since the last closing periods would depend on it, and all topics would close ledgers at one time some day.
    between = np.where(closings > 0, np.maximum(-since - quiet, 0.0) / np.maximum(closings, 1), ROLLOVER_S)
    is_steady = (closings > 0) & (quiet <= _SILENCE * between) & (between > 0)
    periods = np.where(is_steady, between, np.maximum(window / np.maximum(closings, 1), between))
    elapsed = np.where(np.isfinite(last_closed), quiet, -since)
    return rates, np.where(rates > 0, periods, np.inf), elapsed


def _quorums(survey: Survey, listed: _Listed) -> Floats:
    """Return the write quorum of each topic: of its newest ledger that BookKeeper has, else what most ledgers have."""
    nodes = survey.ledgers
    count = listed.first.size
    if not nodes.size:
        return np.full(count, float(_USUAL_QUORUM))
    usual = int(np.bincount(np.clip(nodes["write_quorum"], 0, 1000)).argmax())
    ids = listed.rows["ledger_id"]
    places = np.minimum(np.searchsorted(nodes["ledger_id"], ids), nodes.size - 1)
    is_there = nodes["ledger_id"][places] == ids
    newest = np.full(count, -1)
    np.maximum.at(newest, listed.topics, np.where(is_there, np.arange(ids.size), -1))
    return np.where(newest >= 0, nodes["write_quorum"][places[newest]], usual).astype(np.float64)


def _behind(survey: Survey, rows: Int64, broker_ttl_ms: int) -> Floats:
    """Return for how long subscriptions need ledgers: the age of the first that they need now, or what the time to live leaves of that."""
    found = np.zeros(rows.size)
    for at, row in enumerate(rows.tolist()):
        if not survey.topic_table["cursors"][row]:
            continue
        ledgers = survey.ledgers_of(row)
        cursors, _, ttl_ms, _ = moved_cursors(survey, row, ledgers, broker_ttl_ms)
        position = slowest_of(cursors)
        if position is None:
            continue
        first = int(np.searchsorted(ledgers.ids, position[0]))
        is_at_end = (
            first < ledgers.ids.size and ledgers.ids[first] == position[0] and position[1] + 1 >= ledgers.entries[first]
        )
        first += bool(is_at_end)
        needed = ledgers.closed_ms[first:-1]
        if needed.size:
            age = max(0, survey.read_ms - int(needed[0]))
            found[at] = (min(age, ttl_ms) if ttl_ms else age) / 1000
    return found


def _closed(listed: _Listed, now_ms: int) -> ClosedLedgers:
    kept: Mask = ~np.isnan(listed.closed_s)
    kept[listed.last] = False
    rows = listed.rows[kept]
    closed = listed.closed_s[kept]
    are_offloaded = rows["is_complete"].copy()
    told = np.where(rows["offloaded_ms"] > 0, np.minimum((rows["offloaded_ms"] - now_ms) / 1000, 0.0), closed)
    return ClosedLedgers(
        listed.topics[kept],
        listed.sizes[kept],
        closed,
        are_offloaded,
        ~(are_offloaded & rows["is_deleted_from_bookkeeper"]),
        told,
    )

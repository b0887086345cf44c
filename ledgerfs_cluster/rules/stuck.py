"""What is stuck in a cluster: data that no broker lets go, ledgers that nobody ends, subscriptions that hold back, offloads that fail.

Whatever may be at work is left out: each limit is longer than what a healthy cluster takes. Where policies or owners are not known nothing
is said of a topic, and `not_known` says that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

import numpy as np

from ledgerfs.display import span
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION
from ledgerfs_cluster.rules.cursors import CursorState, cursors
from ledgerfs_cluster.rules.findings import Finding, FindingKind
from ledgerfs_cluster.rules.retention import retention
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.policies import BrokerDefaults
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import parts_by

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_LATEST_ROLLOVER = 1.05
"""Of the longest time: brokers add up to 5 % by chance, so that not all topics roll over at once."""
_OWN_CURSORS = ("__", "pulsar.")
"""What the names of subscriptions begin with that brokers have for themselves: of compaction, deduplication, replication."""


@dataclass(frozen=True, slots=True)
class StuckLimits:
    """For how long something may be so until it is stuck, ms.

    Attributes
    ----------
    expired_ms
        A topic that no broker has loaded is past its retention, and nothing of it has changed: bundles are without an owner for a while.
    open_ms
        A ledger with entries is open: the brokers' managedLedgerMaxLedgerRolloverTimeMinutes.
    inactive_ms
        A subscription was not active.
    attempt_ms
        An attempt to offload a ledger may go on.

    """

    expired_ms: int = 10 * _MINUTE_MS
    open_ms: int = 240 * _MINUTE_MS
    inactive_ms: int = 7 * 24 * _HOUR_MS
    attempt_ms: int = 2 * _HOUR_MS


def stuck(survey: Survey, defaults: BrokerDefaults, now_ms: int, limits: StuckLimits) -> Iterator[Finding]:
    """Yield all that is stuck, kind by kind."""
    yield from _unloaded_expired(survey, defaults, now_ms, limits)
    yield from _open_too_long(survey, now_ms, limits)
    yield from _inactive_cursors(survey, defaults, now_ms, limits)
    yield from _failed_offloads(survey, now_ms, limits)


def not_known(survey: Survey, now_ms: int, limits: StuckLimits) -> list[str]:
    """Return what cannot be told of this cluster, a sentence each."""
    said = []
    if not survey.owners.are_in_zookeeper:
        said.append("owners of topics are not in ZooKeeper: which topics no broker has loaded is not known")
    namespaces = survey.namespaces_not_read()
    if namespaces:
        said.append(f"policies of single topics of {len(namespaces):,} namespaces are not known")
    rows = _unfinished_rows(survey)
    young = int((survey.topic_table["changed_ms"][survey.listed["topic"][rows]] > now_ms - limits.attempt_ms).sum())
    if young:
        said.append(f"{young:,} attempts to offload a ledger are not complete, and may go on")
    return said


def _unloaded_expired(survey: Survey, defaults: BrokerDefaults, now_ms: int, limits: StuckLimits) -> Iterator[Finding]:
    """Yield topics that no broker has loaded, and so nobody trims."""
    changed = _last_changes(survey)
    for one in retention(survey, defaults, now_ms):
        if one.owner is not Owner.NONE or one.may_have_own_policies or not one.trim.going:
            continue
        # A last ledger that loading the topic would close is past its retention only then.
        since = one.trim.since_ms if one.trim.since_ms is not None and one.trim.since_ms < now_ms else None
        last_ms = int(changed[one.row])
        if max(since or 0, last_ms) > now_ms - limits.expired_ms:
            continue
        topic = topic_of(one.managed_ledger)
        evidence = (
            f"no broker has the topic loaded, and {_ledgers(len(one.trim.going))} are past the retention of the {one.policy}; "
            f"its nodes were last changed {span(now_ms - last_ms)} ago"
        )
        mend = f"pulsar-admin topics trim-topic {quote(topic)}"
        yield Finding(FindingKind.UNLOADED_EXPIRED, topic, tuple(one.ledger_ids), one.size, since or 0, evidence, mend)


def _open_too_long(survey: Survey, now_ms: int, limits: StuckLimits) -> Iterator[Finding]:
    """Yield last ledgers with entries that were not ended in time; ledgers have no time of their own, so their nodes' counts."""
    latest = int(limits.open_ms * _LATEST_ROLLOVER)
    table = survey.topic_table
    rows = np.flatnonzero((table["last_end"] == LastEnd.OPEN) & (table["last_entries"] > 0))
    ids = survey.listed["ledger_id"][table["first"][rows] + table["ledgers"][rows] - 1]
    places = np.searchsorted(survey.ledgers["ledger_id"], ids)
    for row, ledger_id, place in zip(rows.tolist(), ids.tolist(), places.tolist(), strict=True):
        # A ledger that was made after the nodes of ledgers were read is young.
        if place == survey.ledgers.size or survey.ledgers["ledger_id"][place] != ledger_id:
            continue
        created_ms = int(survey.ledgers["created_ms"][place])
        if now_ms - created_ms <= latest:
            continue
        name = survey.topics[row]
        topic, owner = topic_of(name), survey.owners.of(name)
        evidence = (
            f"ledger {ledger_id} with {int(table['last_entries'][row]):,} entries has been open for {span(now_ms - created_ms)}; "
            f"a broker ends it after {span(limits.open_ms)}, or with the next message then, but only where it has the topic loaded"
            f"{_OWNER_SAID[owner]}"
        )
        # Any question that needs the topic loads it, and loading ends the ledger.
        verb = "stats" if owner is Owner.NONE else "unload"
        since, size = created_ms + limits.open_ms, int(table["last_size"][row])
        mend = f"pulsar-admin topics {verb} {quote(topic)}"
        yield Finding(FindingKind.OPEN_TOO_LONG, topic, (ledger_id,), size, since, evidence, mend)


_OWNER_SAID = {
    Owner.NONE: ", and none has",
    Owner.SOME: ", and one may have",
    Owner.UNKNOWN: "; whether one has is not known",
}


def _inactive_cursors(survey: Survey, defaults: BrokerDefaults, now_ms: int, limits: StuckLimits) -> Iterator[Finding]:
    """Yield subscriptions that were not active for long, and hold back what retention lets go."""
    for one in cursors(survey, defaults, now_ms):
        active = _active_ms(one)
        if active > now_ms - limits.inactive_ms or one.is_stale or one.may_have_own_policies or not one.held_size:
            continue
        topic = topic_of(one.managed_ledger)
        alone = "all of them alone" if one.freed_size == one.held_size else f"{one.freed_size:,} of them alone"
        evidence = (
            f"subscription {one.name} at {one.position[0]}:{one.position[1]} was last active {span(now_ms - active)} ago, and holds back "
            f"{one.held_size:,} bytes of {_ledgers(one.held_ledgers)} that are past the retention, {alone}"
        )
        mend = _mend_of_cursor(one.name, topic)
        yield Finding(FindingKind.INACTIVE_CURSOR, topic, one.held_ids, one.held_size, active, evidence, mend)


def _mend_of_cursor(name: str, topic: str) -> str:
    if name == COMPACTION:
        return f"pulsar-admin topics compact {quote(topic)}"
    if name.startswith(_OWN_CURSORS):
        return (
            "look why the broker does not go on with it (replication, deduplication): it is no subscription of a user's"
        )
    return f"pulsar-admin topics unsubscribe -s {quote(name)} {quote(topic)}"


def _active_ms(one: CursorState) -> int:
    """Return when a subscription was active at the latest.

    While it is in use its state is in a ledger, and its node changes with that ledger, every few hours. The time in the node is that of
    consumers, which the brokers' own subscriptions do not have.
    """
    if one.last_active_ms is None or one.is_in_use or one.name.startswith(_OWN_CURSORS):
        return max(one.last_active_ms or 0, one.changed_ms)
    return one.last_active_ms


def _failed_offloads(survey: Survey, now_ms: int, limits: StuckLimits) -> Iterator[Finding]:
    """Yield attempts to offload that do not go on."""
    rows = survey.listed[_unfinished_rows(survey)]
    for some in parts_by(rows, rows["topic"]):
        row = int(some["topic"][0])
        # The list changes when an attempt begins, so each began before the last change.
        changed_ms = int(survey.topic_table["changed_ms"][row])
        if changed_ms > now_ms - limits.attempt_ms:
            continue
        topic, ledgers = topic_of(survey.topics[row]), survey.ledgers_of(row)
        is_unfinished = np.isin(ledgers.ids, some["ledger_id"])
        evidence = (
            f"the offload of {_ledgers(some.size)} began {span(now_ms - changed_ms)} ago or earlier, and is not complete; "
            "objects of the attempt may be in the bucket until the next one removes them"
        )
        # What is newer is how much is to stay in BookKeeper.
        newer = int(ledgers.sizes[np.flatnonzero(is_unfinished)[-1] + 1 :].sum())
        mend = f"pulsar-admin topics offload --size-threshold {newer} {quote(topic)}"
        ids, size = tuple(some["ledger_id"].tolist()), int(ledgers.sizes[is_unfinished].sum())
        yield Finding(FindingKind.FAILED_OFFLOAD, topic, ids, size, changed_ms, evidence, mend)


def _unfinished_rows(survey: Survey) -> Int64:
    """Return the rows of listed ledgers of which an attempt to offload is not complete."""
    listed = survey.listed
    has_attempt = (listed["uuid_high"] != 0) | (listed["uuid_low"] != 0)
    return np.flatnonzero(listed["has_context"] & ~listed["is_complete"] & has_attempt)


def _last_changes(survey: Survey) -> Int64:
    """Return when each topic's node, or one of its subscriptions, last changed, ms since 1970 UTC."""
    changed = survey.topic_table["changed_ms"].copy()
    for column in ("changed_ms", "last_active_ms"):
        np.maximum.at(changed, survey.cursors["topic"], survey.cursors[column])
    return changed


def _ledgers(count: int) -> str:
    return "1 ledger" if count == 1 else f"{count:,} ledgers"

"""Plans over surveys: what is to be done, what waits, and each thing that must not be done by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.clusters.answers import LastEnd, TopicPoliciesAnswer
from ledgerfs.clusters.survey import Survey
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState, ledger_path
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan, Refusal
from ledgerfs.lifecycle.planning.leftovers import OrphanLedger, OrphanOffload
from ledgerfs.lifecycle.planning.planning import plan_of
from ledgerfs.lifecycle.planning.situation import Notes, Orphans, Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView
from ledgerfs.lifecycle.policy.policy_file import Via, parse_policy_file
from ledgerfs.offload.attempts import Attempt
from tests.support.each import for_each
from tests.support.made_surveys import (
    DAY,
    EXTENSIBLE,
    HOUR,
    MINUTE,
    NOW,
    VERSION,
    MadeCluster,
    current,
    listed,
    uuid_of,
)

SPACE = "t/ns"
TOPIC = f"{SPACE}/persistent/x"
OFFLOADS = """
[buckets.tier]
url = "s3://tier"
[[topics]]
match = '.*'
offload_after = "1h"
bucket = "tier"
"""
BROKERS = "[broker]\nretention_minutes = 0\nretention_megabytes = 0\ndeletion_lag = '4h'\n"
KEEPS = "[broker]\nretention_minutes = -1\nretention_megabytes = -1\ndeletion_lag = '4h'\n"
"""Without this all that subscriptions have passed is past its retention."""
HOUR_LONG = "[broker]\nretention_minutes = 60\nretention_megabytes = -1\n"
NOTED = NOW + 5 * MINUTE
"""By the later one of two clocks."""
TIER = '[buckets.tier]\nurl = "s3://tier"\n'


@pytest.fixture(name="cluster")
def _cluster() -> MadeCluster:
    return MadeCluster()


def planned(cluster: MadeCluster | Survey, text: str = "", **situation: Any) -> Plan:
    file = parse_policy_file(text.encode(), Path("policy.toml"))
    survey = cluster.survey() if isinstance(cluster, MadeCluster) else cluster
    return plan_of(survey, Situation(file, NOW, NOTED, **situation))


def ids(plan: Plan, kind: ActionKind) -> list[int]:
    return sorted(one for action in plan.actions if action.kind is kind for one in action.ledger_ids)


def only(plan: Plan, kind: ActionKind) -> Action:
    (found,) = [one for one in plan.actions if one.kind is kind]
    return found


def refusals(plan: Plan) -> dict[Refusal, list[int]]:
    found: dict[Refusal, list[int]] = {}
    for one in plan.refused:
        found.setdefault(one.refusal, []).extend(one.ledger_ids)
    return found


# What is to be done.


@for_each("name", ["trimmed-1", "offloaded-1", f"trimmed-1-{uuid_of(7)}"])
def test_a_ledger_with_a_damaged_line_gets_no_other_one(name: str) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(1), listed(2), current(3)])
    unreadable = {f"/ledgerfs/lifecycle/trash/{one}": "no line" for one in (name, "no-name-of-ours")}
    found = planned(cluster, HOUR_LONG, notes=noted(unreadable=unreadable))
    assert only(found, ActionKind.MARK).ledger_ids == (2,)
    (why,) = [one.why for one in found.refused if one.ledger_ids == (1,)]
    assert name in why


def test_ledgers_are_offloaded_oldest_first_with_why_in_numbers(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * DAY), listed(2, 2 * DAY), listed(3, MINUTE), current(4)])
    found = planned(cluster, KEEPS + OFFLOADS)
    action = only(found, ActionKind.OFFLOAD)
    assert (action.managed_ledger, action.ledger_ids, action.size, action.via) == (TOPIC, (1, 2), 2000, Via.DIRECT)
    assert action.since_ms == NOW - 3 * DAY + HOUR
    assert action.why == "ledger 1 was closed 3.0 d ago, and the limit is 1.0 h by the policy file"
    assert action.rule is not None
    assert action.rule.bucket is not None
    (waits,) = found.waiting
    assert (waits.kind, waits.ledger_ids, waits.due_ms) == (ActionKind.OFFLOAD, (3,), NOW - MINUTE + HOUR)
    assert found.refused == []


def test_ledgers_over_a_size_are_offloaded_by_the_clusters_own_policy(cluster: MadeCluster) -> None:
    offload = {"managedLedgerOffloadThresholdInBytes": 1500, "managedLedgerOffloadBucket": "tier"}
    keeps = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    cluster.policies(SPACE, offload_policies=offload, retention_policies=keeps)
    cluster.topic(TOPIC, [listed(1), listed(2), listed(3), current(4)])
    found = planned(cluster, TIER)
    action = only(found, ActionKind.OFFLOAD)
    assert action.ledger_ids == (1, 2)
    assert action.why == "2.9 KiB are closed from ledger 1 on, and the limit is 1.5 KiB by the cluster's policies"
    (waits,) = found.waiting
    assert (waits.ledger_ids, waits.due_ms, waits.why) == ((3,), None, "ledger 3 is due once 501 B more are closed")


def test_a_broker_offloads_what_it_may_have_loaded(cluster: MadeCluster) -> None:
    cluster.own(SPACE)
    cluster.topic(TOPIC, [listed(1), current(2)])
    assert only(planned(cluster, KEEPS + OFFLOADS, has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER
    # With via = "broker" a broker loads it for that.
    free = MadeCluster()
    free.topic(TOPIC, [listed(1), current(2)])
    text = KEEPS + OFFLOADS + 'via = "broker"'
    assert only(planned(free, text, has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER


def test_nothing_is_offloaded_that_is_or_has_no_entries_or_is_not_wanted(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, offloaded_ms=HOUR), listed(2, entries=0, size=0), listed(3), current(4)])
    assert ids(planned(cluster, KEEPS + OFFLOADS), ActionKind.OFFLOAD) == [3]
    assert planned(cluster, KEEPS + OFFLOADS + "offload = false\ndeletion_lag = 'never'").actions == []


def test_what_is_past_retention_is_marked_and_not_offloaded(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * HOUR, offloaded_ms=HOUR), listed(2, 2 * HOUR), listed(3, MINUTE), current(4)])
    found = planned(cluster, HOUR_LONG + OFFLOADS + "trash_grace = '30m'")
    action = only(found, ActionKind.MARK)
    assert (action.ledger_ids, action.since_ms) == ((1, 2), NOW - 2 * HOUR)
    first, second = action.lines
    assert (first.kind, first.uuid, first.bucket) == (TrashKind.TRIMMED, uuid_of(1), "s3://tier")
    assert (first.version, first.size, first.state) == (VERSION, 1000, TrashState.MARKED)
    # A clock that is behind, and is set right meanwhile, makes no grace shorter.
    assert (first.marked_ms, first.due_ms) == (NOTED, NOTED + 30 * MINUTE)
    assert (second.uuid, second.bucket) == (None, None)
    assert "1.0 h and no limit of size" in action.why
    assert ids(found, ActionKind.OFFLOAD) == []
    (waits,) = [one for one in found.waiting if one.kind is ActionKind.MARK]
    assert (waits.ledger_ids, waits.due_ms) == ((3,), NOW - MINUTE + HOUR + 1)
    assert ids(planned(cluster, HOUR_LONG + OFFLOADS + "trim = false\ndeletion_lag = 'never'"), ActionKind.MARK) == []


def test_copies_past_their_lag_are_marked(cluster: MadeCluster) -> None:
    lines = [
        listed(1, offloaded_ms=3 * HOUR),
        listed(2, offloaded_ms=3 * HOUR, is_deleted=True),
        listed(3, offloaded_ms=3 * HOUR, is_complete=False),
        listed(4, offloaded_ms=HOUR),
        listed(5, offloaded_ms=3 * HOUR),
    ]
    cluster.topic(TOPIC, [*lines, current(6)], absent=[5])
    text = KEEPS + TIER + "[[topics]]\nmatch = '.*'\ndeletion_lag = '2h'"
    found = planned(cluster, text)
    action = only(found, ActionKind.MARK)
    assert (action.ledger_ids, action.since_ms) == ((1,), NOW - HOUR)
    (line,) = action.lines
    # The objects stay.
    assert (line.kind, line.uuid, line.bucket) == (TrashKind.OFFLOADED, None, None)
    assert (
        "its offload was complete 3.0 h ago, and BookKeeper keeps its copy for 2.0 h by the policy file" in action.why
    )
    (waits,) = [one for one in found.waiting if one.kind is ActionKind.MARK]
    assert (waits.ledger_ids, waits.due_ms) == ((4,), NOW + HOUR + 1)
    # Brokers wait for four hours unless they are told otherwise.
    assert ids(planned(cluster, KEEPS + TIER), ActionKind.MARK) == []
    assert ids(planned(cluster, text.replace("'2h'", "'never'")), ActionKind.MARK) == []


def test_a_broker_is_asked_to_trim_by_its_own_policies(cluster: MadeCluster) -> None:
    cluster.own(SPACE)
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), listed(2, MINUTE, offloaded_ms=5 * HOUR), current(3)])
    found = planned(cluster, HOUR_LONG + TIER, has_admin=True)
    action = only(found, ActionKind.TRIM)
    assert (action.ledger_ids, action.via, action.lines) == ((1, 2), Via.BROKER, ())
    assert "1 offloaded ledgers are past the brokers' lag of 4.0 h" in action.why
    assert ids(found, ActionKind.MARK) == []
    # A lag of the file's is none that a broker knows: it would be asked in vain again and again.
    cluster = MadeCluster()
    cluster.own(SPACE)
    cluster.topic(TOPIC, [listed(1, MINUTE, offloaded_ms=HOUR), current(3)])
    lag = "[[topics]]\nmatch = '.*'\ndeletion_lag = '1s'"
    found = planned(cluster, HOUR_LONG + TIER + lag, has_admin=True)
    assert found.actions == []
    assert [one.due_ms for one in found.waiting if one.kind is ActionKind.TRIM and "BookKeeper" in one.why] == [
        NOW + 3 * HOUR + 1
    ]


def test_a_broker_is_not_asked_for_what_deletes_copies_that_the_file_keeps(cluster: MadeCluster) -> None:
    cluster.own(SPACE)
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), listed(2, MINUTE, offloaded_ms=5 * HOUR), current(3)])
    for lag in ("never", "6h"):
        wish = f"[[topics]]\nmatch = '.*'\ndeletion_lag = '{lag}'"
        found = planned(cluster, HOUR_LONG + "deletion_lag = '4h'\n" + TIER + wish, has_admin=True)
        assert found.actions == []
        (refused,) = [one for one in found.refused if one.kind is ActionKind.TRIM]
        assert (refused.refusal, refused.ledger_ids) == (Refusal.BROKERS_LAG, (1, 2))
    wish = "[[topics]]\nmatch = '.*'\ndeletion_lag = '4h'"
    found = planned(cluster, HOUR_LONG + "deletion_lag = '4h'\n" + TIER + wish, has_admin=True)
    assert only(found, ActionKind.TRIM).ledger_ids == (1, 2)


def test_a_broker_is_not_asked_to_offload_to_another_bucket_than_the_file_wants(cluster: MadeCluster) -> None:
    cluster.own(SPACE)
    offload = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "tier"}
    cluster.policies(SPACE, offload_policies=offload)
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), current(2)])
    buckets = TIER + '[buckets.vault]\nurl = "s3://vault"\n'
    wish = "[[topics]]\nmatch = '.*'\noffload_after = '1h'\nbucket = "
    found = planned(cluster, KEEPS + buckets + wish + "'vault'", has_admin=True)
    assert found.actions == []
    (refused,) = found.refused
    assert (refused.kind, refused.refusal) == (ActionKind.OFFLOAD, Refusal.OTHER_BUCKET)
    assert "to bucket tier of the policy file, which wants bucket vault" in refused.why
    assert (
        only(planned(cluster, KEEPS + buckets + wish + "'tier'", has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER
    )


def test_what_is_called_deleted_and_is_there_is_marked_after_a_grace(cluster: MadeCluster) -> None:
    lines = [listed(1, offloaded_ms=DAY, is_deleted=True), listed(2, offloaded_ms=DAY, is_deleted=True), current(3)]
    cluster.topic(TOPIC, lines, there=[1])
    (line,) = only(planned(cluster, KEEPS + TIER), ActionKind.MARK).lines
    assert (line.kind, line.ledger_id) == (TrashKind.FLAGGED, 1)
    young = MadeCluster()
    young.topic(TOPIC, lines, there=[1], age_ms=MINUTE)
    found = planned(young, KEEPS + TIER)
    assert (found.actions, [one.due_ms for one in found.waiting]) == ([], [NOW - MINUTE + HOUR])


ORPHAN = OrphanLedger(
    70, 2, 500, "managed-ledger", TOPIC, is_closed=True, is_known=True, created_ms=NOW - DAY, changed_ms=NOW - DAY
)
OBJECTS = OrphanOffload(71, uuid_of(71), "s3://tier", TOPIC, is_known=True, size=900, modified_ms=NOW - DAY)


ORPHANS = "[defaults]\norphans = true\nbucket = 'tier'\n"


def test_orphans_are_marked_if_the_file_wants_it(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(75), current(80)])
    orphans = Orphans([ORPHAN], [OBJECTS])
    assert planned(cluster, KEEPS + TIER, orphans=orphans).actions == []
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans)
    lines = {line.kind: line for action in found.actions for line in action.lines}
    assert {one.kind for one in found.actions} == {ActionKind.MARK}
    assert (lines[TrashKind.ORPHAN].ledger_id, lines[TrashKind.ORPHAN].version) == (70, 2)
    assert (lines[TrashKind.OBJECTS].uuid, lines[TrashKind.OBJECTS].bucket) == (uuid_of(71), "s3://tier")
    # Whatever two looks said before: what this survey names is none.
    cluster.topic(f"{SPACE}/persistent/y", [listed(70), listed(71, offloaded_ms=0), current(72)])
    again = planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans)
    assert again.actions == []


@for_each(
    ("orphan", "why"),
    [
        (replace(ORPHAN, ledger_id=99), "whose list begins at ledger 75, and does not name it: it was set back"),
        # A broker has loaded the topic since, and made ledger 80.
        (replace(ORPHAN, ledger_id=77), "whose list begins at ledger 75, and does not name it: it was set back"),
        (replace(ORPHAN, created_ms=NOW - DAY - 1), "whose list was made later"),
    ],
)
def test_ledgers_that_their_topic_lost_with_its_list_stay(orphan: OrphanLedger, why: str) -> None:
    """A list is restored from an older dump, or lost, and a broker has loaded the topic since: what it does not name are rows."""
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([orphan], []))
    assert found.actions == []
    ((refused),) = found.refused
    assert (refused.refusal, refused.ledger_ids) == (Refusal.LOST_LIST, (orphan.ledger_id,))
    assert why in refused.why
    # Whatever it was marked for before.
    for kind in (TrashKind.ORPHAN, TrashKind.FLAGGED):
        line = line_of(kind, orphan.ledger_id)
        found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([orphan], []), notes=noted(line))
        assert only(found, ActionKind.CLEAN).lines == (line,)
    # What has no entries has no rows, and states of subscriptions are none: but they go with the list that they are of.
    is_anew = why == "whose list was made later"
    for one, stays in ((replace(orphan, size=0), False), (replace(orphan, has_states=True), is_anew)):
        planned_so = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([one], []))
        assert bool(planned_so.actions) is not stays
        assert [one.refusal for one in planned_so.refused] == [Refusal.LOST_LIST] * stays


def test_patterns_that_no_topic_comes_to_are_told(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    text = "".join(f"[[topics]]\nmatch = '{one}'\ntrim = false\n" for one in ("t/ms/.*", "t/ns/.*", "t/ns/x"))
    found = [one for one in planned(cluster, text).refused if one.refusal is Refusal.NO_TOPIC]
    assert [one.subject for one in found] == ["[[topics]] match = 't/ms/.*'", "[[topics]] match = 't/ns/x'"]


@for_each(
    ("offload", "lines", "absent", "why"),
    [
        (OBJECTS, [listed(71), current(80)], [71], "neither BookKeeper nor another offload has it"),
        (OBJECTS, [listed(70), current(80)], [], "does not name it: it was set back"),
        (replace(OBJECTS, modified_ms=NOW - DAY - 1), [listed(75), current(80)], [], "whose list was made later"),
        # In BookKeeper, offloaded otherwise, trimmed.
        (OBJECTS, [listed(71), current(80)], [], None),
        (OBJECTS, [listed(71, offloaded_ms=HOUR), current(80)], [71], None),
        (OBJECTS, [listed(75), current(80)], [], None),
        # Made again with the same id.
        (replace(OBJECTS, modified_ms=NOW - DAY - 1), [listed(71), current(80)], [], "whose list was made later"),
        (replace(OBJECTS, entries=11, length=1000), [listed(71), current(80)], [], "these have 11 of 1,000"),
        (
            replace(OBJECTS, entries=10, length=999),
            [listed(71, offloaded_ms=HOUR), current(80)],
            [71],
            "these have 10 of",
        ),
        (replace(OBJECTS, entries=10, length=1000), [listed(71), current(80)], [], None),
    ],
)
def test_objects_that_may_be_an_only_copy_are_not_marked(
    offload: OrphanOffload, lines: list[LedgerInfo], absent: list[int], why: str | None
) -> None:
    """A list is restored from a dump: since then an offload was completed, and BookKeeper's copy deleted."""
    cluster = MadeCluster()
    if len(lines) and lines[0].context is not None:
        other = replace(lines[0].context, uuid=uuid_of(5))
        lines = [replace(lines[0], context=other), *lines[1:]]
    cluster.topic(TOPIC, lines, absent=absent)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([], [offload]))
    if why is None:
        assert [one.ledger_ids for one in found.actions if one.kind is ActionKind.MARK] == [(71,)]
    else:
        assert [one for one in found.actions if one.kind is ActionKind.MARK] == []
        (refused,) = [one for one in found.refused if one.refusal is Refusal.LOST_LIST]
        assert why in refused.why


# Lost, set back, and a later one.
@for_each("named", [-1, 60, 99])
@for_each("component", ["compacted-ledger", "schema"])
def test_compacted_ledgers_and_schemas_go_only_if_a_later_one_is_named(component: str, named: int) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    if component == "schema":
        orphan = replace(ORPHAN, component=component, owner="t/ns/x")
        if named >= 0:
            cluster.schema("t/ns/x", named)
    else:
        orphan = replace(ORPHAN, component=component, owner="persistent://t/ns/x")
        cluster.compaction(TOPIC, named)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([orphan], []))
    if named == 99:
        assert only(found, ActionKind.MARK).ledger_ids == (70,)
    else:
        assert [one.kind for one in found.actions] == []
        assert Refusal.LOST_LIST in refusals(found)


def test_a_context_of_a_ledger_that_bookkeeper_does_not_have_stays(cluster: MadeCluster) -> None:
    """The list is of a moment when an offload went on, which was completed since."""
    begun = [listed(one, offloaded_ms=2 * HOUR, is_complete=False) for one in (1, 2)]
    cluster.topic(TOPIC, [*begun, current(3)], absent=[1])
    found = planned(cluster, KEEPS + TIER)
    assert only(found, ActionKind.CLEAN).contexts == ((2, uuid_of(2)),)
    assert refusals(found)[Refusal.LOST] == [1]


@for_each(
    ("changes", "is_kept"),
    [({"entries": 9}, True), ({"size": 999}, True), ({}, False)],
)
def test_a_ledger_with_other_entries_in_bookkeeper_than_its_list_tells_is_not_trimmed(
    changes: dict[str, int], is_kept: bool
) -> None:
    cluster = MadeCluster()
    cluster.retention(SPACE, 0, 0)
    cluster.topic(TOPIC, [listed(1), listed(2), current(3)])
    one = replace(listed(1), **changes)
    cluster.nodes = [node for node in cluster.nodes if node.path != managed_ledger_path(TOPIC)]
    info = ManagedLedgerInfo((one, listed(2), current(3)))
    cluster.add(managed_ledger_path(TOPIC), build_managed_ledger_info(info))
    found = planned(cluster, HOUR_LONG)
    if is_kept:
        assert found.actions == []
        # Those behind it stay, too.
        assert refusals(found)[Refusal.DIFFERENT] == [1, 2]
    else:
        assert only(found, ActionKind.MARK).ledger_ids == (1, 2)


def test_no_broker_is_asked_to_trim_where_its_lag_is_not_told_and_the_file_keeps_copies(cluster: MadeCluster) -> None:
    """With a trim it deletes copies by its own lag, too, whatever that is."""
    cluster.retention(SPACE, 60)
    cluster.topic(TOPIC, [listed(1), listed(2, age_ms=MINUTE, offloaded_ms=MINUTE), current(3)])
    cluster.own(SPACE)
    keeps = f"{TIER}[[topics]]\nmatch = '.*'\ndeletion_lag = 'never'\n"
    found = planned(cluster, keeps, has_admin=True)
    assert [one for one in found.actions if one.kind is ActionKind.TRIM] == []
    assert Refusal.BROKERS_LAG in refusals(found)
    told = planned(cluster, keeps + "[broker]\ndeletion_lag = '4h'\n", has_admin=True)
    assert only(told, ActionKind.TRIM).ledger_ids == (1,)


def test_no_broker_is_asked_to_trim_what_several_lists_name(cluster: MadeCluster) -> None:
    cluster.retention(SPACE, 0, 0)
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.own(SPACE)
    assert only(planned(cluster, HOUR_LONG, has_admin=True), ActionKind.TRIM).ledger_ids == (1,)
    cluster.topic("public/other/persistent/y", [listed(1), current(3)], absent=[1])
    found = planned(cluster, HOUR_LONG, has_admin=True)
    assert [one for one in found.actions if one.kind is ActionKind.TRIM] == []
    assert (ActionKind.TRIM, TOPIC) in [
        (one.kind, one.subject) for one in found.refused if one.refusal is Refusal.SHARED
    ]


def test_a_line_of_objects_in_another_bucket_than_now_is_dropped(cluster: MadeCluster) -> None:
    """The name of a bucket stands for another URL by now: what is there may be a copy that somebody keeps."""
    orphans = Orphans([], [OBJECTS])
    cluster.topic(TOPIC, [listed(75), current(80)])
    marked = only(planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans), ActionKind.MARK).lines[0]
    old = replace(marked, bucket="s3://before", marked_ms=NOW - DAY, due_ms=NOW - DAY)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans, notes=noted(old))
    assert only(found, ActionKind.CLEAN).lines == (old,)


def test_objects_of_an_attempt_that_is_noted_are_no_orphans(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(71), current(72)])
    one = Attempt(TOPIC, 71, uuid_of(71), "s3://tier", NOW - DAY)
    orphans = Orphans([], [OBJECTS])
    found = planned(
        cluster,
        KEEPS + TIER + ORPHANS,
        orphans=orphans,
        notes=noted(attempts=[one]),
        attempt_grace_ms=2 * DAY,
    )
    assert found.actions == []


def test_objects_where_their_topic_is_not_offloaded_to_may_be_a_backup(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(75), current(76)])
    buckets = TIER + '[buckets.vault]\nurl = "s3://vault"\n'
    for where in ("", "bucket = 'vault'\n"):
        found = planned(
            cluster, KEEPS + buckets + "[defaults]\norphans = true\n" + where, orphans=Orphans([], [OBJECTS])
        )
        assert found.actions == []
        assert [one.refusal for one in found.refused if one.ledger_ids == (71,)] == [Refusal.BACKUP]
    # What its list tells of another ledger is enough.
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75, offloaded_ms=HOUR), current(76)])
    found = planned(cluster, KEEPS + TIER + "[defaults]\norphans = true\n", orphans=Orphans([], [OBJECTS]))
    assert only(found, ActionKind.MARK).ledger_ids == (71,)


def test_ledgers_of_a_topic_whose_list_was_lost_are_no_orphans(cluster: MadeCluster) -> None:
    # A node that was never set.
    cluster.add(managed_ledger_path(TOPIC), b"")
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([ORPHAN], []))
    assert found.actions == []
    assert [one.refusal for one in found.refused if one.ledger_ids == (70,)] == [Refusal.LOST_LIST]


# Lines of the journal.


def line_of(kind: TrashKind, ledger_id: int, **values: Any) -> TrashLine:
    made = TrashLine(
        kind, ledger_id, TOPIC, None, None, "why", VERSION, 1000, NOW - 2 * HOUR, NOW - HOUR, TrashState.MARKED
    )
    return replace(made, **values)


def noted(*lines: TrashLine, attempts: Sequence[Attempt] = (), unreadable: dict[str, str] | None = None) -> Notes:
    return Notes(lines, attempts, unreadable or {})


def test_a_line_that_holds_is_due_after_its_grace_and_not_marked_again(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), listed(2, 2 * HOUR), current(3)])
    lines = noted(line_of(TrashKind.TRIMMED, 1), line_of(TrashKind.TRIMMED, 2, due_ms=NOW + HOUR))
    found = planned(cluster, HOUR_LONG, notes=lines)
    assert [one.kind for one in found.actions] == [ActionKind.DELETE]
    action = only(found, ActionKind.DELETE)
    assert (action.ledger_ids, action.lines, action.since_ms) == ((1,), (lines.lines[0],), NOW - HOUR)
    assert "grace is over since 1.0 h" in action.why
    (waits,) = [one for one in found.waiting if one.kind is ActionKind.DELETE]
    assert (waits.ledger_ids, waits.due_ms) == ((2,), NOW + HOUR)


def test_a_grace_that_is_longer_by_now_holds_for_what_is_marked(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), current(2)])
    lines = noted(line_of(TrashKind.TRIMMED, 1))
    found = planned(cluster, HOUR_LONG + "[defaults]\ntrash_grace = '1d'", notes=lines)
    assert [one.kind for one in found.actions] == []
    assert [one.due_ms for one in found.waiting if one.kind is ActionKind.DELETE] == [NOW - 2 * HOUR + DAY]


def test_ledgers_past_retention_wait_for_older_ones_that_stay(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 4 * HOUR), listed(2, 3 * HOUR), listed(3, 2 * HOUR), current(4)])
    lines = [line_of(TrashKind.TRIMMED, 1), line_of(TrashKind.TRIMMED, 2, due_ms=NOW + HOUR)]
    found = planned(cluster, HOUR_LONG, notes=noted(*lines, line_of(TrashKind.TRIMMED, 3)))
    assert only(found, ActionKind.DELETE).ledger_ids == (1,)
    waiting = {one.ledger_ids: one.why for one in found.waiting if one.kind is ActionKind.DELETE}
    assert set(waiting) == {(2,), (3,)}
    assert "ledger 2, which is older, is not due: a topic gets no holes" in waiting[(3,)]


@for_each("first", [None, line_of(TrashKind.TRIMMED, 1, due_ms=NOW + HOUR), line_of(TrashKind.TRIMMED, 1, version=0)])
def test_a_ledger_past_retention_waits_for_those_before_it(first: TrashLine | None) -> None:
    """As where an older one's line was taken back, or was made anew for an attempt to offload it: a topic gets no holes."""
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(1, 4 * HOUR), listed(2, 3 * HOUR), listed(3, 2 * HOUR), current(4)])
    lines = [line_of(TrashKind.TRIMMED, 2), line_of(TrashKind.TRIMMED, 3)]
    found = planned(cluster, HOUR_LONG, notes=noted(*([] if first is None else [first]), *lines))
    assert ids(found, ActionKind.DELETE) == []
    whys = {one.ledger_ids[0]: one.why for one in found.waiting if one.kind is ActionKind.DELETE}
    assert "ledger 1, which is older, is not due" in whys[2]
    assert "ledger 1, which is older, is not due" in whys[3]
    whole = planned(cluster, HOUR_LONG, notes=noted(line_of(TrashKind.TRIMMED, 1), *lines))
    assert ids(whole, ActionKind.DELETE) == [1, 2, 3]


@for_each(
    ("line", "why"),
    [
        (line_of(TrashKind.TRIMMED, 2), "does not hold any more"),
        (line_of(TrashKind.TRIMMED, 1, version=VERSION - 1), "is not as it was marked"),
        # Of a cluster that was initialised anew, with ids from the beginning.
        (replace(line_of(TrashKind.TRIMMED, 1, version=VERSION), size=7), "is not as it was marked"),
        (replace(line_of(TrashKind.TRIMMED, 1, version=VERSION), managed_ledger="t/ns/persistent/y"), "is not as it"),
        (line_of(TrashKind.TRIMMED, 1, uuid=uuid_of(1), bucket="s3://tier"), "does not hold any more"),
        (line_of(TrashKind.OFFLOADED, 1), "does not hold any more"),
        (line_of(TrashKind.TRIMMED, 99), "no list names"),
        (line_of(TrashKind.TRIMMED, 3), "does not hold any more"),
        (line_of(TrashKind.TRIMMED, 1, state=TrashState.DELETED), "all of it is deleted"),
    ],
)
def test_a_line_that_does_not_hold_is_dropped_and_nothing_is_deleted(line: TrashLine, why: str) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), listed(2, MINUTE), current(3)])
    found = planned(cluster, HOUR_LONG, notes=noted(line))
    action = only(found, ActionKind.CLEAN)
    assert (action.lines, action.size) == ((line,), 0)
    assert why in action.why
    assert "nothing is deleted" in action.why
    assert ids(found, ActionKind.DELETE) == []


@for_each("kind", [TrashKind.TRIMMED, TrashKind.OFFLOADED, TrashKind.FLAGGED])
def test_a_line_of_what_is_deleted_stays_for_a_while_in_case_that_a_broker_comes_back(kind: TrashKind) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(2, MINUTE), current(3)])
    line = line_of(kind, 1, state=TrashState.DELETED, changed_ms=NOW - 9 * MINUTE)
    found = planned(cluster, HOUR_LONG, notes=noted(line))
    assert found.actions == []
    assert [(one.due_ms, one.size) for one in found.waiting if one.kind is ActionKind.CLEAN] == [(NOW + MINUTE, 0)]
    late = planned(cluster, HOUR_LONG, notes=noted(replace(line, changed_ms=NOW - 10 * MINUTE)))
    assert only(late, ActionKind.CLEAN).lines == (line,)
    cluster.own(SPACE)
    owned = planned(cluster, HOUR_LONG, notes=noted(line), has_admin=True)
    assert "has to let it go" in only(owned, ActionKind.CLEAN).why


@for_each("kind", [TrashKind.ORPHAN, TrashKind.OBJECTS])
def test_a_line_of_what_no_list_named_goes_when_it_is_deleted(kind: TrashKind) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(2, MINUTE), current(3)])
    line = line_of(kind, 1, uuid=uuid_of(1), bucket="s3://tier", state=TrashState.DELETED, changed_ms=NOW - 9 * MINUTE)
    assert only(planned(cluster, HOUR_LONG, notes=noted(line)), ActionKind.CLEAN).lines == (line,)


def test_a_line_that_stays_keeps_its_place_and_no_other_line(cluster: MadeCluster) -> None:
    """As where a list is put back: a ledger that is deleted is marked again once its line is gone."""
    cluster.topic(TOPIC, [listed(1, 4 * HOUR), listed(2, 3 * HOUR), current(3)])
    deleted = line_of(TrashKind.TRIMMED, 1, state=TrashState.DELETED, changed_ms=NOW)
    other = line_of(TrashKind.OFFLOADED, 2, uuid=uuid_of(2), state=TrashState.DELETED, changed_ms=NOW)
    assert ids(planned(cluster, HOUR_LONG, notes=noted(deleted, other)), ActionKind.MARK) == [2]


def test_a_line_is_dropped_when_a_broker_takes_the_topic(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), current(3)])
    cluster.own(SPACE)
    found = planned(cluster, HOUR_LONG, notes=noted(line_of(TrashKind.TRIMMED, 1)), has_admin=True)
    assert [one.kind for one in found.actions] == [ActionKind.TRIM, ActionKind.CLEAN]
    assert "the broker's own work" in only(found, ActionKind.CLEAN).why


def test_a_line_is_kept_while_it_is_not_known_whether_it_holds(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * HOUR), current(3)])
    cluster.cursor(TOPIC, "stale", (1, 9), ledger=60)
    line = line_of(TrashKind.TRIMMED, 1)
    found = planned(cluster, HOUR_LONG, notes=noted(line))
    assert found.actions == []
    assert [(one.kind, one.refusal) for one in found.refused] == [
        (ActionKind.MARK, Refusal.SILENT_BOOKIES),
        (ActionKind.DELETE, Refusal.SILENT_BOOKIES),
    ]
    # Nobody has looked for orphans.
    found = planned(cluster, HOUR_LONG, notes=noted(line_of(TrashKind.ORPHAN, 70)))
    assert (found.actions, [one.ledger_ids for one in found.waiting if one.kind is ActionKind.DELETE]) == ([], [(70,)])
    found = planned(cluster, HOUR_LONG, notes=noted(line_of(TrashKind.ORPHAN, 70)), orphans=Orphans())
    assert "no orphan any more" in only(found, ActionKind.CLEAN).why


def test_a_deletion_that_began_goes_on_at_once(cluster: MadeCluster) -> None:
    lines = [listed(1, 3 * HOUR, offloaded_ms=DAY, is_deleted=True), listed(2), current(3)]
    cluster.topic(TOPIC, lines, there=[1])
    cluster.own(SPACE)
    began = [
        line_of(TrashKind.TRIMMED, 90, state=TrashState.UNLISTED, due_ms=NOW + DAY),
        line_of(TrashKind.OFFLOADED, 1, state=TrashState.UNLISTED),
        line_of(TrashKind.OBJECTS, 2, uuid=uuid_of(5), bucket="s3://tier", state=TrashState.UNLISTED),
    ]
    found = planned(cluster, KEEPS, notes=noted(*began))
    assert ids(found, ActionKind.DELETE) == [1, 2, 90]
    assert ids(found, ActionKind.MARK) == []


@for_each("url", ["s3://tier", "s3://tier/"])
def test_objects_in_a_bucket_that_nobody_could_look_into_are_neither_due_nor_dropped(url: str) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    line = line_of(TrashKind.OBJECTS, 71, uuid=uuid_of(71), bucket="s3://tier")
    unknown = Orphans([ORPHAN], unlisted={url: "it does not answer"})
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=unknown, notes=noted(line))
    assert [(one.kind, one.ledger_ids) for one in found.actions] == [(ActionKind.MARK, (70,))]
    assert [(one.kind, one.subject, one.refusal) for one in found.refused] == [
        (ActionKind.DELETE, TOPIC, Refusal.UNREADABLE),
        (None, url, Refusal.UNREADABLE),
    ]
    other = replace(line, bucket="s3://other")
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=unknown, notes=noted(other))
    assert only(found, ActionKind.CLEAN).lines == (other,)


class _Counted(list[TrashLine]):
    """Lines that count how often all of them are gone through."""

    times = 0

    def __iter__(self) -> Iterator[TrashLine]:
        self.times += 1
        return super().__iter__()


def test_lines_are_not_gone_through_for_each_topic() -> None:
    times = []
    for topics in (2, 20):
        cluster = MadeCluster()
        for number in range(topics):
            first = 10 * number + 1
            lines = [listed(first, offloaded_ms=DAY, is_deleted=True), listed(first + 1), current(first + 2)]
            cluster.topic(f"{SPACE}/persistent/x{number}", lines, there=[first])
        made = _Counted([line_of(TrashKind.OFFLOADED, 1, state=TrashState.UNLISTED)])
        found = planned(cluster, KEEPS, notes=Notes(made))
        # All but the first get a line.
        assert len(ids(found, ActionKind.MARK)) == topics - 1
        times.append(made.times)
    assert times[0] == times[1]


def test_an_offload_is_named_by_its_uuid_and_ledger(cluster: MadeCluster) -> None:
    file = parse_policy_file(b"", Path("policy.toml"))
    assert not ClusterView(cluster.survey(), file).names_offload(1, uuid_of(1))
    cluster.topic(TOPIC, [*(listed(one, offloaded_ms=DAY) for one in (1, 5, 9)), listed(10), current(11)])
    view = ClusterView(cluster.survey(), file)
    named = {(one, two) for one in range(12) for two in range(12) if view.names_offload(one, uuid_of(two))}
    assert named == {(1, 1), (5, 5), (9, 9)}


# What attempts have left.


def attempt(ledger_id: int, age_ms: int = DAY, name: str = TOPIC) -> Attempt:
    return Attempt(name, ledger_id, uuid_of(ledger_id), "s3://tier", NOW - age_ms)


def test_attempts_that_no_list_names_are_cleaned_up(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, MINUTE), current(2)])
    one = attempt(1)
    found = planned(cluster, KEEPS, notes=noted(attempts=[one]))
    action = only(found, ActionKind.CLEAN)
    assert (action.attempts, action.managed_ledger) == ((one,), TOPIC)
    assert "began 1.0 d ago" in action.why
    # Also where the topic is gone.
    gone = attempt(8, name="t/ns/persistent/gone")
    assert only(planned(cluster, KEEPS, notes=noted(attempts=[gone])), ActionKind.CLEAN).attempts == (gone,)
    young = planned(cluster, KEEPS, notes=noted(attempts=[attempt(1, MINUTE)]), attempt_grace_ms=HOUR)
    assert (young.actions, [one.due_ms for one in young.waiting]) == ([], [NOW - MINUTE + HOUR])


def test_contexts_that_are_not_complete_are_cleaned_up_unless_an_offload_does_it(cluster: MadeCluster) -> None:
    lines = [listed(1, MINUTE, offloaded_ms=MINUTE, is_complete=False), current(2)]
    cluster.topic(TOPIC, lines)
    action = only(planned(cluster, KEEPS + TIER), ActionKind.CLEAN)
    assert action.contexts == ((1, uuid_of(1)),)
    found = planned(cluster, KEEPS + OFFLOADS.replace("1h", "0s"))
    assert [one.kind for one in found.actions] == [ActionKind.OFFLOAD]
    young = MadeCluster()
    young.topic(TOPIC, lines, age_ms=MINUTE)
    found = planned(young, KEEPS + TIER)
    assert (found.actions, [one.kind for one in found.waiting]) == ([], [ActionKind.CLEAN])
    # A broker's own attempt may go on, and its next one cleans up.
    cluster.own(SPACE)
    assert planned(cluster, KEEPS + TIER).actions == []


# What must not be done.


def owned(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.own(SPACE)


def terminated(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2)], is_terminated=True)


def extensible(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.broker(EXTENSIBLE)


def unreadable_broker(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add("/loadbalance/brokers/b:8080", b"{")


def being_deleted(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.policies(SPACE, deleted=True)


def unknown_policies(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.topic(f"{SPACE}/persistent/__change_events", [current(8)])


def damaged_list_of_events(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add(managed_ledger_path(f"{SPACE}/persistent/__change_events"), b"\xff\xff no list")


def damaged_compaction_of_events(cluster: MadeCluster) -> None:
    unknown_policies(cluster)
    cluster.add(cursor_path(f"{SPACE}/persistent/__change_events", "__compaction"), b"\xff\xff")
    cluster.answers.append(TopicPoliciesAnswer(SPACE, {}))


def damaged_policies(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add(f"/admin/policies/{SPACE}", b"[]")


def policies_elsewhere(cluster: MadeCluster) -> None:
    """The namespace has its node in a configuration store that several clusters share."""
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.without_policies.add(f"/admin/policies/{SPACE}")


def empty_policies(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add(f"/admin/policies/{SPACE}", b"")


def damaged_events(cluster: MadeCluster) -> None:
    """Topics of the namespace may have policies of their own, whatever else is wrong."""
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add(managed_ledger_path(f"{SPACE}/persistent/__change_events"), b"\xff\xff")


def silent_end(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)], last=LastEnd.UNKNOWN)


def silent_cursor(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.cursor(TOPIC, "stale", (1, 9), ledger=60)


def damaged_cursor(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.add(cursor_path(TOPIC, "s"), b"\xff\xff")


def damaged_ledger(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)], absent=[1])
    cluster.add(ledger_path(1), b"\xff")


def shared_ledger(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.topic("t/other/persistent/shadow", [listed(1), current(9)], absent=[1])
    cluster.own("t/other")


def without_bucket(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, offloaded_ms=DAY, bucket="unknown"), listed(2), current(3)])


@for_each(
    ("make", "refusal", "refused"),
    [
        (owned, Refusal.NO_ADMIN, [1]),
        (terminated, Refusal.TERMINATED, [1]),
        (extensible, Refusal.LOAD_MANAGER, [1]),
        (unreadable_broker, Refusal.UNKNOWN_OWNER, [1]),
        (being_deleted, Refusal.BEING_DELETED, [1]),
        (unknown_policies, Refusal.UNKNOWN_POLICIES, [1]),
        (damaged_list_of_events, Refusal.UNKNOWN_POLICIES, [1]),
        (damaged_compaction_of_events, Refusal.UNKNOWN_POLICIES, [1]),
        (damaged_policies, Refusal.UNKNOWN_POLICIES, [1]),
        (empty_policies, Refusal.UNKNOWN_POLICIES, [1]),
        (policies_elsewhere, Refusal.UNKNOWN_POLICIES, [1]),
        (damaged_events, Refusal.UNKNOWN_POLICIES, [1]),
        (silent_end, Refusal.SILENT_BOOKIES, [1]),
        (silent_cursor, Refusal.SILENT_BOOKIES, [1]),
        (damaged_cursor, Refusal.UNREADABLE, [1]),
        (damaged_ledger, Refusal.UNREADABLE, [1]),
        (shared_ledger, Refusal.SHARED, [1]),
        # A topic has no holes: what lies behind stays, too.
        (without_bucket, Refusal.NO_BUCKET, [1, 2]),
    ],
)
def test_what_must_not_be_deleted_is_refused_by_name(make: Any, refusal: Refusal, refused: list[int]) -> None:
    cluster = MadeCluster()
    make(cluster)
    found = planned(cluster, HOUR_LONG + "[[topics]]\nmatch = '.*'\ndeletion_lag = 'never'")
    assert found.actions == []
    assert sorted(set(refusals(found)[refusal])) == refused
    assert all(one.why for one in found.refused)


def test_direct_work_is_refused_where_a_broker_owns_the_topic(cluster: MadeCluster) -> None:
    owned(cluster)
    found = planned(cluster, HOUR_LONG + OFFLOADS + 'via = "direct"', has_admin=True)
    assert found.actions == []
    assert refusals(found) == {Refusal.OWNED: [1, 1]}
    flagged = MadeCluster()
    flagged.topic(TOPIC, [listed(1, offloaded_ms=DAY, is_deleted=True), current(2)], there=[1])
    flagged.own(SPACE)
    assert refusals(planned(flagged, KEEPS, has_admin=True)) == {Refusal.OWNED: [1]}


def test_system_topics_are_never_touched(cluster: MadeCluster) -> None:
    for name in (f"{SPACE}/persistent/__change_events", "pulsar/c/b:8080/persistent/healthcheck"):
        cluster = MadeCluster()
        cluster.topic(name, [listed(1, offloaded_ms=DAY, is_complete=False), listed(2, 2 * DAY), current(3)])
        found = planned(cluster, HOUR_LONG + OFFLOADS)
        assert found.actions == []
        assert Refusal.SYSTEM_TOPIC in refusals(found)


def test_the_greatest_id_is_never_touched(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2, offloaded_ms=DAY), listed(3)])
    found = planned(cluster, KEEPS + OFFLOADS)
    assert ids(found, ActionKind.OFFLOAD) == [1]
    assert refusals(found) == {Refusal.GREATEST: [3]}
    # Retention of nothing lets the last one go, too, as a broker that loads the topic would.
    found = planned(cluster, TIER + BROKERS)
    assert ids(found, ActionKind.MARK) == [1, 2]
    assert refusals(found) == {Refusal.GREATEST: [3]}
    flagged = MadeCluster()
    flagged.topic(TOPIC, [listed(1, offloaded_ms=DAY, is_deleted=True)], there=[1])
    assert refusals(planned(flagged, KEEPS)) == {Refusal.GREATEST: [1]}


def test_nothing_is_deleted_by_a_default_that_brokers_may_have_changed(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2, offloaded_ms=DAY), listed(3), current(9)])
    found = planned(cluster, TIER)
    assert ids(found, ActionKind.MARK) == []
    whys = [one.why for one in found.refused if one.refusal is Refusal.UNKNOWN_POLICIES]
    assert any("retention_minutes" in why for why in whys)
    assert any("deletion_lag" in why for why in whys)
    assert ids(planned(cluster, TIER + BROKERS), ActionKind.MARK) == [1, 2, 3]


def test_offloads_without_all_that_must_be_known_are_refused(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2), listed(3), listed(4), listed(5), current(9)], absent=[1, 2, 3, 4])
    cluster.add(ledger_path(1), b"\xff")
    cluster.ledger(3, TOPIC, state=LedgerState.OPEN)
    cluster.ledger(4, TOPIC, entries=9)
    found = planned(cluster, KEEPS + OFFLOADS)
    assert ids(found, ActionKind.OFFLOAD) == [5]
    told = refusals(found)
    assert told.pop(Refusal.UNREADABLE) == [1]
    assert told == {Refusal.LOST: [2], Refusal.NOT_CLOSED: [3], Refusal.DIFFERENT: [4]}
    no_bucket = planned(cluster, KEEPS + "[[topics]]\nmatch = '.*'\noffload_after = '1h'")
    assert (no_bucket.actions, refusals(no_bucket)[Refusal.NO_BUCKET]) == ([], [1, 2, 3, 4, 5])


def test_unknown_policies_matter_only_where_the_file_is_silent(cluster: MadeCluster) -> None:
    unknown_policies(cluster)
    found = planned(cluster, KEEPS + OFFLOADS)
    assert (ids(found, ActionKind.OFFLOAD), refusals(found)) == ([], {Refusal.UNKNOWN_POLICIES: [1]})
    found = planned(cluster, KEEPS + OFFLOADS + "offload_above = 'never'")
    assert (ids(found, ActionKind.OFFLOAD), found.refused) == ([1], [])
    offloaded = MadeCluster()
    offloaded.topic(TOPIC, [listed(1, offloaded_ms=DAY), current(2)])
    offloaded.topic(f"{SPACE}/persistent/__change_events", [current(8)])
    assert refusals(planned(offloaded, KEEPS + TIER)) == {Refusal.UNKNOWN_POLICIES: [1]}
    assert ids(planned(offloaded, KEEPS + TIER + "[[topics]]\nmatch = '.*'\ndeletion_lag = '1h'"), ActionKind.MARK) == [
        1
    ]
    through = MadeCluster()
    unknown_policies(through)
    through.own(SPACE)
    assert refusals(planned(through, HOUR_LONG, has_admin=True)) == {Refusal.UNKNOWN_POLICIES: [1]}


def test_what_a_time_to_live_expires_is_left_to_a_broker_and_said(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2), current(3)])
    cluster.cursor(TOPIC, "slow", (1, 3))
    text = HOUR_LONG.replace("[broker]", "[broker]\nttl_seconds = 60")
    found = planned(cluster, text)
    assert (found.actions, found.refused) == ([], [])
    assert any("until a broker loads the topic" in one.why for one in found.waiting)
    found = planned(cluster, text.replace("= 60", "= 864000"))
    assert not any("until a broker loads the topic" in one.why for one in found.waiting)


def test_orphans_that_may_be_anothers_or_are_open_are_refused(cluster: MadeCluster) -> None:
    orphans = Orphans(
        [replace(ORPHAN, is_closed=False, has_states=True), replace(ORPHAN, ledger_id=72, is_known=False)],
        [replace(OBJECTS, is_known=False)],
    )
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans)
    assert found.actions == []
    assert refusals(found) == {Refusal.NOT_CLOSED: [70], Refusal.ANOTHER_CLUSTERS: [71, 72]}


@for_each("has_states", [False, True])
def test_what_was_never_closed_and_nothing_names_is_marked_where_its_topic_has_a_list(has_states: bool) -> None:
    cluster = MadeCluster()
    orphans = Orphans([replace(ORPHAN, is_closed=False, size=0, has_states=has_states)], [])
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans)
    assert refusals(found) == {Refusal.NOT_CLOSED: [70]}
    cluster.topic(TOPIC, [listed(1), current(3)])
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans)
    assert Refusal.NOT_CLOSED not in refusals(found)
    assert [one.ledger_ids for one in found.actions] == [(70,)]
    assert "never closed" in found.actions[0].lines[0].why
    # While a broker has the topic, it may list it.
    cluster.own(SPACE)
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans)
    assert (found.actions, refusals(found)[Refusal.OWNED]) == ([], [70])


@for_each("has_states", [False, True])
def test_what_is_not_closed_and_older_than_its_list_stays(has_states: bool) -> None:
    """The list was lost with all that was named, or its topic made anew: a broker of then may know a version that nodes have by now."""
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    older = replace(ORPHAN, is_closed=False, size=0, has_states=has_states, created_ms=NOW - DAY - 1)
    found = planned(cluster, "[defaults]\norphans = true", orphans=Orphans([older], []))
    assert (found.actions, refusals(found)[Refusal.LOST_LIST]) == ([], [70])


def test_orphans_wait_for_the_grace_of_their_topic(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(75), current(80)])
    of_none = replace(ORPHAN, ledger_id=60, component="schema", owner="t/ns/x")
    text = (
        KEEPS
        + TIER
        + ORPHANS
        + f'trash_grace = "1h"\n[[topics]]\nmatch = "{TOPIC.split("/", maxsplit=1)[0]}/.*"\ntrash_grace = "7d"\n'
    )
    found = planned(cluster, text, orphans=Orphans([ORPHAN, of_none], [OBJECTS]))
    graces = {line.ledger_id: line.due_ms - line.marked_ms for one in found.actions for line in one.lines}
    assert {one: graces.get(one) for one in (70, 71)} == {70: 7 * DAY, 71: 7 * DAY}


def test_orphans_of_a_namespace_that_is_being_deleted_stay(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(75), current(80)])
    cluster.policies(SPACE, deleted=True)
    for one in (ORPHAN, replace(ORPHAN, is_closed=False, size=0)):
        found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([one], []))
        assert (found.actions, refusals(found)[Refusal.BEING_DELETED]) == ([], [70])


def test_a_copy_whose_offload_has_no_time_is_told(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, offloaded_ms=NOW), listed(2), current(3)], there=[1, 2, 3])
    text = KEEPS + TIER + '[[topics]]\nmatch = ".*"\nbucket = "tier"\ndeletion_lag = "1h"\n'
    assert refusals(planned(cluster, text)).get(Refusal.DIFFERENT) == [1]


def test_what_is_not_closed_stays_where_another_cluster_may_have_its_ledgers(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(3)])
    cluster.ledger(60, "t/elsewhere/persistent/x", state=LedgerState.OPEN)
    orphans = Orphans([replace(ORPHAN, is_closed=False, size=0, has_states=True)], [])
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans)
    assert (found.actions, refusals(found)[Refusal.ANOTHER_CLUSTERS]) == ([], [70])
    # So it does where it was marked before that was known.
    found = planned(cluster, "[defaults]\norphans = true", orphans=orphans, notes=noted(line_of(TrashKind.ORPHAN, 70)))
    assert (found.actions, set(refusals(found)[Refusal.ANOTHER_CLUSTERS])) == ([], {70})


def test_what_a_list_names_again_is_not_deleted(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2, offloaded_ms=DAY, is_deleted=False), current(3)])
    lines = noted(
        line_of(TrashKind.TRIMMED, 1, state=TrashState.UNLISTED),
        line_of(TrashKind.OFFLOADED, 2, state=TrashState.UNLISTED),
        line_of(TrashKind.OBJECTS, 2, uuid=uuid_of(2), bucket="s3://tier", state=TrashState.UNLISTED),
        attempts=[attempt(2)],
    )
    found = planned(cluster, KEEPS, notes=lines)
    assert (ids(found, ActionKind.DELETE), ids(found, ActionKind.CLEAN)) == ([], [])
    assert sorted(refusals(found)[Refusal.NAMED]) == [1, 2, 2, 2]
    unfinished = MadeCluster()
    unfinished.topic(TOPIC, [listed(1, offloaded_ms=DAY, is_complete=False, is_deleted=True), current(2)], there=[1])
    assert refusals(planned(unfinished, KEEPS + TIER))[Refusal.NAMED] == [1]


def test_nodes_that_could_not_be_read_are_named_and_what_they_are_about_is_left_alone(cluster: MadeCluster) -> None:
    cluster.add(managed_ledger_path(TOPIC), b"\xff\xff")
    lines = noted(
        line_of(TrashKind.TRIMMED, 1),
        line_of(TrashKind.TRIMMED, 2, state=TrashState.UNLISTED),
        attempts=[attempt(3)],
        unreadable={"/ledgerfs/lifecycle/trash/x": "no line"},
    )
    found = planned(cluster, KEEPS, notes=lines)
    assert found.actions == []
    assert {one.refusal for one in found.refused} == {Refusal.UNREADABLE}
    assert sorted(refusals(found)[Refusal.UNREADABLE]) == [1, 2, 3]
    subjects = {one.subject for one in found.refused}
    assert {TOPIC, "/ledgerfs/lifecycle/trash/x"} == subjects


def test_a_context_without_a_known_bucket_or_in_a_terminated_topic_is_left(cluster: MadeCluster) -> None:
    lines = [listed(1, MINUTE, offloaded_ms=DAY, is_complete=False), listed(2, MINUTE)]
    cluster.topic(TOPIC, [*lines, current(3)])
    assert refusals(planned(cluster, KEEPS)) == {Refusal.NO_BUCKET: [1]}
    ended = MadeCluster()
    ended.topic(TOPIC, lines, is_terminated=True)
    assert refusals(planned(ended, KEEPS + TIER)) == {Refusal.TERMINATED: [1]}


def test_only_wanted_topics_are_planned_for(cluster: MadeCluster) -> None:
    other = f"{SPACE}/persistent/y"
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.topic(other, [listed(3), current(4)])
    notes = noted(line_of(TrashKind.TRIMMED, 99), attempts=[attempt(1)])
    found = planned(cluster, KEEPS + OFFLOADS, wanted=frozenset({other}), notes=notes)
    assert [(one.kind, one.ledger_ids) for one in found.actions] == [(ActionKind.OFFLOAD, (3,))]


def test_what_compressing_again_costs_is_told_of_who_does_it(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    policy = KEEPS + OFFLOADS + "recompress = 'zstd'\n"
    why = only(planned(cluster, policy), ActionKind.OFFLOAD).why
    assert "compressed again, by zstd: that takes processor time" in why
    assert "before BookKeeper's copy goes all of it is read once more" in why
    assert "compressed" not in only(planned(cluster, KEEPS + OFFLOADS), ActionKind.OFFLOAD).why
    # Brokers do not compress.
    cluster.own(SPACE)
    action = only(planned(cluster, policy, has_admin=True), ActionKind.OFFLOAD)
    assert action.via is Via.BROKER
    assert "compressed" not in action.why

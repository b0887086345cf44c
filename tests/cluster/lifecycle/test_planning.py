"""Plans over surveys: what is to be done, what waits, and each thing that must not be done by its name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState, ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Orphans, Plan, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.orphans import OrphanLedger, OrphanOffload
from ledgerfs_cluster.lifecycle.planning.planning import plan_of
from ledgerfs_cluster.lifecycle.policy.policy_file import Via, parse_policy_file
from ledgerfs_cluster.offload.journal import ROOT, Journal, JournalRecord, RecordKind
from ledgerfs_cluster.snapshot.answers import LastEnd, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.survey import Survey
from tests.cluster.support.made_surveys import (
    DAY,
    EXTENSIBLE,
    HOUR,
    MINUTE,
    NOW,
    MadeCluster,
    current,
    listed,
    uuid_of,
)
from tests.support.each import for_each

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
        found.setdefault(Refusal(one.code), []).extend(one.ledger_ids)
    return found


# What is to be done.


def test_ledgers_are_offloaded_oldest_first_with_why_in_numbers(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, 3 * DAY), listed(2, 2 * DAY), listed(3, MINUTE), current(4)])
    found = planned(cluster, KEEPS + OFFLOADS)
    action = only(found, ActionKind.OFFLOAD)
    assert (action.managed_ledger, action.ledger_ids, action.size, action.via) == (TOPIC, (1, 2), 2000, Via.DIRECT)
    assert action.since_ms == NOW - 3 * DAY
    assert action.reason == "ledger 1 was closed 3.0 d ago, and the limit is 1.0 h by the policy file"
    assert action.rule is not None
    assert action.rule.bucket is not None
    assert (found.waiting, found.refused) == ([], [])


def test_ledgers_over_a_size_are_offloaded_by_the_clusters_own_policy(cluster: MadeCluster) -> None:
    offload = {"managedLedgerOffloadThresholdInBytes": 1500, "managedLedgerOffloadBucket": "tier"}
    keeps = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    cluster.policies(SPACE, offload_policies=offload, retention_policies=keeps)
    cluster.topic(TOPIC, [listed(1), listed(2), listed(3), current(4)])
    found = planned(cluster, TIER)
    action = only(found, ActionKind.OFFLOAD)
    assert action.ledger_ids == (1, 2)
    assert (
        action.reason == "the closed ledgers from 1 on have 2.9 KiB, and the limit is 1.5 KiB by the cluster's policies"
    )


def test_a_broker_offloads_what_it_may_have_loaded(cluster: MadeCluster) -> None:
    cluster.own(SPACE)
    cluster.topic(TOPIC, [listed(1), current(2)])
    assert only(planned(cluster, KEEPS + OFFLOADS, has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER
    # With the extensible load manager it is not known which broker has it.
    extended = MadeCluster()
    extended.broker(EXTENSIBLE)
    extended.topic(TOPIC, [listed(1), current(2)])
    assert only(planned(extended, KEEPS + OFFLOADS, has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER
    # With via = "broker" a broker loads it for that.
    free = MadeCluster()
    free.topic(TOPIC, [listed(1), current(2)])
    text = KEEPS + OFFLOADS + 'via = "broker"'
    assert only(planned(free, text, has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER


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
    assert (refused.action, refused.code) == ("offload", Refusal.OTHER_BUCKET.value)
    assert "to bucket tier, but the policy file sets bucket vault" in refused.message
    assert (
        only(planned(cluster, KEEPS + buckets + wish + "'tier'", has_admin=True), ActionKind.OFFLOAD).via is Via.BROKER
    )


def test_what_is_past_retention_is_trimmed_by_a_broker_that_is_asked_and_not_offloaded(cluster: MadeCluster) -> None:
    """Also where no broker has the topic, and the last ledger, which a broker that loads it closes."""
    cluster.topic(TOPIC, [listed(1, 3 * HOUR, offloaded_ms=HOUR), listed(2, 2 * HOUR), listed(3, MINUTE), current(4)])
    found = planned(cluster, HOUR_LONG + OFFLOADS, has_admin=True)
    action = only(found, ActionKind.TRIM)
    assert (action.ledger_ids, action.since_ms, action.via) == ((1, 2), NOW - 3 * HOUR, Via.BROKER)
    assert (
        "2 ledgers are consumed by all subscriptions and past the retention of 1.0 h and no size limit" in action.reason
    )
    assert ids(found, ActionKind.OFFLOAD) == []
    # Nobody can be asked.
    alone = planned(cluster, HOUR_LONG + OFFLOADS)
    assert (alone.actions, [one.ledger_ids for one in alone.waiting if "its address is missing" in one.message]) == (
        [],
        [(1, 2)],
    )
    assert planned(cluster, HOUR_LONG + OFFLOADS + "trim = false", has_admin=True).actions[0].kind is ActionKind.OFFLOAD
    ended = MadeCluster()
    ended.topic(TOPIC, [listed(1), listed(2)], last=LastEnd.GONE)
    assert only(planned(ended, BROKERS, has_admin=True), ActionKind.TRIM).ledger_ids == (1, 2)


def test_copies_past_the_lag_of_brokers_are_trimmed_by_one(cluster: MadeCluster) -> None:
    lines = [
        listed(1, offloaded_ms=5 * HOUR),
        listed(2, offloaded_ms=5 * HOUR, is_deleted=True),
        listed(3, offloaded_ms=5 * HOUR, is_complete=False),
        listed(4, offloaded_ms=HOUR),
        listed(5, offloaded_ms=5 * HOUR),
    ]
    cluster.topic(TOPIC, [*lines, current(6)], absent=[5])
    found = planned(cluster, KEEPS + TIER, has_admin=True)
    action = only(found, ActionKind.TRIM)
    assert (action.ledger_ids, action.reason) == ((1,), "1 offloaded ledgers are past the deletion lag of 4.0 h")
    never = KEEPS.replace("'4h'", "'never'")
    assert planned(cluster, never + TIER, has_admin=True).actions == []


def test_a_topic_whose_ledgers_are_offloaded_directly_is_trimmed_afterwards(cluster: MadeCluster) -> None:
    """A broker that is asked takes the topic."""
    cluster.topic(TOPIC, [listed(1, 3 * DAY), listed(2, 2 * HOUR), current(3)])
    text = HOUR_LONG.replace("60", "1440") + OFFLOADS
    found = planned(cluster, text, has_admin=True)
    assert [(one.kind, one.ledger_ids) for one in found.actions] == [(ActionKind.OFFLOAD, (2,))]
    assert [one.ledger_ids for one in found.waiting if "until its due ledgers are offloaded" in one.message] == [(1,)]
    cluster.own(SPACE)
    assert {one.kind for one in planned(cluster, text, has_admin=True).actions} == {ActionKind.OFFLOAD, ActionKind.TRIM}


def test_no_broker_is_asked_to_trim_by_a_default_that_it_may_not_have(cluster: MadeCluster) -> None:
    """Each pass would load the topic in vain."""
    cluster.topic(TOPIC, [listed(1), listed(2, offloaded_ms=DAY), listed(3), current(9)])
    cluster.cursor(TOPIC, "s", (1, 9))
    found = planned(cluster, TIER, has_admin=True)
    assert ids(found, ActionKind.TRIM) == []
    whys = [one.message for one in found.refused if one.code == Refusal.UNKNOWN_POLICIES.value]
    assert any("retention_minutes" in why for why in whys)
    assert any("deletion_lag" in why for why in whys)
    assert ids(planned(cluster, TIER + BROKERS, has_admin=True), ActionKind.TRIM) == [1, 2]


def test_nothing_is_offloaded_that_is_or_has_no_entries_or_is_not_wanted(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, offloaded_ms=HOUR), listed(2, entries=0, size=0), listed(3), current(4)])
    assert ids(planned(cluster, KEEPS + OFFLOADS), ActionKind.OFFLOAD) == [3]
    assert planned(cluster, KEEPS + OFFLOADS + "offload = false").actions == []


def record_of(ledger_id: int, **values: Any) -> JournalRecord:
    made = JournalRecord(*(RecordKind.ORPHAN, ledger_id, TOPIC, None, None, "why"), 2, 500, NOW - 2 * HOUR, NOW - HOUR)
    return replace(made, **values)


def journal(*records: JournalRecord, unreadable: dict[str, str] | None = None) -> Journal:
    return Journal(records, unreadable or {})


def attempt(ledger_id: int, age_ms: int = DAY, name: str = TOPIC) -> JournalRecord:
    return JournalRecord.attempt(name, ledger_id, "s3://tier", NOW - age_ms, uuid_of(ledger_id))


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
    records = {one.kind: one for action in found.actions for one in action.records}
    assert {one.kind for one in found.actions} == {ActionKind.MARK}
    assert (records[RecordKind.ORPHAN].ledger_id, records[RecordKind.ORPHAN].ledger_version) == (70, 2)
    assert (records[RecordKind.OBJECTS].uuid, records[RecordKind.OBJECTS].bucket) == (uuid_of(71), "s3://tier")
    # Whatever two looks said before: what this survey names is none.
    cluster.topic(f"{SPACE}/persistent/y", [listed(70), listed(71, offloaded_ms=0), current(72)])
    again = planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans)
    assert again.actions == []


@for_each(
    ("orphan", "why"),
    [
        (
            replace(ORPHAN, ledger_id=99),
            "whose ledger list begins at ledger 75 but lacks this newer ledger: the list was reset",
        ),
        # A broker has loaded the topic since, and made ledger 80.
        (
            replace(ORPHAN, ledger_id=77),
            "whose ledger list begins at ledger 75 but lacks this newer ledger: the list was reset",
        ),
        (replace(ORPHAN, created_ms=NOW - DAY - 1), "whose ledger list is newer"),
    ],
)
def test_ledgers_that_their_topic_lost_with_its_list_stay(orphan: OrphanLedger, why: str) -> None:
    """A list is restored from an older dump, or lost, and a broker has loaded the topic since: what it does not name are rows."""
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([orphan], []))
    assert found.actions == []
    ((refused),) = found.refused
    assert (refused.code, refused.ledger_ids) == (Refusal.LOST_LIST.value, (orphan.ledger_id,))
    assert why in refused.message
    # Whatever it was marked for before.
    record = record_of(orphan.ledger_id)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([orphan], []), journal=journal(record))
    assert only(found, ActionKind.CLEAN).records == (record,)
    # What has no entries has no rows, and states of subscriptions are none: but they go with the list that they are of.
    is_anew = why == "whose ledger list is newer"
    for one, stays in ((replace(orphan, size=0), False), (replace(orphan, has_states=True), is_anew)):
        planned_so = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([one], []))
        assert bool(planned_so.actions) is not stays
        assert [one.code for one in planned_so.refused] == [Refusal.LOST_LIST.value] * stays


def test_patterns_that_no_topic_comes_to_are_reported(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    text = "".join(f"[[topics]]\nmatch = '{one}'\ntrim = false\n" for one in ("t/ms/.*", "t/ns/.*", "t/ns/x"))
    found = [one for one in planned(cluster, text).refused if one.code == Refusal.NO_TOPIC.value]
    assert [one.subject for one in found] == ["[[topics]] match = 't/ms/.*'", "[[topics]] match = 't/ns/x'"]


@for_each(
    ("offload", "lines", "absent", "why"),
    [
        (OBJECTS, [listed(71), current(80)], [71], "neither BookKeeper nor another offload has a copy"),
        (OBJECTS, [listed(70), current(80)], [], "lacks this newer ledger: the list was reset"),
        (replace(OBJECTS, modified_ms=NOW - DAY - 1), [listed(75), current(80)], [], "whose ledger list is newer"),
        # In BookKeeper, offloaded otherwise, trimmed.
        (OBJECTS, [listed(71), current(80)], [], None),
        (OBJECTS, [listed(71, offloaded_ms=HOUR), current(80)], [71], None),
        (OBJECTS, [listed(75), current(80)], [], None),
        # Made again with the same id.
        (replace(OBJECTS, modified_ms=NOW - DAY - 1), [listed(71), current(80)], [], "whose ledger list is newer"),
        (replace(OBJECTS, entries=11, length=1000), [listed(71), current(80)], [], "these objects have 11 with 1,000"),
        (
            replace(OBJECTS, entries=10, length=999),
            [listed(71, offloaded_ms=HOUR), current(80)],
            [71],
            "these objects have 10 with",
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
        (refused,) = [one for one in found.refused if one.code == Refusal.LOST_LIST.value]
        assert why in refused.message


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


def test_a_line_of_objects_in_another_bucket_than_now_is_dropped(cluster: MadeCluster) -> None:
    """The name of a bucket stands for another URL by now: what is there may be a copy that somebody keeps."""
    orphans = Orphans([], [OBJECTS])
    cluster.topic(TOPIC, [listed(75), current(80)])
    marked = only(planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans), ActionKind.MARK).records[0]
    old = replace(marked, bucket="s3://before", noted_ms=NOW - DAY, due_ms=NOW - DAY)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=orphans, journal=journal(old))
    assert only(found, ActionKind.CLEAN).records == (old,)


def test_objects_of_an_attempt_that_is_noted_are_no_orphans(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(71), current(72)])
    one = JournalRecord.attempt(TOPIC, 71, "s3://tier", NOW - DAY, uuid_of(71))
    orphans = Orphans([], [OBJECTS])
    found = planned(
        cluster,
        KEEPS + TIER + ORPHANS,
        orphans=orphans,
        journal=journal(one),
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
        assert [one.code for one in found.refused if one.ledger_ids == (71,)] == [Refusal.BACKUP.value]
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
    assert [one.code for one in found.refused if one.ledger_ids == (70,)] == [Refusal.LOST_LIST.value]


# Records of the journal.


def orphaned(*records: JournalRecord, text: str = "", **situation: Any) -> Plan:
    """Return the plan for a cluster with the orphans 70 and 72."""
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    orphans = Orphans([ORPHAN, replace(ORPHAN, ledger_id=72)], [])
    reported = {"orphans": orphans, "journal": journal(*records), **situation}
    return planned(cluster, KEEPS + TIER + ORPHANS + text, **reported)


def test_a_record_that_holds_is_due_after_its_grace_and_not_marked_again() -> None:
    due, waits = record_of(70), record_of(72, due_ms=NOW + HOUR)
    found = orphaned(due, waits)
    action = only(found, ActionKind.DELETE)
    assert found.actions == [action]
    assert (action.ledger_ids, action.records, action.since_ms) == ((70,), (due,), NOW - HOUR)
    assert "grace period over for 1.0 h" in action.reason
    assert [(one.ledger_ids, one.due_ms) for one in found.waiting if one.action == "delete"] == [((72,), NOW + HOUR)]
    # A grace that is longer by now holds for what is marked, too.
    longer = orphaned(due, waits, text='trash_grace = "1d"\n')
    assert longer.actions == []
    assert [one.due_ms for one in longer.waiting if one.action == "delete"] == [NOW - 2 * HOUR + DAY] * 2
    # A clock that is behind, and is set right meanwhile, makes no grace shorter.
    marked = only(orphaned(text='trash_grace = "30m"\n'), ActionKind.MARK).records
    assert {(one.noted_ms, one.due_ms) for one in marked} == {(NOTED, NOTED + 30 * MINUTE)}


@for_each(
    ("record", "why"),
    [
        (record_of(99), "no longer an orphan"),
        (record_of(70, ledger_version=3), "changed after it was marked"),
        # Of a cluster that was initialised again, with ids from the beginning.
        (record_of(70, size=7), "changed after it was marked"),
        (record_of(70, managed_ledger="t/ns/persistent/y"), "changed after it was marked"),
        (record_of(70, noted_ms=NOW - 2 * DAY), "was created after the mark"),
    ],
)
def test_a_record_that_does_not_hold_is_dropped_and_nothing_is_deleted(record: JournalRecord, why: str) -> None:
    found = orphaned(record)
    action = only(found, ActionKind.CLEAN)
    assert (action.records, action.size) == ((record,), 0)
    assert why in action.reason
    assert "nothing is deleted" in action.reason
    assert ids(found, ActionKind.DELETE) == []


def test_a_record_is_kept_while_it_is_not_known_whether_it_holds() -> None:
    found = orphaned(record_of(99), orphans=None)
    assert (found.actions, [one.ledger_ids for one in found.waiting if one.action == "delete"]) == ([], [(99,)])


def test_a_ledger_with_a_damaged_record_gets_no_other_one() -> None:
    unreadable = {f"{ROOT}/{one}": "no record" for one in ("orphan-70", "no-name-of-ours")}
    found = orphaned(journal=journal(unreadable=unreadable))
    assert only(found, ActionKind.MARK).ledger_ids == (72,)
    (why,) = [one.message for one in found.refused if one.ledger_ids == (70,)]
    assert "orphan-70" in why


def test_no_more_is_marked_than_the_journal_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million orphans do not become a million nodes."""
    monkeypatch.setattr("ledgerfs_cluster.lifecycle.planning.records.MOST_MARKED", 1)
    found = orphaned()
    assert only(found, ActionKind.MARK).ledger_ids == (70,)
    assert [one.ledger_ids for one in found.waiting if one.action == "mark"] == [(72,)]
    full = orphaned(record_of(70))
    assert [one.kind for one in full.actions] == [ActionKind.DELETE]


def test_nodes_that_could_not_be_read_are_named_and_what_they_are_about_is_left_alone(cluster: MadeCluster) -> None:
    cluster.add(managed_ledger_path(TOPIC), b"\xff\xff")
    records = journal(record_of(70), attempt(3), unreadable={f"{ROOT}/x": "no record"})
    found = planned(cluster, KEEPS + ORPHANS + TIER, journal=records, orphans=Orphans())
    assert found.actions == []
    assert {one.code for one in found.refused} == {Refusal.UNREADABLE.value}
    assert sorted(refusals(found)[Refusal.UNREADABLE]) == [3, 70]
    assert {one.subject for one in found.refused} == {TOPIC, f"{ROOT}/x"}


@for_each("url", ["s3://tier", "s3://tier/"])
def test_objects_in_a_bucket_that_nobody_could_look_into_are_neither_due_nor_dropped(url: str) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(75), current(80)])
    line = record_of(71, kind=RecordKind.OBJECTS, uuid=uuid_of(71), bucket="s3://tier")
    unknown = Orphans([ORPHAN], unlisted={url: "it does not answer"})
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=unknown, journal=journal(line))
    assert [(one.kind, one.ledger_ids) for one in found.actions] == [(ActionKind.MARK, (70,))]
    assert [(one.action, one.subject, one.code) for one in found.refused] == [
        ("delete", TOPIC, "unreadable"),
        ("", url, "unreadable"),
    ]
    other = replace(line, bucket="s3://other")
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=unknown, journal=journal(other))
    assert only(found, ActionKind.CLEAN).records == (other,)


# What attempts have left.


def test_attempts_that_no_list_names_are_cleaned_up(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1, MINUTE), listed(2, offloaded_ms=HOUR), current(3)])
    one = attempt(1)
    action = only(planned(cluster, KEEPS, journal=journal(one)), ActionKind.CLEAN)
    assert (action.records, action.managed_ledger) == ((one,), TOPIC)
    assert "started 1.0 d ago" in action.reason
    # Also where the topic is gone.
    gone = attempt(8, name="t/ns/persistent/gone")
    assert only(planned(cluster, KEEPS, journal=journal(gone)), ActionKind.CLEAN).records == (gone,)
    young = planned(cluster, KEEPS, journal=journal(attempt(1, MINUTE)), attempt_grace_ms=HOUR)
    assert (young.actions, [one.due_ms for one in young.waiting if one.action == "clean"]) == (
        [],
        [NOW - MINUTE + HOUR],
    )
    named = planned(cluster, KEEPS, journal=journal(attempt(2)))
    assert (named.actions, refusals(named)[Refusal.NAMED]) == ([], [2])


# What must not be done.


def owned(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.own(SPACE)


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


def shared_ledger(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.topic("t/other/persistent/shadow", [listed(1), current(9)], absent=[1])
    cluster.own("t/other")


@for_each(
    ("make", "refusal"),
    [
        (being_deleted, Refusal.BEING_DELETED),
        (unknown_policies, Refusal.UNKNOWN_POLICIES),
        (damaged_list_of_events, Refusal.UNKNOWN_POLICIES),
        (damaged_compaction_of_events, Refusal.UNKNOWN_POLICIES),
        (damaged_policies, Refusal.UNKNOWN_POLICIES),
        (policies_elsewhere, Refusal.UNKNOWN_POLICIES),
        (shared_ledger, Refusal.SHARED),
    ],
)
def test_a_trim_that_nobody_may_be_asked_for_is_refused_by_name(make: Any, refusal: Refusal) -> None:
    cluster = MadeCluster()
    make(cluster)
    found = planned(cluster, HOUR_LONG, has_admin=True)
    assert found.actions == []
    assert set(refusals(found)[refusal]) == {1}
    assert all(one.message for one in found.refused)


def extensible(cluster: MadeCluster) -> None:
    cluster.broker(EXTENSIBLE)


def unreadable_broker(cluster: MadeCluster) -> None:
    cluster.add("/loadbalance/brokers/b:8080", b"{")


@for_each(
    ("make", "via", "refusal"),
    [
        (lambda cluster: cluster.own(SPACE), "auto", Refusal.NO_ADMIN),
        (lambda cluster: cluster.own(SPACE), "direct", Refusal.OWNED),
        (extensible, "direct", Refusal.LOAD_MANAGER),
        (unreadable_broker, "direct", Refusal.UNKNOWN_OWNER),
    ],
)
def test_an_offload_without_its_broker_is_refused_by_name(make: Any, via: str, refusal: Refusal) -> None:
    cluster = MadeCluster()
    cluster.topic(TOPIC, [listed(1), current(2)])
    make(cluster)
    found = planned(cluster, KEEPS + OFFLOADS + f'via = "{via}"', has_admin=via == "direct")
    assert (found.actions, refusals(found)[refusal]) == ([], [1])


def test_the_greatest_id_is_never_offloaded(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2, offloaded_ms=DAY), listed(3)])
    found = planned(cluster, KEEPS + OFFLOADS)
    assert (ids(found, ActionKind.OFFLOAD), refusals(found)) == ([1], {Refusal.GREATEST: [3]})


def test_unknown_policies_matter_only_where_the_file_is_silent(cluster: MadeCluster) -> None:
    unknown_policies(cluster)
    found = planned(cluster, KEEPS + OFFLOADS)
    assert (ids(found, ActionKind.OFFLOAD), refusals(found)) == ([], {Refusal.UNKNOWN_POLICIES: [1]})
    found = planned(cluster, KEEPS + OFFLOADS + "offload_above = 'never'")
    assert (ids(found, ActionKind.OFFLOAD), found.refused) == ([1], [])


def test_system_topics_are_never_touched(cluster: MadeCluster) -> None:
    for name in (f"{SPACE}/persistent/__change_events", "pulsar/c/b:8080/persistent/healthcheck"):
        cluster = MadeCluster()
        cluster.topic(name, [listed(1, offloaded_ms=DAY, is_complete=False), listed(2, 2 * DAY), current(3)])
        found = planned(cluster, HOUR_LONG + OFFLOADS)
        assert found.actions == []
        assert Refusal.SYSTEM_TOPIC in refusals(found)


def test_offloads_without_all_that_must_be_known_are_refused(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(1), listed(2), listed(3), listed(4), listed(5), current(9)], absent=[1, 2, 3, 4])
    cluster.add(ledger_path(1), b"\xff")
    cluster.ledger(3, TOPIC, state=LedgerState.OPEN)
    cluster.ledger(4, TOPIC, entries=9)
    found = planned(cluster, KEEPS + OFFLOADS)
    assert ids(found, ActionKind.OFFLOAD) == [5]
    reported = refusals(found)
    assert reported.pop(Refusal.UNREADABLE) == [1]
    assert reported == {Refusal.LOST: [2], Refusal.NOT_CLOSED: [3], Refusal.DIFFERENT: [4]}
    no_bucket = planned(cluster, KEEPS + "[[topics]]\nmatch = '.*'\noffload_after = '1h'")
    assert (no_bucket.actions, refusals(no_bucket)[Refusal.NO_BUCKET]) == ([], [1, 2, 3, 4, 5])


def test_orphans_that_may_be_anothers_or_are_open_are_refused(cluster: MadeCluster) -> None:
    orphans = Orphans(
        [replace(ORPHAN, is_closed=False, has_states=True), replace(ORPHAN, ledger_id=72, is_known=False)],
        [replace(OBJECTS, is_known=False)],
    )
    # Also where it was marked before that was known.
    for records in (journal(), journal(record_of(70))):
        found = planned(cluster, "[defaults]\norphans = true", orphans=orphans, journal=records)
        assert found.actions == []
        reported = {refusal: sorted(set(ids)) for refusal, ids in refusals(found).items()}
        assert reported == {Refusal.NOT_CLOSED: [70], Refusal.ANOTHER_CLUSTERS: [71, 72]}


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
    graces = {line.ledger_id: line.due_ms - line.noted_ms for one in found.actions for line in one.records}
    assert {one: graces.get(one) for one in (70, 71)} == {70: 7 * DAY, 71: 7 * DAY}


def test_orphans_of_a_namespace_that_is_being_deleted_stay(cluster: MadeCluster) -> None:
    cluster.topic(TOPIC, [listed(75), current(80)])
    cluster.policies(SPACE, deleted=True)
    found = planned(cluster, KEEPS + TIER + ORPHANS, orphans=Orphans([ORPHAN], []))
    assert (found.actions, refusals(found)[Refusal.BEING_DELETED]) == ([], [70])


def test_a_plan_of_some_topics_has_nothing_of_others(cluster: MadeCluster) -> None:
    other = f"{SPACE}/persistent/y"
    cluster.topic(TOPIC, [listed(1), current(2)])
    cluster.topic(other, [listed(3), current(4)])
    records = journal(record_of(99), attempt(1))
    found = planned(cluster, KEEPS + OFFLOADS, journal=records).only({other})
    assert [(one.kind, one.ledger_ids) for one in found.actions] == [(ActionKind.OFFLOAD, (3,))]

"""Whatever a cluster is like: no plan deletes what a list names, nor offloads directly what a broker may have loaded."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind, Orphans, Plan, Situation
from ledgerfs_cluster.lifecycle.planning.orphans import OrphanLedger, OrphanOffload
from ledgerfs_cluster.lifecycle.planning.planning import plan_of
from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, Via, parse_policy_file
from ledgerfs_cluster.offload.journal import Journal, JournalRecord, RecordKind
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.survey import Survey, is_of_brokers
from tests.cluster.support.made_surveys import (
    DAY,
    EXTENSIBLE,
    HOUR,
    MODULAR,
    NOW,
    MadeCluster,
    current,
    listed,
    uuid_of,
)

SPACES = (*["t/free"] * 5, "t/owned", "t/owned", "t/deleted", "pulsar/system")
"""Most are such that something is done."""
AGES = (0, HOUR, DAY, 3 * DAY)


@st.composite
def lines_of(draw: st.DrawFn, first: int) -> list[LedgerInfo]:
    """Lines of a list from an id on; the last one may be open or closed."""
    count = draw(st.integers(1, 5))
    ages = sorted(draw(st.lists(st.sampled_from(AGES), min_size=count, max_size=count)), reverse=True)
    lines = []
    for number, age in enumerate(ages):
        size = draw(st.sampled_from((0, 1000)))
        lines.append(
            listed(
                first + number,
                age,
                size=size,
                entries=size // 100,
                offloaded_ms=draw(st.none() | st.sampled_from(AGES)),
                is_complete=draw(st.booleans()),
                is_deleted=draw(st.booleans()),
                bucket=draw(st.sampled_from(("tier", "unknown"))),
            )
        )
    return [*lines, current(first + count)] if draw(st.booleans()) else lines


@st.composite
def clusters(draw: st.DrawFn) -> Survey:
    cluster = MadeCluster()
    cluster.own("t/owned")
    cluster.policies("t/deleted", deleted=True)
    cluster.broker(draw(st.sampled_from((*[MODULAR] * 4, EXTENSIBLE))))
    for number in range(draw(st.integers(1, 4))):
        name = f"{draw(st.sampled_from(SPACES))}/persistent/x{number}"
        lines = draw(lines_of(100 * number))
        every = [one.ledger_id for one in lines]
        absent = draw(st.lists(st.sampled_from(every), max_size=1))
        there = draw(st.lists(st.sampled_from(every), max_size=3))
        cluster.topic(
            name,
            lines,
            absent=absent,
            there=there,
            is_terminated=draw(st.integers(0, 5)) == 0,
            last=draw(st.sampled_from((LastEnd.OPEN, LastEnd.UNKNOWN, LastEnd.GONE))),
        )
        for cursor in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            mark = draw(st.sampled_from(every)), draw(st.integers(-1, 9))
            cluster.cursor(
                name, f"s{cursor}", mark, ledger=draw(st.sampled_from((-1, -1, -1, 9000 + 10 * number + cursor)))
            )
    return cluster.survey()


@st.composite
def files(draw: st.DrawFn) -> PolicyFile:
    spans = st.sampled_from(("0s", "2h", "2d", "never"))
    minutes, megabytes = draw(st.sampled_from(((0, 0), (0, 0), (90, -1), (90, -1), (-1, -1), (-1, 0))))
    text = f"""
[broker]
retention_minutes = {minutes}
retention_megabytes = {megabytes}
deletion_lag = "{draw(spans)}"
[defaults]
orphans = true
bucket = "tier"
[buckets.tier]
url = "s3://tier"
[[topics]]
match = '.*'
via = "{draw(st.sampled_from([one.value for one in Via]))}"
offload_after = "{draw(spans)}"
bucket = "tier"
trim = {draw(st.sampled_from(("true", "true", "true", "false")))}
"""
    return parse_policy_file(text.encode(), Path("policy.toml"))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Survey, Situation]:
    """What two checks call orphans, right or wrong, and records of some of it."""
    survey, file = draw(clusters()), draw(files())
    every = [(int(row["ledger_id"]), survey.topics[int(row["topic"])]) for row in survey.listed]
    names = [
        *every,
        *((one + 50, name) for one, name in every),
        *((one - 1, name) for one, name in every if one % 100 == 1),
    ]
    ledgers, offloads, records = [], [], []
    for ledger_id, name in draw(st.lists(st.sampled_from(names), max_size=5, unique=True)):
        version, size = draw(st.sampled_from((2, 3))), draw(st.sampled_from((0, 500)))
        if draw(st.booleans()):
            is_closed, has_states = draw(st.booleans()), draw(st.booleans())
            reported = ("managed-ledger", name, is_closed, draw(st.booleans()), NOW - DAY, NOW - DAY, has_states)
            ledgers.append(OrphanLedger(ledger_id, version, size if is_closed else 0, *reported))
            record = JournalRecord(RecordKind.ORPHAN, ledger_id, name, None, None, "why", 2, 500)
        else:
            uuid = uuid_of(ledger_id)
            offloads.append(OrphanOffload(ledger_id, uuid, "s3://tier", name, draw(st.booleans()), 500, NOW - HOUR))
            record = JournalRecord(RecordKind.OBJECTS, ledger_id, name, uuid, "s3://tier", "why", -1, 500)
        if draw(st.booleans()):
            noted_ms = NOW - draw(st.sampled_from((HOUR // 2, 2 * HOUR, 3 * DAY)))
            records.append(replace(record, noted_ms=noted_ms, due_ms=noted_ms + HOUR))
    situation = Situation(file, NOW, NOW, draw(st.booleans()), Journal(records), Orphans(ledgers, offloads))
    return survey, situation


def require_nothing_deleted_that_a_list_names(survey: Survey, plan: Plan) -> None:
    """Require that only a broker deletes what a list names."""
    listed_ids = set(survey.listed["ledger_id"].tolist())
    named = {
        int(row["ledger_id"]) for row in survey.listed if row["has_context"] and (row["uuid_high"] or row["uuid_low"])
    }
    for action in plan.actions:
        if action.kind in {ActionKind.MARK, ActionKind.DELETE}:
            for record in action.records:
                assert record.ledger_id not in (listed_ids if record.kind is RecordKind.ORPHAN else named)


def require_nothing_direct_where_a_broker_may_have_the_topic(survey: Survey, plan: Plan, situation: Situation) -> None:
    opened = {one.ledger_id for one in situation.orphans.ledgers if not one.is_closed} if situation.orphans else set()
    for action in plan.actions:
        name = action.managed_ledger or ""
        if action.via is Via.BROKER:
            assert situation.has_admin
            assert not is_of_brokers(name)
        elif action.kind is ActionKind.OFFLOAD:
            assert survey.owners.of(name) is Owner.NONE
            assert survey.owners.are_in_zookeeper
        elif action.kind is not ActionKind.CLEAN:
            assert not opened & {one.ledger_id for one in action.records if one.kind is RecordKind.ORPHAN}


def require_greatest_ids_not_offloaded(survey: Survey, plan: Plan) -> None:
    greatest = {name: int(survey.ledgers_of(row).ids[-1]) for row, name in enumerate(survey.topics)}
    for action in plan.actions:
        if action.kind is ActionKind.OFFLOAD:
            assert greatest[action.managed_ledger or ""] not in action.ledger_ids
        assert list(action.ledger_ids) == sorted(action.ledger_ids)


def require_deletions_marked_before(plan: Plan, fresh: Plan) -> None:
    """Require that what is deleted was marked before its grace, and that a plan without records would mark it again."""
    again = {one.name: one for action in fresh.actions for one in action.records}
    for action in plan.actions:
        for record in action.records:
            if action.kind is ActionKind.MARK:
                assert record.due_ms >= NOW
                assert record.build()
            elif action.kind is ActionKind.DELETE:
                assert record.due_ms <= NOW
                assert record.noted_ms >= NOW - DAY or record.kind is RecordKind.OBJECTS
                assert (again[record.name].ledger_version, again[record.name].size) == (
                    record.ledger_version,
                    record.size,
                )
    every = [record.name for one in plan.actions for record in one.records]
    assert len(every) == len(set(every)), "a record is in two actions"


def require_no_trim_leaves_holes(survey: Survey, plan: Plan) -> None:
    """Require that a topic loses its oldest ledgers, and none before an older one, unless a copy of it is in a bucket."""
    for action in plan.actions:
        if action.kind is ActionKind.TRIM:
            ledgers = survey.ledgers_of(survey.topics.index(action.managed_ledger or ""))
            rows = zip(ledgers.ids.tolist(), ledgers.entries.tolist(), ledgers.are_offloaded.tolist(), strict=True)
            filled = [(one, is_offloaded) for one, entries, is_offloaded in rows if entries]
            left = [at for at, (one, _) in enumerate(filled) if one not in action.ledger_ids]
            first = min(left, default=len(filled))
            assert all(is_offloaded for one, is_offloaded in filled[first:] if one in action.ledger_ids)


def require_no_action_refused(plan: Plan) -> None:
    refused = {(one.action, one.subject, ledger_id) for one in plan.refused for ledger_id in one.ledger_ids}
    done = {
        (one.kind.value, one.managed_ledger, ledger_id)
        for one in plan.actions
        for ledger_id in one.ledger_ids
        if one.kind in {ActionKind.OFFLOAD, ActionKind.TRIM}
    }
    assert not refused & done
    assert all(one.reason for one in plan.actions)
    assert all(one.message for one in (*plan.waiting, *plan.refused))


@pytest.mark.long
@settings(max_examples=100)
@given(situations())
def test_any_plan_is_safe(made: tuple[Survey, Situation]) -> None:
    """Check all rules for each situation: making a situation takes longer than planning."""
    survey, situation = made
    plan = plan_of(survey, situation)
    fresh = plan_of(survey, replace(situation, journal=Journal()))
    for one in (plan, fresh):
        require_nothing_deleted_that_a_list_names(survey, one)
        require_greatest_ids_not_offloaded(survey, one)
        require_nothing_direct_where_a_broker_may_have_the_topic(survey, one, situation)
        require_no_trim_leaves_holes(survey, one)
        require_no_action_refused(one)
    require_deletions_marked_before(plan, fresh)

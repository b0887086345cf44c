"""Whatever a cluster is like: no plan touches the greatest id of a list, nor directly what a broker may have loaded."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.survey import Survey, is_of_brokers
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState, build_trash_line
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan
from ledgerfs.lifecycle.planning.planning import plan_of
from ledgerfs.lifecycle.planning.situation import Notes, Situation
from ledgerfs.lifecycle.policy.policy_file import PolicyFile, Via, parse_policy_file
from tests.support.made_surveys import (
    DAY,
    EXTENSIBLE,
    HOUR,
    MODULAR,
    NOW,
    VERSION,
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
[buckets.tier]
url = "s3://tier"
[[topics]]
match = '.*'
via = "{draw(st.sampled_from([one.value for one in Via]))}"
offload_after = "{draw(spans)}"
deletion_lag = "{draw(spans)}"
bucket = "tier"
trim = {draw(st.sampled_from(("true", "true", "true", "false")))}
"""
    return parse_policy_file(text.encode(), Path("policy.toml"))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Survey, Situation]:
    survey, file = draw(clusters()), draw(files())
    situation = Situation(file, NOW, NOW, has_admin=draw(st.booleans()))
    every = survey.listed["ledger_id"].tolist()
    names = {int(row["ledger_id"]): survey.topics[int(row["topic"])] for row in survey.listed}
    noted = []
    for ledger_id in draw(st.lists(st.sampled_from(every), max_size=4, unique=True)):
        kind = draw(st.sampled_from((TrashKind.OFFLOADED, TrashKind.TRIMMED, TrashKind.FLAGGED)))
        has_objects = kind is TrashKind.TRIMMED and draw(st.booleans())
        noted.append(
            TrashLine(
                *(kind, ledger_id, names[ledger_id]),
                *((uuid_of(ledger_id), "s3://tier") if has_objects else (None, None)),
                *(
                    "why",
                    draw(st.sampled_from((VERSION, -1))),
                    1000,
                    NOW - DAY,
                    draw(st.sampled_from((NOW - 1, NOW + 1))),
                ),
                draw(st.sampled_from(TrashState)),
            )
        )
    return survey, replace(situation, notes=Notes(noted))


def drops_lines(action: Action) -> bool:
    return action.kind is ActionKind.CLEAN and bool(action.lines)


def touched(plan: Plan) -> list[tuple[Action, int]]:
    return [(one, ledger_id) for one in plan.actions if not drops_lines(one) for ledger_id in one.ledger_ids]


def require_greatest_ids_untouched(survey: Survey, plan: Plan) -> None:
    """Require that no plan touches the greatest id of a list."""
    greatest = {name: int(survey.ledgers_of(row).ids[-1]) for row, name in enumerate(survey.topics)}
    for action, ledger_id in touched(plan):
        assert action.managed_ledger is not None
        assert ledger_id != greatest[action.managed_ledger]


def require_nothing_direct_where_a_broker_may_have_the_topic(survey: Survey, plan: Plan, situation: Situation) -> None:
    for action, _ in touched(plan):
        assert action.managed_ledger is not None
        assert not is_of_brokers(action.managed_ledger) or action.lines
        is_going_on = action.kind is ActionKind.DELETE and action.lines[0].state is TrashState.UNLISTED
        if action.via is Via.DIRECT and not is_going_on:
            assert survey.owners.of(action.managed_ledger) is Owner.NONE
            assert survey.owners.are_in_zookeeper
            if action.kind is not ActionKind.OFFLOAD:
                assert not survey.is_terminated(survey.topics.index(action.managed_ledger))
        if action.via is Via.BROKER:
            assert situation.has_admin


def require_deletions_marked_before(plan: Plan, fresh: Plan) -> None:
    """Require that what is deleted was marked before its grace, and that a plan without marks would mark it again."""
    again = {(line.kind, line.ledger_id, line.uuid) for one in fresh.actions for line in one.lines}
    for action in plan.actions:
        for line in action.lines:
            if action.kind is ActionKind.MARK:
                assert line.due_ms >= NOW
                assert build_trash_line(line)
            elif action.kind is ActionKind.DELETE and line.state is TrashState.MARKED:
                assert line.due_ms <= NOW
                assert (line.kind, line.ledger_id, line.uuid) in again
            elif action.kind is ActionKind.DELETE:
                assert line.state is TrashState.UNLISTED
    every = [line.node_name for one in plan.actions for line in one.lines]
    assert len(every) == len(set(every)), "a line is in two actions"


def require_no_holes(survey: Survey, fresh: Plan) -> None:
    """Require that a topic loses its oldest ledgers, and none before an older one."""
    for action in fresh.actions:
        if action.kind is ActionKind.MARK and action.lines[0].kind is TrashKind.TRIMMED:
            ledgers = survey.ledgers_of(survey.topics.index(action.managed_ledger or ""))
            filled = [int(one) for one, entries in zip(ledgers.ids, ledgers.entries, strict=True) if entries]
            assert list(action.ledger_ids) == filled[: len(action.ledger_ids)]
        assert list(action.ledger_ids) == sorted(action.ledger_ids)


def require_no_action_refused(plan: Plan) -> None:
    refused = {(one.kind, one.subject, ledger_id) for one in plan.refused for ledger_id in one.ledger_ids}
    # A ledger past its retention may have to stay, and BookKeeper's copy of it may go.
    done = {
        (one.kind, one.managed_ledger, ledger_id)
        for one, ledger_id in touched(plan)
        if one.kind is not ActionKind.MARK or one.lines[0].kind is TrashKind.TRIMMED
    }
    assert not refused & done
    assert all(one.why for one in (*plan.actions, *plan.waiting, *plan.refused))


@pytest.mark.long
@settings(max_examples=100)
@given(situations())
def test_any_plan_is_safe(made: tuple[Survey, Situation]) -> None:
    """Check all rules for each situation: making a situation takes longer than planning."""
    survey, situation = made
    plan = plan_of(survey, situation)
    fresh = plan_of(survey, replace(situation, notes=Notes()))
    for one in (plan, fresh):
        require_greatest_ids_untouched(survey, one)
        require_nothing_direct_where_a_broker_may_have_the_topic(survey, one, situation)
        require_no_action_refused(one)
    require_deletions_marked_before(plan, fresh)
    require_no_holes(survey, fresh)

"""``ledgerfs lifecycle plan``: the actions that are due now, and their reasons."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, storage_options_of
from ledgerfs.cli.output import minute, print_json, progress, say, show, table
from ledgerfs.display import human_size, printable, span
from ledgerfs_cluster.cli.cluster.source import (
    access_options,
    bookies_of,
    ledgers_text,
    opened_cluster,
    say_not_known,
    topic_option,
    wanted_topics,
)
from ledgerfs_cluster.cli.lifecycle.policy import Policy, policy_or_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ledgerfs_cluster.lifecycle.planning.actions import Action, Plan
    from ledgerfs_cluster.lifecycle.service.looking import Looked
    from ledgerfs_cluster.offload.outcomes import Outcome
    from ledgerfs_cluster.snapshot.survey import Survey


@command()
@policy_or_cluster
@access_options
@click.option(
    "--pass-seconds", type=click.FloatRange(min=0), default=5, show_default=True, metavar="NUMBER",
    help="Seconds between the two checks for orphans, if POLICY deletes them.",
)  # fmt: skip
@topic_option
@json_option
@click.pass_context
def plan(
    context: click.Context,
    /,
    *,
    policy: Policy,
    zk_rate: float,
    no_bookies: bool,
    pass_seconds: float,
    topics: tuple[str, ...],
    show_all: bool,
    as_json: bool,
) -> None:
    """Show what a policy would do now, and why.

    Changes nothing. POLICY is a TOML file: buckets, and rules for topics that override the cluster's own policies. Each line is an
    action: offload ledgers; have a broker trim; mark orphans in the journal; delete marked orphans after their grace period; clean up
    failed attempts. Waiting and refused actions follow; --all shows each with its reason.

    With --cluster instead of POLICY it shows what brokers would offload and trim by the cluster's own policies if all topics were
    loaded.

    Exit code 1: some nodes or buckets could not be read.

    \b
    Examples:
      ledgerfs lifecycle plan policy.toml
      ledgerfs lifecycle plan --cluster pulsar+zk://zk1:2181
      ledgerfs lifecycle plan policy.toml --topic public/default/orders --all
      ledgerfs lifecycle plan policy.toml --admin http://broker:8080 --token-file token.txt
      ledgerfs lifecycle plan policy.toml --cluster dump.json.zst
      ledgerfs lifecycle plan policy.toml --json | jq '.refused[] | select(.refusal == "no-bucket")'
    """
    # These import numpy, which --help does not need.
    from ledgerfs_cluster.lifecycle.planning.actions import Situation
    from ledgerfs_cluster.lifecycle.planning.planning import plan_of

    seen = _seen(context, policy, (zk_rate, no_bookies), pass_seconds)
    survey, journal, orphans = seen.survey, seen.journal, seen.orphans
    now_ms = survey.read_ms if policy.is_dump else time.time_ns() // 1_000_000
    situation = Situation(
        policy.file,
        now_ms,
        now_ms,
        # Without POLICY, plan the work that brokers do on their own.
        has_admin=policy.brokers is not None or not policy.file.digest,
        journal=journal,
        orphans=orphans,
        # A service may be running.
        attempt_grace_ms=policy.file.orphan_grace_ms,
    )
    wanted = wanted_topics(survey, topics)
    found = plan_of(survey, situation)
    found = found.only(wanted) if wanted else found
    if as_json:
        print_json(_as_json(policy, survey, found))
    else:
        _show_actions(found.actions)
        if show_all:
            _show_left(found)
    _say_result(policy, found, show_all=show_all)
    unread = {**journal.unreadable, **({} if orphans is None else orphans.unlisted)}
    for path, why in unread.items():
        say(f"{path}: {why}; skipped")
    say_not_known(context, survey, 0)
    if unread:
        context.exit(1)


def _seen(context: click.Context, policy: Policy, access: tuple[float, bool], pass_seconds: float) -> "Looked":
    """Return a snapshot, the cluster's journal, and orphans if wanted; ``access`` contains --zk-rate and --no-bookies."""
    from ledgerfs_cluster.lifecycle.service.looking import Looked, Looking
    from ledgerfs_cluster.offload.journal import Journal
    from ledgerfs_cluster.snapshot.surveying import survey_dump

    with progress() as update:
        if policy.is_dump:
            return Looked(survey_dump(policy.source, update, storage_options_of(context)), Journal(), None)
        cluster = opened_cluster(context, policy.source, access[0])
        try:
            bookies = bookies_of(cluster, no_bookies=access[1])
            return Looking(cluster, policy.file, bookies, pass_seconds).look(update)
        finally:
            cluster.nodes.close()


def _show_actions(actions: "Sequence[Action]") -> None:
    rows = (
        (one.kind.value, *_about(one.managed_ledger, one), one.via.value, minute(one.since_ms), printable(one.reason))
        for one in actions
    )
    _show(("what", "topic", "ledgers", "bytes", "via", "since", "why"), rows)


def _show_left(found: "Plan") -> None:
    """Print waiting and refused actions."""
    waiting = (
        (one.action, *_about(one.subject, one), minute(one.due_ms), printable(one.message)) for one in found.waiting
    )
    _show(("waits", "topic", "ledgers", "bytes", "until", "why"), waiting)
    refused = (
        (one.code, one.action or "-", *_about(one.subject, one), printable(one.message)) for one in found.refused
    )
    _show(("refused", "what", "topic", "ledgers", "bytes", "why"), refused)


def _show(columns: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> None:
    shown = table(*columns, right=("bytes",))
    for row in rows:
        shown.add_row(*row)
    if shown.row_count:
        show(shown)


def _about(managed_ledger: str | None, one: "Action | Outcome") -> tuple[str, str, str]:
    """Return topic, ledgers and bytes of a row."""
    return _topic(managed_ledger), ledgers_text(one.ledger_ids), human_size(one.size)


def _topic(managed_ledger: str | None) -> str:
    from ledgerfs.formats.topic_names import topic_of

    return "-" if managed_ledger is None else printable(topic_of(managed_ledger))


def _say_result(policy: Policy, found: "Plan", *, show_all: bool) -> None:
    """Print totals of each kind, and the numbers of waiting and refused actions."""
    reported = []
    for kind in dict.fromkeys(one.kind for one in found.actions):
        some = [one for one in found.actions if one.kind is kind]
        ledgers, size = sum(len(one.ledger_ids) for one in some), human_size(sum(one.size for one in some))
        reported.append(f"{kind.value}: {len(some):,} for {ledgers:,} ledgers, {size}")
    say(f"{policy.source}: {'; '.join(reported) or 'no work is due'}")
    if found.waiting:
        by_kind = Counter(one.action for one in found.waiting)
        times = [one.due_ms for one in found.waiting if one.due_ms is not None]
        first = f"; the first is due in {span(max(0, min(times) - found.now_ms))}" if times else ""
        say(f"waiting: {_counted(by_kind)}{first}")
    if found.refused:
        say(f"refused: {_counted(Counter(one.code for one in found.refused))}")
    for one in found.refused:
        if one.code == "no-topic":
            say(f"{one.subject}: {one.message}")
    if (found.waiting or found.refused) and not show_all:
        say("--all lists all waiting and refused work, with reasons")
    if policy.is_dump:
        say(
            "this plan is from a dump, which is a snapshot and has no journal of started work: plan with the live cluster before you run"
        )


def _counted(counts: "Counter[str]") -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _as_json(policy: Policy, survey: "Survey", found: "Plan") -> dict[str, Any]:
    return {
        "cluster": policy.source,
        "policy": str(policy.file.path) if policy.file.digest else None,
        "read": iso_time(survey.read_ms),
        "actions": [_action_as_json(one) for one in found.actions],
        "waiting": [
            {**_left_as_json(one), **_whose(one.subject), "due": iso_time(one.due_ms)} for one in found.waiting
        ],
        "refused": [{**_left_as_json(one), "subject": one.subject, "refusal": one.code} for one in found.refused],
        "not_known": list(survey.troubles),
        "damaged_nodes": [{"path": one.path, "reason": one.reason} for one in survey.damaged],
    }


def _left_as_json(one: "Outcome") -> dict[str, Any]:
    return {"kind": one.action or None, "ledgers": list(one.ledger_ids), "bytes": one.size, "why": one.message}


def _action_as_json(one: "Action") -> dict[str, Any]:
    bucket = None if one.rule is None or one.rule.bucket is None else one.rule.bucket.url
    return {
        "kind": one.kind.value,
        **_whose(one.managed_ledger),
        "ledgers": list(one.ledger_ids),
        "bytes": one.size,
        "via": one.via.value,
        "since": iso_time(one.since_ms),
        "why": one.reason,
        "bucket": bucket if one.kind.value == "offload" else None,
        "records": [
            {"node": record.name, "due": iso_time(record.due_ms or None), "why": record.reason}
            for record in one.records
        ],
    }


def _whose(managed_ledger: str | None) -> dict[str, str | None]:
    from ledgerfs.formats.topic_names import topic_of

    return {
        "topic": None if managed_ledger is None else topic_of(managed_ledger),
        "managed_ledger": managed_ledger,
    }

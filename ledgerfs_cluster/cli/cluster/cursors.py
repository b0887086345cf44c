"""``ledgerfs cluster cursors``: positions of subscriptions, and the data that they hold back."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import minute, say
from ledgerfs.cli.parameter_types import Duration
from ledgerfs.display import human_size, printable
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.cli.cluster.source import (
    broker_defaults,
    retention_options,
    say_not_known,
    source_argument,
    surveyed,
    topic_option,
    wanted_topics,
)
from ledgerfs_cluster.cli.rows import print_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.rules.cursors import CursorState

_EVER = 2**63


@command()
@source_argument
@click.option(
    "--inactive", type=Duration(), metavar="TIME", help="Only subscriptions without activity for this time, such as 7d."
)
@retention_options
@topic_option
@json_option
@click.pass_context
def cursors(
    context: click.Context,
    /,
    *,
    source: str,
    zk_rate: float,
    no_bookies: bool,
    inactive: float | None,
    topics: tuple[str, ...],
    show_all: bool,
    as_json: bool,
    **defaults: int,
) -> None:
    """Show backlogs of subscriptions, and what they hold back.

    CLUSTER is pulsar+zk://host:port,host:port[/chroot], or a file of `ledgerfs cluster dump`. Without --all it lists subscriptions
    that have a backlog, or that hold back data beyond retention. "Holds back" shows the bytes that would be deleted without any
    subscription.

    ~ marks the last change of the node, shown if the last activity is unknown; ? a subscription that may be further than shown;
    * a topic that may have its own policies.

    \b
    Examples:
      ledgerfs cluster cursors pulsar+zk://zk1:2181 --inactive 7d
      ledgerfs cluster cursors dump.json.zst --topic public/default/orders --json
    """
    # This imports numpy, which --help does not need.
    from ledgerfs_cluster.rules.cursors import cursors as cursors_of

    survey = surveyed(context, source, zk_rate, no_bookies=no_bookies)
    wanted = wanted_topics(survey, topics)
    before = _EVER if inactive is None else survey.read_ms - round(inactive * 1000)
    found, seen, holding = [], 0, 0
    own_policies: set[str] = set()
    for one in cursors_of(survey, broker_defaults(**defaults), survey.read_ms):
        if wanted and one.managed_ledger not in wanted:
            continue
        seen += 1
        holding += bool(one.held_size)
        if one.may_have_own_policies:
            own_policies.add(one.managed_ledger)
        if one.active_ms <= before and (show_all or wanted or one.held_size or one.backlog):
            found.append(one)
    found.sort(key=lambda one: (-one.held_size, -one.backlog_size))
    right = ("backlog", "bytes", "holds back")
    print_rows(found, _COLUMNS, right, as_json=as_json, json_of=_as_json)
    say(
        f"{source}: {holding:,} of {seen:,} subscriptions keep ledgers that retention would delete; {len(found):,} are shown"
    )
    say_not_known(context, survey, len(own_policies))


_COLUMNS: "dict[str, Callable[[CursorState], str]]" = {
    "topic": lambda one: printable(topic_of(one.managed_ledger)) + "*" * one.may_have_own_policies,
    "subscription": lambda one: printable(one.name),
    "position": lambda one: f"{one.position[0]}:{one.position[1]}" + ("?" if one.is_stale else ""),
    "backlog": lambda one: f"{one.backlog:,}",
    "bytes": lambda one: human_size(one.backlog_size),
    "active": lambda one: minute(one.active_ms) + ("~" if one.last_active_ms is None else ""),
    "holds back": lambda one: human_size(one.held_size),
}


def _as_json(one: "CursorState") -> dict[str, Any]:
    return {
        "topic": topic_of(one.managed_ledger),
        "managed_ledger": one.managed_ledger,
        "subscription": one.name,
        "position": list(one.position),
        "position_may_be_old": one.is_stale,
        "holes": one.holes,
        "backlog_entries": one.backlog,
        "backlog_bytes": one.backlog_size,
        "last_active": iso_time(one.last_active_ms),
        "node_changed": iso_time(one.changed_ms),
        "holds_back_bytes": one.held_size,
        "holds_back_ledgers": one.held_ledgers,
        "unknown_policies": one.may_have_own_policies,
    }

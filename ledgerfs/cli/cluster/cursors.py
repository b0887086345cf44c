"""``ledgerfs cluster cursors``: how far subscriptions are, and what they hold back."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.cluster.source import Asked, about_topics, broker_defaults, retention_options, say_not_known
from ledgerfs.cli.commands import command
from ledgerfs.cli.output import human_size, minute, print_json, say, show, table
from ledgerfs.cli.parameter_types import Duration
from ledgerfs.display import printable
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from ledgerfs.clusters.cursors import CursorState

_EVER = 2**63


@command()
@about_topics(
    click.option(
        "--inactive", type=Duration(), metavar="TIME", help="Only those that were not active for so long, such as 7d."
    ),
    retention_options,
)
def cursors(
    context: click.Context,
    asked: Asked,
    /,
    *,
    inactive: float | None,
    broker_retention_minutes: int,
    broker_retention_megabytes: int,
    broker_ttl_seconds: int,
) -> None:
    """Show subscriptions: their backlog, and what they keep from being trimmed.

    CLUSTER is pulsar+zk://host:port,host:port[/chroot], or a file that `ledgerfs cluster dump` wrote. Without --all these are subscriptions
    that hold back what retention lets go, or have a backlog. "Holds back" are bytes that would go if no subscription needed them, "frees"
    those that go if this one alone is deleted. A subscription without a time of its last activity has that of the last change of its node,
    marked with ~; one that may be further than shown is marked with ?, topics that may have policies of their own with *. "Expires to" is
    where the time to live moves it at least once a broker has the topic loaded, by the times at which ledgers were closed, and what is held
    is what is held then.

    \b
    Examples:
      ledgerfs cluster cursors pulsar+zk://zk1:2181 --inactive 7d
      ledgerfs cluster cursors dump.json.zst --topic public/default/orders --json
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.clusters.cursors import cursors as cursors_of

    survey, wanted = asked.survey, asked.wanted
    defaults = broker_defaults(
        minutes=broker_retention_minutes, megabytes=broker_retention_megabytes, ttl_seconds=broker_ttl_seconds
    )
    before = _EVER if inactive is None else survey.read_ms - round(inactive * 1000)
    found, seen, holding = [], 0, 0
    own_policies: set[str] = set()
    for one in cursors_of(survey, defaults, survey.read_ms):
        if wanted and one.managed_ledger not in wanted:
            continue
        seen += 1
        holding += bool(one.held_size)
        if one.may_have_own_policies:
            own_policies.add(one.managed_ledger)
        if one.active_ms <= before and (asked.show_all or wanted or one.held_size or one.backlog):
            found.append(one)
    found.sort(key=lambda one: (-one.held_size, -one.backlog_size))
    if asked.as_json:
        print_json([_as_json(one) for one in found])
    elif found:
        _show_table(found)
    say(
        f"{asked.source}: {holding:,} of {seen:,} subscriptions hold back what retention lets go; {len(found):,} are shown"
    )
    say_not_known(context, survey, len(own_policies))


def _show_table(found: "list[CursorState]") -> None:
    columns = ("topic", "subscription", "position", "expires to", "backlog", "bytes", "active", "holds back", "frees")
    shown = table(*columns, right=("backlog", "bytes", "holds back", "frees"))
    for one in found:
        shown.add_row(
            printable(topic_of(one.managed_ledger)) + "*" * one.may_have_own_policies,
            printable(one.name),
            f"{one.position[0]}:{one.position[1]}" + ("?" if one.is_stale else ""),
            "" if one.expires_to is None else f"{one.expires_to[0]}:{one.expires_to[1]}",
            f"{one.backlog:,}",
            human_size(one.backlog_size),
            minute(one.active_ms) + ("~" if one.last_active_ms is None else ""),
            human_size(one.held_size),
            human_size(one.freed_size),
        )
    show(shown)


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
        "last_ledger": one.last_end.name.lower(),
        "last_active": iso_time(one.last_active_ms),
        "node_changed": iso_time(one.changed_ms),
        "holds_back_bytes": one.held_size,
        "holds_back_ledgers": one.held_ledgers,
        "frees_bytes": one.freed_size,
        "owner": one.owner.value,
        "unknown_policies": one.may_have_own_policies,
        "ttl_seconds": one.ttl_ms // 1000,
        "expires_to": None if one.expires_to is None else list(one.expires_to),
    }

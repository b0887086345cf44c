"""``ledgerfs cluster offloads``: what brokers would offload."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.cluster.source import (
    Asked,
    about_topics,
    broker_defaults,
    ledgers_text,
    offload_options,
    owner_text,
    say_not_known,
)
from ledgerfs.cli.commands import command
from ledgerfs.cli.output import human_size, minute, print_json, say, show, table
from ledgerfs.display import printable, span
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from ledgerfs.clusters.offload_thresholds import TopicOffloads


@command()
@about_topics(offload_options)
def offloads(
    context: click.Context, asked: Asked, /, *, broker_offload_bytes: int | None, broker_offload_seconds: int | None
) -> None:
    """Show what a broker would offload of each topic by its thresholds.

    CLUSTER is pulsar+zk://host:port,host:port[/chroot], or a file that `ledgerfs cluster dump` wrote. Brokers look at thresholds only
    when a topic begins a new ledger: one that nobody writes to is never offloaded. "Since" is from when on the oldest of the ledgers
    was due; "unfinished" are attempts that go on, or failed. Thresholds are those of topics, else of namespaces, or else the brokers',
    which the options tell; topics whose own could not be read are marked with *.

    \b
    Examples:
      ledgerfs cluster offloads pulsar+zk://zk1:2181
      ledgerfs cluster offloads pulsar+zk://zk1:2181 --broker-offload-bytes 10GiB --broker-offload-seconds 86400
      ledgerfs cluster offloads dump.json.zst --all --json
    """
    # This imports numpy, which --help does not need.
    from ledgerfs.clusters.offload_thresholds import offloads as offloads_of

    survey, wanted = asked.survey, asked.wanted
    defaults = broker_defaults(offload_bytes=broker_offload_bytes, offload_seconds=broker_offload_seconds)
    found, seen, own_policies, size, ledgers, due = [], 0, 0, 0, 0, 0
    for one in offloads_of(survey, defaults, survey.read_ms):
        if wanted and one.managed_ledger not in wanted:
            continue
        seen += 1
        own_policies += one.may_have_own_policies
        due += bool(one.chosen.rows)
        size, ledgers = size + one.size, ledgers + len(one.chosen.rows)
        if asked.show_all or wanted or one.chosen.rows or one.unfinished:
            found.append(one)
    found.sort(key=lambda one: -one.size)
    if asked.as_json:
        print_json([_as_json(one) for one in found])
    elif found:
        _show_table(found)
    say(
        f"{asked.source}: {human_size(size)} in {ledgers:,} ledgers of {due:,} topics are due to be offloaded, of {seen:,} topics"
    )
    say_not_known(context, survey, own_policies)


def _show_table(found: "list[TopicOffloads]") -> None:
    columns = ("topic", "ledgers", "bytes", "since", "broker", "offloaded", "unfinished", "why not more")
    shown = table(*columns, right=("bytes", "offloaded"))
    for one in found:
        shown.add_row(
            printable(topic_of(one.managed_ledger)) + ("*" if one.may_have_own_policies else ""),
            ledgers_text(one.ledger_ids),
            human_size(one.size),
            minute(one.chosen.since_ms),
            owner_text(one.owner),
            human_size(one.offloaded_size),
            ledgers_text(one.unfinished),
            why_text(one),
        )
    show(shown)


def why_text(one: "TopicOffloads") -> str:
    """Return why no more of a topic would be offloaded."""
    chosen = one.chosen
    if one.thresholds.is_off:
        return "no threshold"
    if chosen.next_row is None:
        return "no other closed ledger"
    left = [human_size(chosen.bytes_left) + " more"] if chosen.bytes_left >= 0 else []
    left += [span(chosen.ms_left)] if chosen.ms_left >= 0 else []
    return f"ledger {one.ledgers.ids[chosen.next_row]}: due after {' or '.join(left)}"


def _as_json(one: "TopicOffloads") -> dict[str, Any]:
    chosen = one.chosen
    return {
        "topic": topic_of(one.managed_ledger),
        "managed_ledger": one.managed_ledger,
        "ledgers": one.ledger_ids,
        "bytes": one.size,
        "since": iso_time(chosen.since_ms),
        "owner": one.owner.value,
        "threshold_bytes": one.thresholds.size,
        "threshold_seconds": -1 if one.thresholds.time_ms < 0 else one.thresholds.time_ms // 1000,
        "unknown_policies": one.may_have_own_policies,
        "offloaded_ledgers": one.offloaded,
        "offloaded_bytes": one.offloaded_size,
        "unfinished": list(one.unfinished),
        "next": {
            "ledger": None if chosen.next_row is None else int(one.ledgers.ids[chosen.next_row]),
            "says": why_text(one),
            "bytes_left": None if chosen.bytes_left < 0 else chosen.bytes_left,
            "ms_left": None if chosen.ms_left < 0 else chosen.ms_left,
        },
    }

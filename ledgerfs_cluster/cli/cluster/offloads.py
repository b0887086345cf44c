"""``ledgerfs cluster offloads``: what brokers would offload."""

from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.output import human_size, minute
from ledgerfs.display import printable, span
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.cli.cluster.source import (
    Asked,
    Report,
    about_topics,
    broker_defaults,
    ledgers_text,
    offload_options,
    owner_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.rules.offload_thresholds import TopicOffloads


@command()
@about_topics(offload_options)
def offloads(asked: Asked, /, **brokers: int | None) -> Report:
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
    from ledgerfs_cluster.rules.offload_thresholds import offloads as offloads_of

    survey = asked.survey
    found, seen, own_policies, size, ledgers, due = [], 0, 0, 0, 0, 0
    for one in offloads_of(survey, broker_defaults(**brokers), survey.read_ms):  # type: ignore[arg-type]  # of the options
        if not asked.is_wanted(one.managed_ledger):
            continue
        seen += 1
        own_policies += one.may_have_own_policies
        due += bool(one.chosen.rows)
        size, ledgers = size + one.size, ledgers + len(one.chosen.rows)
        if asked.show_all or asked.wanted or one.chosen.rows or one.unfinished:
            found.append(one)
    found.sort(key=lambda one: -one.size)
    summary = f"{human_size(size)} in {ledgers:,} ledgers of {due:,} topics are due to be offloaded, of {seen:,} topics"
    return Report(found, _as_json, _COLUMNS, ("bytes", "offloaded"), summary, own_policies)


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


_COLUMNS: "dict[str, Callable[[TopicOffloads], str]]" = {
    "topic": lambda one: printable(topic_of(one.managed_ledger)) + "*" * one.may_have_own_policies,
    "ledgers": lambda one: ledgers_text(one.ledger_ids),
    "bytes": lambda one: human_size(one.size),
    "since": lambda one: minute(one.chosen.since_ms),
    "broker": lambda one: owner_text(one.owner),
    "offloaded": lambda one: human_size(one.offloaded_size),
    "unfinished": lambda one: ledgers_text(one.unfinished),
    "why not more": why_text,
}


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

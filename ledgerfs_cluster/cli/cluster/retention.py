"""``ledgerfs cluster retention``: what brokers would trim."""

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
    owner_text,
    retention_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.rules.retention import TopicRetention
    from ledgerfs_cluster.snapshot.answers import LastEnd


@command()
@about_topics(retention_options)
def retention(asked: Asked, /, **brokers: int) -> Report:
    """Show what a broker would trim of each topic now, and why not more.

    CLUSTER is pulsar+zk://host:port,host:port[/chroot], or a file that `ledgerfs cluster dump` wrote. Brokers trim only topics that
    they have loaded; this computes it from metadata alone, by the same rules, for all of them. "Since" is from when on the oldest of
    the ledgers was past its retention; "stays" is what keeps the next one. Policies are those of topics, else of namespaces, or else
    the brokers' defaults, which the options tell; topics whose own could not be read are marked with *. Ledgers that were closed
    longer ago than the time to live count as acknowledged.

    \b
    Examples:
      ledgerfs cluster retention pulsar+zk://zk1:2181
      ledgerfs cluster retention pulsar+zk://zk1:2181 --broker-retention-minutes 1440 --broker-retention-megabytes -1
      ledgerfs cluster retention dump.json.zst --topic public/default/orders --json
    """
    # This imports numpy, which --help does not need.
    from ledgerfs_cluster.rules.retention import retention as retention_of

    survey = asked.survey
    found, seen, own_policies, size, ledgers, past = [], 0, 0, 0, 0, 0
    for one in retention_of(survey, broker_defaults(**brokers), survey.read_ms):
        if not asked.is_wanted(one.managed_ledger):
            continue
        seen += 1
        own_policies += one.may_have_own_policies
        past += bool(one.trim.going)
        size, ledgers = size + one.size, ledgers + len(one.trim.going)
        if asked.show_all or asked.wanted or one.trim.going or one.trim.dropped:
            found.append(one)
    found.sort(key=lambda one: -one.size)
    summary = (
        f"{human_size(size)} in {ledgers:,} ledgers of {past:,} topics are past their retention, of {seen:,} topics"
    )
    return Report(found, _as_json, _COLUMNS, ("bytes", "stays"), summary, own_policies)


_COLUMNS: "dict[str, Callable[[TopicRetention], str]]" = {
    "topic": lambda one: printable(topic_of(one.managed_ledger)) + "*" * one.may_have_own_policies,
    "ledgers": lambda one: ledgers_text(one.ledger_ids),
    "bytes": lambda one: human_size(one.size),
    "since": lambda one: minute(one.trim.since_ms),
    "broker": lambda one: owner_text(one.owner),
    "stays": lambda one: human_size(one.size_staying),
    "why": lambda one: printable(why_text(one)),
}


def why_text(one: "TopicRetention") -> str:
    """Return why no more of a topic goes."""
    from ledgerfs_cluster.rules.retention import Stays

    trim, at = one.trim, one.slowest_position
    if trim.first_staying is None:
        return "nothing stays"
    ledger = f"ledger {one.ledgers.ids[trim.first_staying]}"
    if trim.stays is Stays.CURSOR and at is not None:
        others = f" and {len(one.slowest) - 1:,} more" if len(one.slowest) > 1 else ""
        stale = ", or further" if one.stale else ""
        return f"{ledger}: subscription {one.slowest[0]}{others} is at {at[0]}:{at[1]}{stale}"
    if trim.stays is Stays.RETENTION:
        left = [human_size(trim.bytes_left) + " more"] if trim.bytes_left >= 0 else []
        left += [span(trim.ms_left)] if trim.ms_left >= 0 else []
        return f"{ledger}: goes after {' or '.join(left)}"
    if trim.stays is Stays.FOREVER:
        return f"{ledger}: kept for ever"
    return f"{ledger}: {_last_text(one.last_end, is_terminated=one.is_terminated)}"


def _last_text(last_end: "LastEnd", *, is_terminated: bool) -> str:
    from ledgerfs_cluster.snapshot.answers import LastEnd

    if is_terminated:
        return "the last one of a terminated topic"
    return "the last one, whose end is not known" if last_end is LastEnd.UNKNOWN else "the current one"


def _as_json(one: "TopicRetention") -> dict[str, Any]:
    trim = one.trim
    staying = None if trim.first_staying is None else int(one.ledgers.ids[trim.first_staying])
    position = one.slowest_position
    return {
        "topic": topic_of(one.managed_ledger),
        "managed_ledger": one.managed_ledger,
        "ledgers": one.ledger_ids,
        "entries": one.entries,
        "bytes": one.size,
        "since": iso_time(trim.since_ms),
        "empty_ledgers": one.dropped_ids,
        "owner": one.owner.value,
        "policy": one.policy,
        "retention_minutes": -1 if one.retention.time_ms < 0 else one.retention.time_ms // 60_000,
        "retention_bytes": one.retention.size,
        "unknown_policies": one.may_have_own_policies,
        "ttl_seconds": one.ttl_ms // 1000,
        "terminated": one.is_terminated,
        "last_ledger": one.last_end.name.lower(),
        "bytes_staying": one.size_staying,
        "stays": {
            "ledger": staying,
            "why": trim.stays.name.lower(),
            "says": why_text(one),
            "bytes_left": None if trim.bytes_left < 0 else trim.bytes_left,
            "ms_left": None if trim.ms_left < 0 else trim.ms_left,
        },
        "slowest": list(one.slowest),
        "slowest_position": None if position is None else list(position),
        "stale_cursors": one.stale,
    }

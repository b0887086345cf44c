"""``ledgerfs lifecycle status``: what the service does, and what waits for what."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.cluster.source import access_options, opened_cluster
from ledgerfs.cli.commands import command
from ledgerfs.cli.lifecycle.policy import Policy, policy_argument
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size, minute, print_json, say, show, table
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.display import printable
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from ledgerfs.lifecycle.journal.reading import Journal
    from ledgerfs.lifecycle.service.status import Status
    from ledgerfs.storage.zookeeper.changes import LockHolder


@command()
@policy_argument
@access_options
@click.option(
    "--prometheus", type=LocalPath(), metavar="FILE", help="Write gauges for Prometheus's textfile collector to FILE."
)
@json_option
@click.pass_context
def status(
    context: click.Context,
    /,
    *,
    policy: Policy,
    zk_rate: float,
    no_bookies: bool,  # noqa: ARG001  (as all commands about clusters have it)
    prometheus: Path | None,
    as_json: bool,
) -> None:
    """Show who does the lifecycle of a cluster, what it has done, what is in the trash, and what went wrong.

    POLICY names the cluster. What is shown is what the service has written at the end of its last pass, and the trash journal as it is.

    Exit code 0 if a service has the lock, 1 if none has, or notes could not be read.

    \b
    Examples:
      ledgerfs lifecycle status policy.toml
      ledgerfs lifecycle status policy.toml --json | jq .backlog_bytes
      ledgerfs lifecycle status policy.toml --prometheus /var/lib/node_exporter/lifecycle.prom
    """
    # These import kazoo, which --help does not need.
    from ledgerfs.lifecycle.journal.reading import read_journal
    from ledgerfs.lifecycle.service.status import STATUS_PATH, read_status
    from ledgerfs.storage.zookeeper.changes import ClusterLock

    cluster = opened_cluster(context, policy.source, zk_rate)
    try:
        holder = ClusterLock.holder_of(cluster.nodes)
        journal, told, damaged = read_journal(cluster.nodes), None, dict[str, str]()
        try:
            told = read_status(cluster.nodes)
        except CorruptMetadataError as error:
            damaged[STATUS_PATH] = error.reason
        damaged |= journal.unreadable
    finally:
        cluster.nodes.close()
    if prometheus is not None and told is not None:
        from ledgerfs.clusters.gauges_file import write_gauges_file
        from ledgerfs.lifecycle.service.status import gauges_of

        write_gauges_file(prometheus, gauges_of(policy.source, told))
    if as_json:
        print_json(_as_json(holder, told, journal, damaged))
    else:
        _show(holder, told, journal, is_damaged=STATUS_PATH in damaged)
    for path, why in damaged.items():
        say(f"{path}: {why}; left out")
    if holder is None or damaged:
        context.exit(1)


def _show(holder: "LockHolder | None", told: "Status | None", journal: "Journal", *, is_damaged: bool) -> None:
    if journal.lines:
        shown = table("line", "topic", "bytes", "state", "may be deleted", "why", right=("bytes",))
        for one in journal.lines:
            shown.add_row(
                one.node_name,
                printable(one.managed_ledger or "-"),
                human_size(one.size),
                one.state.value,
                minute(one.due_ms),
                printable(one.why),
            )
        show(shown)
    if holder is None:
        say("no service has the lock: nothing is done now")
    else:
        say(
            f"the lock is held since {iso_time(holder.since_ms)} by {printable(holder.holder.decode('utf-8', 'replace'))}"
        )
    if told is None:
        if not is_damaged:
            say("no service has made a pass yet")
        return
    rate = "without a bound" if told.rate is None else f"at {human_size(int(told.rate))}/s at most"
    say(
        f"pass {told.passes:,} ended {iso_time(told.passed_ms)}: {told.backlog_ledgers:,} ledgers of {human_size(told.backlog_bytes)} "
        f"are to be offloaded, {rate}"
    )
    for what, counts in (("done", told.done), ("waits", told.waiting), ("refused", told.refused)):
        if counts:
            say(f"{what}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")
    for trouble in told.troubles[-10:]:
        often = f" ({trouble.times:,} times)" if trouble.times > 1 else ""
        say(f"{iso_time(trouble.when_ms)}: {printable(trouble.text)}{often}")


def _as_json(
    holder: "LockHolder | None", told: "Status | None", journal: "Journal", damaged: dict[str, str]
) -> dict[str, Any]:
    from ledgerfs.lifecycle.service.status import status_as_json

    return {
        "holder": None if holder is None else {"says": _said(holder.holder), "since": iso_time(holder.since_ms)},
        **({} if told is None else status_as_json(told)),
        "trash_lines": [
            {
                "node": one.node_name,
                "topic": one.managed_ledger,
                "bytes": one.size,
                "state": one.state.value,
                "due": iso_time(one.due_ms),
                "why": one.why,
            }
            for one in journal.lines
        ],
        "attempts": [one.key.data_key for one in journal.attempts],
        "unreadable": damaged,
    }


def _said(holder: bytes) -> object:
    try:
        return json.loads(holder)
    except ValueError:
        return holder.decode("utf-8", "replace")

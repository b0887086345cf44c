"""``ledgerfs lifecycle status``: the service's state and records."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import minute, print_json, say, show, table
from ledgerfs.cli.parameter_types import LocalPath
from ledgerfs.display import human_size, printable
from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.cli.cluster.source import access_options, opened_cluster
from ledgerfs_cluster.cli.lifecycle.policy import Policy, policy_or_cluster

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.service.status import Status
    from ledgerfs_cluster.offload.journal import Journal
    from ledgerfs_cluster.zookeeper.changes import LockHolder
    from ledgerfs_cluster.zookeeper.nodes import Nodes


@command()
@policy_or_cluster
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
    """Show the state of a cluster's lifecycle service.

    Shows the owner of the lock, the result of the last iteration, the records in the journal, and errors. POLICY or --cluster names
    the cluster.

    Exit code 0: a service holds the lock; 1: no service does, or the status or records could not be read.

    \b
    Examples:
      ledgerfs lifecycle status policy.toml
      ledgerfs lifecycle status --cluster pulsar+zk://zk1:2181,zk2:2181
      ledgerfs lifecycle status policy.toml --json | jq .backlog_bytes
      ledgerfs lifecycle status policy.toml --prometheus /var/lib/node_exporter/lifecycle.prom
    """
    # These import kazoo, which --help does not need.
    from ledgerfs_cluster.offload.journal import read_journal
    from ledgerfs_cluster.zookeeper.changes import ClusterLock

    cluster = opened_cluster(context, policy.source, zk_rate)
    try:
        holder = ClusterLock.holder_of(cluster.nodes)
        journal = read_journal(cluster.nodes)
        reported, damaged = _status(cluster.nodes)
    finally:
        cluster.nodes.close()
    unreadable = {**damaged, **journal.unreadable}
    if as_json:
        print_json({**_as_json(holder, reported, journal), "unreadable": unreadable})
    else:
        _show(holder, journal)
        if reported is not None:
            _show_status(reported)
        elif not damaged:
            say("no service has completed a pass yet")
    for path, why in unreadable.items():
        say(f"{path}: {why}; skipped")
    if prometheus is not None and reported is not None:
        from ledgerfs_cluster.lifecycle.service.status import gauges_of, write_gauges_file

        write_gauges_file(prometheus, gauges_of(policy.source, reported))
    if holder is None or unreadable or not _is_service(holder):
        context.exit(1)


def _is_service(holder: "LockHolder") -> bool:
    """Return whether a service holds the lock, by the holder's data; also True if they have no such field."""
    from ledgerfs_cluster.offload.opening import SERVICE

    reported = _said(holder.holder)
    return not isinstance(reported, dict) or reported.get("what", SERVICE) == SERVICE


def _status(nodes: "Nodes") -> "tuple[Status | None, dict[str, str]]":
    """Return the service's status, None if missing or damaged; and {path: reason} of damaged nodes."""
    from ledgerfs_cluster.lifecycle.service.status import STATUS_PATH, read_status

    try:
        return read_status(nodes), {}
    except CorruptMetadataError as error:
        return None, {STATUS_PATH: error.reason}


def _show(holder: "LockHolder | None", journal: "Journal") -> None:
    if journal.marked:
        shown = table("record", "topic", "bytes", "may be deleted", "why", right=("bytes",))
        for one in journal.marked:
            shown.add_row(
                one.name,
                printable(one.managed_ledger or "-"),
                human_size(one.size),
                minute(one.due_ms),
                printable(one.reason),
            )
        show(shown)
    if holder is None:
        say("no service holds the lock: no lifecycle service is running")
    else:
        say(
            f"the lock has been held since {iso_time(holder.since_ms)} by {printable(holder.holder.decode('utf-8', 'replace'))}"
        )


def _show_status(reported: "Status") -> None:
    if reported.failed_passes:
        last = f"since {iso_time(reported.passed_ms)}" if reported.passed_ms else "yet"
        say(
            f"no pass has been completed {last}: {reported.failed_passes:,} failed; the last error below has the reason"
        )
    if reported.passes:
        say(
            f"pass {reported.passes:,} ended at {iso_time(reported.passed_ms)}: {reported.backlog_ledgers:,} ledgers "
            f"({human_size(reported.backlog_bytes)}) are due to be offloaded"
        )
    for what, counts in (("done", reported.done), ("waiting", reported.waiting), ("refused", reported.refused)):
        if counts:
            say(f"{what}: {', '.join(f'{count:,} {printable(name)}' for name, count in counts.items())}")
    for trouble in reported.troubles[-10:]:
        often = f" ({trouble.times:,} times)" if trouble.times > 1 else ""
        say(f"{iso_time(trouble.when_ms)}: {printable(trouble.text)}{often}")


def _as_json(holder: "LockHolder | None", reported: "Status | None", journal: "Journal") -> dict[str, Any]:
    return {
        "holder": None if holder is None else {"says": _said(holder.holder), "since": iso_time(holder.since_ms)},
        **({} if reported is None else asdict(reported)),
        "marked": [
            {
                "node": one.name,
                "topic": one.managed_ledger,
                "bytes": one.size,
                "due": iso_time(one.due_ms),
                "why": one.reason,
            }
            for one in journal.marked
        ],
        "attempts": [one.key.data_key for one in journal.attempts],
    }


def _said(holder: bytes) -> object:
    try:
        return json.loads(holder)
    except (ValueError, RecursionError):
        return holder.decode("utf-8", "replace")

"""``ledgerfs lifecycle undo``: remove marks for deletion."""

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.output import say
from ledgerfs_cluster.cli.cluster.source import access_options, opened_cluster
from ledgerfs_cluster.cli.lifecycle.policy import Policy, policy_argument


@command()
@policy_argument
@click.argument("records", metavar="RECORD…", nargs=-1, required=True)
@access_options
@click.pass_context
def undo(
    context: click.Context,
    /,
    *,
    policy: Policy,
    records: tuple[str, ...],
    zk_rate: float,
    no_bookies: bool,  # noqa: ARG001  (as all commands about clusters have it)
) -> None:
    """Undo marks for deletion, by names of records.

    `ledgerfs lifecycle status` shows the names. The marked ledger or object stays, and later iterations check it again. A record that
    cannot be read is dropped. A running service holds the lock and would set the same mark again: change POLICY, stop the service,
    and then undo.

    Exit code 2: no such record, or it belongs to an attempt to offload; 3: a service holds the lock.

    \b
    Examples:
        ledgerfs lifecycle undo policy.toml orphan-4711 orphan-4712    # names from `ledgerfs lifecycle status policy.toml`
    """
    # These import kazoo, which --help does not need.
    from ledgerfs_cluster.offload.journal import undo as take_back
    from ledgerfs_cluster.offload.opening import holder_text
    from ledgerfs_cluster.zookeeper.changes import ClusterLock

    cluster = opened_cluster(context, policy.source, zk_rate)
    try:
        with ClusterLock.take(cluster.nodes.settings, holder_text("lifecycle undo")) as lock:
            for name in records:
                record = take_back(lock, name)
                if record is None:
                    say(f"{name} was damaged and is removed from the journal; no ledger was deleted")
                else:
                    say(f"{name} is removed, so it will not be deleted: {record.reason}")
    finally:
        cluster.nodes.close()

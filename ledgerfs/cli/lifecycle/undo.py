"""``ledgerfs lifecycle undo``: taking back what is marked to be deleted."""

import click

from ledgerfs.cli.cluster.source import access_options, opened_cluster
from ledgerfs.cli.commands import command
from ledgerfs.cli.lifecycle.policy import Policy, policy_argument
from ledgerfs.cli.output import say


@command()
@policy_argument
@click.argument("lines", metavar="LINE…", nargs=-1, required=True)
@access_options
@click.pass_context
def undo(
    context: click.Context,
    /,
    *,
    policy: Policy,
    lines: tuple[str, ...],
    zk_rate: float,
    no_bookies: bool,  # noqa: ARG001  (as all commands about clusters have it)
) -> None:
    """Take lines of the trash journal back, as `ledgerfs lifecycle status` names them, before anything of them is deleted.

    A line that cannot be read is dropped by its name; whatever it was about stays, and is looked at anew.

    A service has the lock while it works, and would mark the same again: change POLICY first, and end the service for a moment.

    Exit code 0; 2 for a line that is not there, or whose deletion has begun; 3 while a service has the lock.

    \b
    Examples:
      ledgerfs lifecycle undo policy.toml trimmed-4711 offloaded-4712    # as `ledgerfs lifecycle status policy.toml` names them
    """
    # These import kazoo, which --help does not need.
    from ledgerfs.lifecycle.journal.trash_journal import undo as take_back
    from ledgerfs.offload.opening import holder_text
    from ledgerfs.storage.zookeeper.changes import ClusterLock

    cluster = opened_cluster(context, policy.source, zk_rate)
    try:
        with ClusterLock.take(cluster.nodes.settings, holder_text("lifecycle undo")) as lock:
            for name in lines:
                line = take_back(lock, name)
                if line is None:
                    say(
                        f"{name} could not be read, and is dropped; nothing was deleted. If its deletion had begun, `ledgerfs cluster "
                        "check` names what is left of it"
                    )
                else:
                    say(f"{name} is taken back: {line.why}")
    finally:
        cluster.nodes.close()

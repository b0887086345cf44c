"""The group of the commands about the lifecycle of all topics."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs lifecycle plan policy.toml
  ledgerfs lifecycle plan --cluster pulsar+zk://zk1:2181
  ledgerfs lifecycle plan policy.toml --topic public/default/orders --all
  ledgerfs lifecycle plan policy.toml --cluster dump.json.zst --json
"""

_COMMANDS = (
    LazyCommand(
        "plan", "ledgerfs_cluster.cli.lifecycle.plan:plan",
        "Show what would be done with a cluster now, and why; nothing is changed.",
    ),
    LazyCommand("run", "ledgerfs_cluster.cli.lifecycle.run:run", "Offload, and have brokers trim, what POLICY wants; keep doing it."),
    LazyCommand(
        "status", "ledgerfs_cluster.cli.lifecycle.status:status",
        "Show who does the lifecycle of a cluster, what it has done, what is marked, and what went wrong.",
    ),
    LazyCommand("undo", "ledgerfs_cluster.cli.lifecycle.undo:undo", "Take back what is marked to be deleted, by names of records."),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def lifecycle() -> None:
    """Offload and trim by policy all topics of a cluster, loaded or not."""

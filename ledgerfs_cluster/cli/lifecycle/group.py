"""The group of commands for the lifecycle of all topics."""

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
        "Show what a policy would do now, and why.",
    ),
    LazyCommand("run", "ledgerfs_cluster.cli.lifecycle.run:run", "Run the lifecycle of a cluster by a policy."),
    LazyCommand(
        "status", "ledgerfs_cluster.cli.lifecycle.status:status",
        "Show the state of a cluster's lifecycle service.",
    ),
    LazyCommand("undo", "ledgerfs_cluster.cli.lifecycle.undo:undo", "Undo marks for deletion, by names of records."),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def lifecycle() -> None:
    """Offload and trim all topics of a cluster by policy."""

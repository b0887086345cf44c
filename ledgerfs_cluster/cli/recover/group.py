"""The group of commands that restore a lost cluster's topics."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs recover plan s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
  ledgerfs recover run s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
  ledgerfs recover check s3://tier --into pulsar+zk://new:2181 --admin http://new:8080
  ledgerfs recover run s3://tier --into pulsar+zk://new:2181 --admin http://new:8080 \\
      --topics 'public/orders/.*' --as 'public/restored/{topic}'
"""

_COMMANDS = (
    LazyCommand(
        "plan", "ledgerfs_cluster.cli.recover.commands:plan",
        "Show what a recovery would restore, and what is missing.",
    ),
    LazyCommand(
        "run", "ledgerfs_cluster.cli.recover.commands:run",
        "Restore the topics of a bucket into a new cluster.",
    ),
    LazyCommand(
        "check", "ledgerfs_cluster.cli.recover.commands:check",
        "Compare restored topics with the bucket.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def recover() -> None:
    """Restore the topics of a lost cluster into a new one."""

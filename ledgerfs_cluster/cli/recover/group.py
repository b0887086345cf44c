"""The group of the commands that bring a lost cluster's topics back."""

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
        "Show what `ledgerfs recover run` would restore, and what will be missing and why; nothing is written.",
    ),
    LazyCommand(
        "run", "ledgerfs_cluster.cli.recover.commands:run",
        "Have a new cluster serve the topics of BUCKET: each as a whole, or not at all.",
    ),
    LazyCommand(
        "check", "ledgerfs_cluster.cli.recover.commands:check",
        "Read all of each restored topic back through the new cluster's brokers, as a client does, and compare it with BUCKET.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def recover() -> None:
    """Have a new cluster serve a lost cluster's topics again, from its bucket and what was saved beside it."""

"""The group of commands for a whole cluster."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs cluster cursors pulsar+zk://zk1:2181 --inactive 7d
  ledgerfs cluster check pulsar+zk://zk1:2181 --bucket s3://tier
  ledgerfs cluster dump pulsar+zk://zk1:2181 dump.json.zst
  ledgerfs cluster dump pulsar+zk://zk1:2181 --to s3://tier

\b
Nothing is written to a cluster: no node is changed, no ledger is fenced. No broker is asked, which could load topics.
"""

_COMMANDS = (
    LazyCommand(
        "check", "ledgerfs_cluster.cli.cluster.check:check",
        "Find ledgers and objects without an owner, and lost data.",
    ),
    LazyCommand(
        "dump", "ledgerfs_cluster.cli.cluster.dump:dump",
        "Write a cluster's metadata to a file or beside a bucket.",
    ),
    LazyCommand(
        "dumps", "ledgerfs_cluster.cli.cluster.dumps:dumps",
        "List the dumps that are stored beside a bucket.",
    ),
    LazyCommand(
        "cursors", "ledgerfs_cluster.cli.cluster.cursors:cursors",
        "Show backlogs of subscriptions, and what they hold back.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def cluster() -> None:
    """Find lost and orphaned data in a cluster; dump metadata."""

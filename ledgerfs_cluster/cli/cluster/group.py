"""The group of the commands about a whole cluster."""

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
        "Find ledgers and objects without an owner, and what is lost.",
    ),
    LazyCommand(
        "dump", "ledgerfs_cluster.cli.cluster.dump:dump",
        "Write what ZooKeeper has of ledgers, topics, subscriptions and policies to FILE, or keep it beside a bucket.",
    ),
    LazyCommand(
        "dumps", "ledgerfs_cluster.cli.cluster.dumps:dumps",
        "List the dumps that `ledgerfs cluster dump --to` keeps beside BUCKET: when they were begun, and their sizes.",
    ),
    LazyCommand(
        "cursors", "ledgerfs_cluster.cli.cluster.cursors:cursors",
        "Show subscriptions: their backlog, and what they keep from being trimmed.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def cluster() -> None:
    """Find what is lost or orphaned in a cluster; dump its metadata."""

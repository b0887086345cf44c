"""The group of commands for the disks of bookies."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs bookie space /var/lib/bookie1 --metadata pulsar+zk://zk1:2181

\b
Nothing is written to a disk, and nothing on it is locked: a bookie may run meanwhile. Topics are read by the commands for buckets, such as
`ledgerfs topics`, `verify`, `export` and `offload`, which take disks as well.
"""

_COMMANDS = (
    LazyCommand("space", "ledgerfs_cluster.cli.bookie.commands:space", "Show live and dead bytes of entry logs."),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def bookie() -> None:
    """Inspect the disks of bookies."""

"""The group of the commands about schemas."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs schemas save http://broker:8080 s3://tier
  ledgerfs schemas ls s3://tier
  ledgerfs schemas show s3://tier public/default/orders --version 2
  ledgerfs schemas set s3://tier public/default/orders orders.avsc

\b
Messages contain only the number of a schema version; the schemas are in the cluster. Save them while it is running.
"""

_COMMANDS = (
    LazyCommand(
        "ls", "ledgerfs.cli.schemas.ls:ls", "List the saved schema versions of topics."
    ),
    LazyCommand(
        "show", "ledgerfs.cli.schemas.show:show",
        "Show the definition of a topic's schema.",
    ),
    LazyCommand(
        "set", "ledgerfs.cli.schemas.set:set_schema", "Set the schema of a topic by a file or a type."
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, plugged="ledgerfs.commands.schemas", epilog=_EPILOG)
def schemas() -> None:
    """Save, show and set the schemas of a bucket's topics."""

"""The group of the commands about the lifecycle of all topics."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs lifecycle plan policy.toml
  ledgerfs lifecycle plan policy.toml --topic public/default/orders --all
  ledgerfs lifecycle plan policy.toml --cluster dump.json.zst --json
  ledgerfs lifecycle simulate dump.json.zst policy.toml --days 30 --plot month.svg
"""

_COMMANDS = (
    LazyCommand("plan", "ledgerfs.cli.lifecycle.plan:plan", "Show what would be done with a cluster now, and why; nothing is changed."),
    LazyCommand("run", "ledgerfs.cli.lifecycle.run:run", "Offload and delete what POLICY wants, and keep doing it."),
    LazyCommand("status", "ledgerfs.cli.lifecycle.status:status", "Show who does it, what is done, what is in the trash, what went wrong."),
    LazyCommand("undo", "ledgerfs.cli.lifecycle.undo:undo", "Take back what is marked to be deleted."),
    LazyCommand(
        "simulate", "ledgerfs.cli.lifecycle.simulate:simulate",
        "Show what a policy would make of a cluster in the next days: storage hot and cold, uploads, requests, costs."
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def lifecycle() -> None:
    """Offload and delete by policy, of all topics of a cluster, loaded or not."""

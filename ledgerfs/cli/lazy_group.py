"""Groups whose commands are imported when they run: ``--help``, completion and suggestions need no more than a name and a line."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


class LazyCommand(click.Command):
    """What stands for a command that is not imported yet.

    Parameters
    ----------
    name
        What users type.
    place
        ``module:attribute`` of the command.
    summary
        The first sentence of its help.

    """

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._place = place

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self._place.partition(":")
        loaded: click.Command = getattr(import_module(module), attribute)
        return loaded


class LazyGroup(click.Group):
    """A group of commands, each imported when somebody asks for it (`get_command`)."""

    def __init__(self, *args: Any, lazy: Iterable[LazyCommand] = (), **options: Any) -> None:  # noqa: ANN401  (click's)
        super().__init__(*args, **options)
        self._summaries = click.Group(commands=list(lazy))
        # Of misspelt commands click suggests those of this mapping.
        self.commands.update(self._summaries.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported."""
        command = super().get_command(ctx, cmd_name)
        if isinstance(command, LazyCommand):
            command = self.commands[cmd_name] = command.load()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line about each, without importing any."""
        self._summaries.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so, without importing any."""
        commands = (one for name, one in sorted(self._summaries.commands.items()) if name.startswith(incomplete))
        found = [CompletionItem(one.name, help=one.get_short_help_str()) for one in commands]
        return found + click.Command.shell_complete(self, ctx, incomplete)

"""Commands that reject empty arguments, and groups that import a command when it runs.

``--start "$SINCE"`` with an unset variable must not mean "everything". ``--help``, completion and suggestions need only the name
and summary of a command.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from ledgerfs.plugins import plugged_in

_COMMON = frozenset(
    {"storage_options", "target_options", "into_options", "bucket_options", "metadata", "layout", "on_unreadable", "stats", "trace"}
    | {"zk_rate", "no_bookies", "token", "token_file", "tls_ca", "tls_cert", "tls_key"}
)  # fmt: skip
"""Parameter names of the options that many commands share."""


class Command(click.Command):
    """A command that rejects empty options and arguments. Its help lists its own options before the common ones."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        common = [option for option in options if option.name in _COMMON]
        for title, listed in (("Options", [one for one in options if one not in common]), ("Common options", common)):
            records = [record for option in listed if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Check the arguments first, before a callback opens a bucket."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not ctx.resilient_parsing:
            _require_no_empty(self, ctx, given)
        return super().parse_args(ctx, args)


command: Callable[..., Callable[[Callable[..., Any]], Command]] = partial(
    click.command, cls=Command, context_settings={"help_option_names": ["-h", "--help"]}
)
"""``click.command`` that creates a `Command`."""


def _require_no_empty(command: Command, ctx: click.Context, given: Mapping[str, Any]) -> None:
    for param in command.get_params(ctx):
        value = given.get(param.name or "")
        texts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise click.BadParameter("is empty; is a shell variable not set?", ctx=ctx, param=param)


class LazyCommand(click.Command):
    """A placeholder for a command that is not imported yet.

    Parameters
    ----------
    name
        The command's name.
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
    """A group of commands, each imported on use (`get_command`).

    ``plugged`` is the entry point group of further commands. An unknown command name imports all of them.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  (click's)
        lazy: Iterable[LazyCommand] = (),
        plugged: str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **options)
        self._plugged = plugged
        self._summaries = click.Group(commands=list(lazy))
        # click suggests names from this mapping for a misspelt command.
        self.commands.update(self._summaries.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self.commands:
            self._plug_in()
        command = super().get_command(ctx, cmd_name)
        if isinstance(command, LazyCommand):
            command = self.commands[cmd_name] = command.load()
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        self._plug_in()
        return super().list_commands(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line about each command; import only plugged-in commands."""
        self._plug_in()
        self._summaries.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options with that prefix; import only plugged-in commands."""
        self._plug_in()
        commands = (one for name, one in sorted(self._summaries.commands.items()) if name.startswith(incomplete))
        found = [CompletionItem(one.name, help=one.get_short_help_str()) for one in commands]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def _plug_in(self) -> None:
        plugged, self._plugged = self._plugged, None
        for name, entry in () if plugged is None else plugged_in(plugged).items():
            command = self.commands[name] = entry.load()
            self._summaries.add_command(command, name)

"""What every command is: one that takes nothing empty.

Who writes ``--start "$SINCE"`` with a variable that is not set does not mean "everything".
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click


class Command(click.Command):
    """A command of which no option and no argument may be an empty text."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look through what was given before anything becomes of it, opened buckets included."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not ctx.resilient_parsing:
            _require_no_empty(self, ctx, given)
        return super().parse_args(ctx, args)


command: Callable[..., Callable[[Callable[..., Any]], Command]] = partial(click.command, cls=Command)
"""``click.command`` for such commands."""


def _require_no_empty(command: Command, ctx: click.Context, given: Mapping[str, Any]) -> None:
    for param in command.get_params(ctx):
        value = given.get(param.name or "")
        texts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise click.BadParameter("is empty; is a variable of the shell not set?", ctx=ctx, param=param)

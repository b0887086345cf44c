"""Options that are sizes."""

from typing import Any

import click

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size


class Size(click.ParamType[int]):
    """A number of bytes, with or without a unit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Return the bytes."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except InvalidOptionError as error:
            self.fail(error.reason, param, ctx)

"""Types of arguments and options that are not texts: sizes, durations, local paths."""

from pathlib import Path
from typing import Any

import click

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.formats.local_paths import local_path
from ledgerfs.formats.time_spans import parse_span

_MOST = 365 * 86400.0


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


class Duration(click.ParamType[float]):
    """A duration in seconds, with or without a unit, from one second to one year."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the seconds."""
        try:
            seconds = parse_span(str(value)) / 1000
        except InvalidOptionError:
            seconds = 0.0
        if not 1 <= seconds <= _MOST:
            self.fail(f"{value!r} is not a time from 1s to 365d, such as 60s, 5m, 1h", param, ctx)
        return seconds


class LocalPath(click.ParamType[Path]):
    """A local path; for a URL the error ends with ``hint``."""

    name = "path"

    def __init__(self, hint: str = "") -> None:
        self._hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401
        """Return the path."""
        try:
            return local_path(value, "")
        except InvalidOptionError as error:
            hint = f" {self._hint}" if self._hint and "://" in str(value) else ""
            self.fail(f"{error.reason}.{hint}", param, ctx)

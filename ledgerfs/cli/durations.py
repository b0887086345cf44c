"""Spans of time as people write them: ``60s``, ``5m``, ``1h``, ``90``."""

import re
from typing import Any

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*\Z", re.ASCII)
_MOST = 365 * 86400.0


class Duration(click.ParamType[float]):
    """Seconds, with or without a unit: from one second to a year."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the seconds."""
        match = _SPAN.match(str(value))
        seconds = 0.0 if match is None else float(match[1]) * _UNITS[match[2]]
        if not 1 <= seconds <= _MOST:
            self.fail(f"{value!r} is no time from 1s to 365d; expected such as 60s, 5m, 1h", param, ctx)
        return seconds

"""Sizes as people write them: ``64MiB``, ``5 MB``, ``6291456``."""

import re
from typing import Any

import click

_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_BINARY = {"k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
_UNITS = {**_DECIMAL, **_BINARY}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*\Z", re.IGNORECASE | re.ASCII)


class Size(click.ParamType[int]):
    """A number of bytes, with or without a unit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Return the bytes."""
        if isinstance(value, int):
            return value
        match = _SIZE.match(value)
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            self.fail(
                f"{value!r} is no size; expected a number of bytes, or one with a unit, such as 64MiB", param, ctx
            )
        return int(float(match[1]) * unit)

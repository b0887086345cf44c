"""Spans of time as people write them: ``90s``, ``1.5h``, ``7d``, ``60``."""

import re

from ledgerfs.errors import InvalidOptionError

_UNITS = {"": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([smhd]?)\s*\Z", re.ASCII)


def parse_span(text: str) -> int:
    """Return a span of time in ms; a number without a unit is in seconds. Raises `InvalidOptionError` for an invalid one."""
    match = _SPAN.match(text)
    if match is None:
        raise InvalidOptionError(
            f"invalid time {text!r}; expected seconds, or a number with a unit, such as 90s, 5m, 1h, 7d"
        )
    return round(float(match[1]) * _UNITS[match[2]])

"""Sizes as people write them: ``64MiB``, ``5 MB``, ``6291456``."""

import re

from ledgerfs.errors import InvalidOptionError

_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {
    "k": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mib": 1 << 20,
    "g": 1 << 30,
    "gib": 1 << 30,
    "t": 1 << 40,
    "tib": 1 << 40,
}
_UNITS = {**_DECIMAL, **_BINARY}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*\Z", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Return a size in bytes; raises `InvalidOptionError` for an invalid one."""
    match = _SIZE.match(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise InvalidOptionError(
            f"invalid size {text!r}; expected a number of bytes, or one with a unit, such as 64MiB"
        )
    return int(float(match[1]) * unit)

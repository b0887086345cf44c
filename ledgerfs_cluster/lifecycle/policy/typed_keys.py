"""Read a table of a TOML file by a table of its keys, each with its field and reader; unknown keys are errors."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.formats.time_spans import parse_span
from ledgerfs_cluster.snapshot.policies import NO_LIMIT

DAY_MS = 86_400_000
NEVER = "never"
"""The word for no limit."""
_MOST_TEXT = 4096

Reader = Callable[[Any], Any]
"""Returns a key's parsed value; raises `InvalidOptionError` with the reason for a wrong type, or a value out of bounds."""


def read_table(reported: Mapping[str, Any], keys: Mapping[str, tuple[str, Reader]], place: str) -> dict[str, Any]:
    """Return {field: value} of the existing keys; ``keys`` are {key: (field, reader)}.

    Raises `InvalidOptionError`, which names ``place`` and the key.
    """
    for name in reported:
        if name not in keys:
            raise InvalidOptionError(InvalidOptionError.unknown(name, keys).reason, key=f"{place}{name[:200]}")
    found: dict[str, Any] = {}
    for name, value in reported.items():
        field, reader = keys[name]
        try:
            found[field] = reader(value)
        except InvalidOptionError as error:
            raise InvalidOptionError(error.reason, key=f"{place}{name}") from error
    return found


def same(reader: Reader, *names: str) -> dict[str, tuple[str, Reader]]:
    """Return keys whose fields have the same names, for `read_table`."""
    return {name: (name, reader) for name in names}


def text(value: object) -> str:
    """Return a text that is not blank."""
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_TEXT:
        raise InvalidOptionError(f"must be a text of 1 to {_MOST_TEXT:,} characters")
    return value


def flag(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise InvalidOptionError(f"must be true or false, not {value!r}")
    return value


def mapping(value: object) -> dict[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise InvalidOptionError("must be a table")
    return value


def tables(value: object) -> list[dict[str, Any]]:
    """Return a list of tables, as in ``[[topics]]``."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidOptionError("must be a list of tables: write [[topics]]")
    return value


def one_of(words: type[Enum]) -> Reader:
    """Return a reader of a word that is a value of an enumeration."""

    def read(value: object) -> Enum:
        try:
            return words(value)
        except ValueError as error:
            known = ", ".join(one.value for one in words)
            raise InvalidOptionError(f"must be one of {known}, not {value!r}") from error

    return read


def number(least: int, most: int) -> Reader:
    """Return a reader of a whole number within bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidOptionError(f"must be a whole number, not {value!r}")
        if not least <= value <= most:
            raise InvalidOptionError(f"must be from {least:,} to {most:,}, not {value:,}")
        return value

    return read


def size(least: int, most: int) -> Reader:
    """Return a reader of bytes, a number or a text with a unit."""
    bounded = number(least, most)

    def read(value: object) -> int:
        try:
            found: int = bounded(parse_size(value) if isinstance(value, str) else value)
        except OverflowError as error:
            raise InvalidOptionError(f"invalid size {value!r}") from error
        return found

    return read


def span(least_ms: int, most_ms: int) -> Reader:
    """Return a reader of a duration with a unit, as ms."""

    def read(value: object) -> int:
        # A number without a unit is ambiguous.
        if not isinstance(value, str) or not value.strip()[-1:].isalpha():
            raise InvalidOptionError(f"must be a duration with a unit, such as 90s, 5m, 1h, 7d, not {value!r}")
        found = parse_span(value)
        if not least_ms <= found <= most_ms:
            raise InvalidOptionError(f"must be from {least_ms // 1000}s to {most_ms // DAY_MS}d, not {value!r}")
        return found

    return read


def or_never(reader: Reader) -> Reader:
    """Return a reader that also accepts the word ``never``, as `NO_LIMIT`."""
    return lambda value: NO_LIMIT if value == NEVER else reader(value)

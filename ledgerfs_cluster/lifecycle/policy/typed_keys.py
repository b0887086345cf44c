"""One table of a TOML file, read key by key: each with its type and bounds, and none left over."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.formats.time_spans import parse_span
from ledgerfs_cluster.snapshot.policies import NO_LIMIT

DAY_MS = 86_400_000
NEVER = "never"
"""The word for a limit that is none."""
_MOST_TEXT = 4096


class Keys:
    """The keys of a table. Whoever has read those that there may be calls `require_no_others`.

    Parameters
    ----------
    told
        The table.
    file
        Named by errors.
    place
        Of the table in the file, such as ``service.``.

    """

    __slots__ = ("_file", "_known", "_place", "_told")

    def __init__(self, told: Mapping[str, Any], file: str, place: str = "") -> None:
        self._told = told
        self._file = file
        self._place = place
        self._known: list[str] = []

    def error(self, name: str, reason: str) -> InvalidOptionError:
        """Return the error about a key."""
        return InvalidOptionError(reason, key=f"{self._file}: {self._place}{name}")

    def require_no_others(self) -> None:
        """Raise `InvalidOptionError` for a key that nobody has read."""
        for name in self._told:
            if name not in self._known:
                raise self.error(name[:200], InvalidOptionError.unknown(name, self._known).reason)

    def text(self, name: str) -> str | None:
        """Return a text that is not blank; None without the key."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or len(value) > _MOST_TEXT:
            raise self.error(name, f"is no text of 1 to {_MOST_TEXT:,} characters")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"is neither true nor false: {value!r}")
        return value

    def one_of(self, name: str, words: Iterable[str]) -> str | None:
        """Return one of some words; None without the key."""
        value, known = self._value(name), list(words)
        if value is None:
            return None
        if not isinstance(value, str) or value not in known:
            raise self.error(name, f"is none of {', '.join(known)}: {value!r}")
        return value

    def number(self, name: str, least: int, most: int, default: int) -> int:
        """Return a whole number within bounds."""
        value = self._value(name)
        return default if value is None else self._bounded(name, value, least, most)

    def size(self, name: str, least: int, most: int) -> int | None:
        """Return bytes, told as a number or with a unit; None without the key."""
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, str):
            try:
                value = parse_size(value)
            except (InvalidOptionError, OverflowError) as error:
                reason = error.reason if isinstance(error, InvalidOptionError) else f"invalid size {value!r}"
                raise self.error(name, reason) from error
        return self._bounded(name, value, least, most)

    def size_or_never(self, name: str, most: int) -> int | None:
        """Return bytes, or `NO_LIMIT` for the word ``never``; None without the key."""
        return NO_LIMIT if self._told.get(name) == NEVER and self._value(name) else self.size(name, 0, most)

    def span(self, name: str, least_ms: int, most_ms: int, default: Any) -> Any:  # noqa: ANN401  (int, or what the default is)
        """Return ms of a span of time, told with a unit; ``default`` without the key."""
        value = self._value(name)
        if value is None:
            return default
        # A number without a unit may be of any.
        if not isinstance(value, str) or not value.strip()[-1:].isalpha():
            raise self.error(name, f"is no span of time with a unit, such as 90s, 5m, 1h, 7d: {value!r}")
        try:
            found = parse_span(value)
        except InvalidOptionError as error:
            raise self.error(name, error.reason) from error
        if not least_ms <= found <= most_ms:
            raise self.error(name, f"is not from {least_ms // 1000}s to {most_ms // DAY_MS}d: {value!r}")
        return found

    def span_or_never(self, name: str, most_ms: int, default: Any) -> Any:  # noqa: ANN401  (int, or what the default is)
        """Return ms of a span of time, or `NO_LIMIT` for the word ``never``; ``default`` without the key."""
        return NO_LIMIT if self._told.get(name) == NEVER and self._value(name) else self.span(name, 0, most_ms, default)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a table whose keys are another's; an empty one without the key."""
        value = self._value(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(name, "is no table")
        return dict(value)

    def table(self, name: str) -> "Keys":
        """Return the keys of a table; one without any keys if it is not there."""
        return Keys(self.mapping(name), self._file, f"{self._place}{name}.")

    def tables_of(self, name: str) -> Iterator[tuple[str, "Keys"]]:
        """Yield the name and the keys of each table in a table."""
        outer = self.table(name)
        for one in self.mapping(name):
            yield one, outer.table(one)

    def list_of_tables(self, name: str) -> Iterator["Keys"]:
        """Yield the keys of each table of a list, as ``[[name]]`` makes it; they are counted from 1."""
        value = self._value(name)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error(name, f"is no list of tables; write [[{name}]]")
        for number, one in enumerate(value, 1):
            yield Keys(one, self._file, f"{self._place}{name}[{number}].")

    def _value(self, name: str) -> Any:  # noqa: ANN401  (whatever TOML knows)
        if name not in self._known:
            self._known.append(name)
        return self._told.get(name)

    def _bounded(self, name: str, value: object, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(name, f"is no whole number: {value!r}")
        if not least <= value <= most:
            raise self.error(name, f"is not from {least:,} to {most:,}: {value:,}")
        return value

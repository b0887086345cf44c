"""Parse and format times for users."""

import re
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction

from ledgerfs.errors import InvalidOptionError

Moment = str | datetime | date | int | None
"""ISO 8601 text, ``-1h``, ``now``, ``today``, ``yesterday``, a time, a day (its midnight, UTC), or ms since 1970 UTC; None for no limit."""


class Milliseconds(int):
    """Ms since 1970 UTC from `milliseconds_of`, which returns it unchanged, so that a relative time is resolved once."""

    __slots__ = ()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGO = re.compile(r"-(\d{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FURTHER_DIGITS = re.compile(r"[.,]\d{6}(\d+)")
_EARLIEST_MS, _LATEST_MS = 1_262_304_000_000, 7_258_118_400_000
"""2010, before the first Pulsar, and 2200."""

_OTHER_UNITS = {"seconds": Fraction(1000), "microseconds": Fraction(1, 1000), "nanoseconds": Fraction(1, 1_000_000)}
"""{unit of time: its ms}."""

CLOCK_SLACK_MS = 10 * 60 * 1000
"""How much earlier than a previous entry a message may be published, ms, since producers' clocks differ."""


def milliseconds_of(moment: Moment) -> Milliseconds | None:
    """Return ms since 1970 UTC, rounded up; texts and times without a zone are UTC, ``-1h`` is an hour ago.

    Messages have whole ms. So a bound between two of them includes the later one as a start, and the earlier one as an end.

    Raises `InvalidOptionError` for anything else, and for implausible numbers, which usually have another unit. Accepts 0.
    """
    if moment is None or isinstance(moment, Milliseconds):
        return moment
    if isinstance(moment, int) and not isinstance(moment, bool):
        return Milliseconds(_plausible(moment))
    rest = False
    if isinstance(moment, str):
        rest = _is_finer(moment)
        moment = _relative(moment) or _parsed(moment)
    elif isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(), UTC)
    if not isinstance(moment, datetime):
        raise InvalidOptionError(
            f"a {type(moment).__name__} is not a time; expected ISO 8601 text, a datetime, a date, or whole ms since 1970",
            key=repr(moment),
        )
    if moment != moment:  # noqa: PLR0124  (pandas has a value for no time)
        raise InvalidOptionError("not a time; leave out the option for no limit", key=repr(moment))
    whole = datetime(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond,
        moment.tzinfo or UTC, fold=moment.fold,
    )  # fmt: skip
    microseconds = (whole - _EPOCH) // timedelta(microseconds=1)
    # Times of pandas have nanoseconds, texts any number of digits.
    return Milliseconds(-(-(microseconds + (rest or getattr(moment, "nanosecond", 0) > 0)) // 1000))


def time_of(milliseconds: int | None) -> datetime | None:
    """Return a time in UTC for ms since 1970; None for None, and for times outside Python's calendar."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def iso_time(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601 with milliseconds, UTC; None for None, and for times outside Python's calendar."""
    time = time_of(milliseconds)
    return None if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_finer(text: str) -> bool:
    """Return whether a text has digits other than 0 after the microseconds, which Python drops."""
    further = _FURTHER_DIGITS.search(text)
    return further is not None and further[1].strip("0") != ""


def _plausible(number: int) -> int:
    if number == 0 or _EARLIEST_MS <= number < _LATEST_MS:
        return number
    for unit, per_ms in _OTHER_UNITS.items():
        if _EARLIEST_MS <= number * per_ms < _LATEST_MS:
            meant = int(number * per_ms)
            raise InvalidOptionError(f"looks like {unit}; expected ms since 1970, such as {meant}", key=str(number))
    reason = "not a time from 2010 to 2200 in ms since 1970; leave out the option for no limit"
    raise InvalidOptionError(reason, key=str(number))


def _relative(text: str) -> datetime | None:
    """Return the time of a text relative to now; None for other texts."""
    now, word = datetime.now(UTC), text.strip().lower()
    if word in {"now", "today", "yesterday"}:
        midnight = datetime.combine(now.date(), time(), UTC)
        return {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}[word]
    # -1M is not a minute, and no month: months have different lengths.
    ago = _AGO.fullmatch(text.strip())
    if ago is None:
        return None
    try:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    except OverflowError as error:
        raise InvalidOptionError("is before the earliest possible time", key=text) from error


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidOptionError(
            "not a time; expected ISO 8601, such as 2026-11-01 or 2026-11-01T12:00:00Z, or -1h, -2d, now, today, yesterday",
            key=text,
        ) from error

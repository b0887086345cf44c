"""Moments as users give them, and get them."""

from datetime import UTC, date, datetime, time

from ledgerfs.errors import InvalidOptionError

Moment = str | datetime | date | int | None
"""ISO 8601 text, a time, a day (its midnight, UTC), or ms since 1970 UTC; None for no limit."""

CLOCK_SLACK_MS = 10 * 60 * 1000
"""How much earlier than an entry before it one may be published: producers' clocks differ."""


def milliseconds_of(moment: Moment) -> int | None:
    """Return ms since 1970 UTC; texts and times are of UTC unless they say otherwise. Raises `InvalidOptionError` for anything else."""
    if moment is None or (isinstance(moment, int) and not isinstance(moment, bool)):
        return moment
    if isinstance(moment, str):
        moment = _parsed(moment)
    elif isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(), UTC)
    if not isinstance(moment, datetime):
        raise InvalidOptionError(
            f"a {type(moment).__name__} is no time; expected ISO 8601 text, a datetime, a date, or whole ms since 1970",
            key=repr(moment),
        )
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def time_of(milliseconds: int | None) -> datetime | None:
    """Return a time of UTC from ms since 1970; None for None, and for what no calendar holds."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidOptionError(
            "not a time; expected ISO 8601, such as 2026-11-01 or 2026-11-01T12:00:00Z", key=text
        ) from error

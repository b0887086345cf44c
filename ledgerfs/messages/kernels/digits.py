"""Numbers and times in digits, for kernels: one function returns the size of the text, another one writes it."""

import numpy as np

from ledgerfs.formats.kernel import kernel

_TEN = np.uint64(10)
_DAY = 86_400
_SECOND_NS = 1_000_000_000
_DAY_OF_YEAR_0, _DAY_OF_YEAR_10000 = -719_528, 2_932_897
"""Days since 1970 of the first year that is written with four digits, and of the first one after those."""


@kernel
def _magnitude(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the absolute value of any int64."""
    return np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)


@kernel
def number_size(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many characters an int64 has."""
    size = 1 if value >= 0 else 2
    rest = _magnitude(value)
    while rest >= _TEN:
        rest //= _TEN
        size += 1
    return size


@kernel
def write_number(out, to, size, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write an int64 of ``size`` characters."""
    if value < 0:
        out[to] = ord("-")
    rest = _magnitude(value)
    at = to + size - 1
    while rest >= _TEN:
        out[at] = ord("0") + np.uint8(rest % _TEN)
        rest //= _TEN
        at -= 1
    out[at] = ord("0") + np.uint8(rest)


@kernel
def _write_digits(out, to, count, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the last ``count`` digits of a number that is not negative; return the index after them."""
    rest = np.uint64(value)
    for i in range(to + count - 1, to - 1, -1):
        out[i] = ord("0") + np.uint8(rest % _TEN)
        rest //= _TEN
    return to + count


@kernel
def _date_of(days):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return year, month and day in the Gregorian calendar of a count of days since 1970-01-01.

    Years are counted from March, so that the leap day is the last one, in eras of 400 years (146,097 days).
    """
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, day


@kernel
def _year_size(year):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many characters a year has: outside 0 to 9999 a sign and at least six digits."""
    if 0 <= year <= 9999:
        return 4
    return 1 + max(6, number_size(abs(year)))


@kernel
def date_size(days):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many characters a date has, in days since 1970."""
    if _DAY_OF_YEAR_0 <= days < _DAY_OF_YEAR_10000:
        return 10
    return _year_size(_date_of(days)[0]) + 6


@kernel
def write_date(out, to, days):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write days since 1970 as ``2026-11-01``; return the index after them."""
    year, month, day = _date_of(days)
    digits = 4
    if not 0 <= year <= 9999:
        digits = _year_size(year) - 1
        out[to] = ord("-") if year < 0 else ord("+")
        to += 1
    to = _write_digits(out, to, digits, abs(year))
    out[to] = ord("-")
    to = _write_digits(out, to + 1, 2, month)
    out[to] = ord("-")
    return _write_digits(out, to + 1, 2, day)


@kernel
def _split(ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whole seconds, rounded down, and the nanoseconds after them."""
    seconds = ticks // per_second
    return seconds, (ticks - seconds * per_second) * (_SECOND_NS // per_second)


@kernel
def _fraction_digits(nanoseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many digits follow the seconds: 3, or 6 or 9 where these are not enough."""
    if nanoseconds % 1_000_000 == 0:
        return 3
    return 6 if nanoseconds % 1000 == 0 else 9


@kernel
def _write_clock(out, to, hour_digits, seconds, nanoseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write ``12:00:00.123``; return the index after it."""
    to = _write_digits(out, to, hour_digits, seconds // 3600)
    out[to] = ord(":")
    to = _write_digits(out, to + 1, 2, seconds // 60 % 60)
    out[to] = ord(":")
    to = _write_digits(out, to + 1, 2, seconds % 60)
    out[to] = ord(".")
    digits = _fraction_digits(nanoseconds)
    scale = 1_000_000 if digits == 3 else 1000 if digits == 6 else 1
    return _write_digits(out, to + 1, digits, nanoseconds // scale)


@kernel
def time_size(ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many characters `write_time` writes, without ``Z``."""
    seconds, nanoseconds = _split(ticks, per_second)
    return date_size(seconds // _DAY) + 10 + _fraction_digits(nanoseconds)


@kernel
def write_time(out, to, ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write a time since 1970 as ``2026-11-01T12:00:00.123``, with six or nine last digits if needed; return the index after it."""
    seconds, nanoseconds = _split(ticks, per_second)
    days = seconds // _DAY
    to = write_date(out, to, days)
    out[to] = ord("T")
    return _write_clock(out, to + 1, 2, seconds - days * _DAY, nanoseconds)


@kernel
def _magnitude_of_clock(ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return seconds and nanoseconds of a time of day without its sign; no valid one has a sign, or more than 23 hours."""
    seconds, nanoseconds = _split(ticks, per_second)
    if ticks < 0:
        seconds, nanoseconds = (-seconds, 0) if nanoseconds == 0 else (-seconds - 1, _SECOND_NS - nanoseconds)
    return seconds, nanoseconds


@kernel
def clock_size(ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many characters a time of day has."""
    seconds, nanoseconds = _magnitude_of_clock(ticks, per_second)
    sign = 1 if ticks < 0 else 0
    return sign + max(2, number_size(seconds // 3600)) + 7 + _fraction_digits(nanoseconds)


@kernel
def write_clock(out, to, ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write a time of day as ``12:00:00.123``, with six or nine last digits if needed."""
    seconds, nanoseconds = _magnitude_of_clock(ticks, per_second)
    if ticks < 0:
        out[to] = ord("-")
        to += 1
    _write_clock(out, to, max(2, number_size(seconds // 3600)), seconds, nanoseconds)

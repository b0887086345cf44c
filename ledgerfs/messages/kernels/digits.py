"""Numbers and times in digits, for kernels: one function returns the size of the text, another one writes it."""

import numpy as np

from ledgerfs.formats.kernel import kernel

_TEN = np.uint64(10)
_DAY_MS = 86_400_000
_YEAR_0, _YEAR_10000 = -719_528 * _DAY_MS * 1000, 2_932_897 * _DAY_MS * 1000
"""Microseconds since 1970 of the first year that is written with four digits, and of the first one after those."""


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
def time_size(microseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many characters a time has: years outside 0 to 9999 have a sign and six digits."""
    return 24 if _YEAR_0 <= microseconds < _YEAR_10000 else 27


@kernel
def write_time(out, to, microseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write microseconds since 1970 UTC as ``2026-11-01T12:00:00.123Z``, rounded down to ms."""
    milliseconds = microseconds // 1000
    days = milliseconds // _DAY_MS
    of_day = np.uint64(milliseconds - days * _DAY_MS)
    year, month, day = _date_of(days)
    if not 0 <= year <= 9999:
        out[to] = ord("-") if year < 0 else ord("+")
        to = _write_digits(out, to + 1, 2, abs(year) // 10_000)
    to = _write_digits(out, to, 4, abs(year)) + 1
    to = _write_digits(out, to, 2, month) + 1
    to = _write_digits(out, to, 2, day) + 1
    to = _write_digits(out, to, 2, of_day // np.uint64(3_600_000)) + 1
    to = _write_digits(out, to, 2, of_day // np.uint64(60_000) % np.uint64(60)) + 1
    to = _write_digits(out, to, 2, of_day // np.uint64(1000) % np.uint64(60)) + 1
    to = _write_digits(out, to, 3, of_day % np.uint64(1000))
    out[to] = ord("Z")
    out[to - 4] = ord(".")
    out[to - 7] = out[to - 10] = ord(":")
    out[to - 13] = ord("T")
    out[to - 16] = out[to - 19] = ord("-")

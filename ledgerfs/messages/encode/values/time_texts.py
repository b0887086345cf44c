"""Texts in ISO 8601 as dates, times of day and points in time, exactly or not at all.

Between date and time is ``T`` or a space; seconds may be left out, and of points in time the time.
"""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.kernels.arrays import borrowed

DATE, CLOCK, TIME = 0, 1, 2
"""What a column has: days since 1970; times of day; points in time, since 1970."""
NO_TEXT, TOO_FINE, OUT_OF_RANGE, WITH_ZONE = 1, 2, 3, 4
"""Why a text has no value."""

_DAY = 86_400
_MAX = 2**63 - 1
_FEW_SECONDS = 9 * 10**9
"""Of which 64 bits hold the nanoseconds."""


@kernel
def read_times(data, offsets, valid, shape, digits, is_utc, ticks, reasons):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Read what is valid into ``ticks``, of so many digits after the seconds, or set its reason.

    Without ``is_utc`` no text may have a zone. Without a zone, UTC is meant.
    """
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(valid.size):
        ticks[i] = 0
        reasons[i] = 0
        if valid[i]:
            at, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
            if shape == DATE:
                ticks[i], reasons[i] = _read_date(data, at, end)
            elif shape == CLOCK:
                ticks[i], reasons[i] = _read_clock(data, at, end, digits)
            else:
                ticks[i], reasons[i] = _read_time(data, at, end, digits, is_utc)


@inlined_kernel
def _read_date(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    days, at = _date(data, at, end)
    if at != end:
        return 0, NO_TEXT
    return days, 0 if days == np.int32(days) else OUT_OF_RANGE


@inlined_kernel
def _read_clock(data, at, end, digits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    is_long = end - at >= 5  # an hour alone may be any number
    second, fraction, at, reason = _clock(data, at, end, digits)
    if at != end or not is_long:
        reason = NO_TEXT
    return second * 10**digits + fraction, reason


@inlined_kernel
def _read_time(data, at, end, digits, is_utc):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    second, fraction, reason = 0, 0, 0
    days, at = _date(data, at, end)
    if 0 <= at < end:
        if data[at] != ord("T") and data[at] != ord(" "):
            return 0, NO_TEXT
        second, fraction, at, reason = _clock(data, at + 1, end, digits)
        if 0 <= at < end:
            offset, at = _zone(data, at, end)
            second -= offset
            reason = reason if is_utc else WITH_ZONE
    if at != end:
        reason = NO_TEXT
    if reason != 0:
        return 0, reason
    return _ticks(days * _DAY + second, fraction, 10**digits)


@inlined_kernel
def _is_digit(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return at < end and ord("0") <= data[at] <= ord("9")


@inlined_kernel
def _two_digits(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number that two digits are, -1 if there are none."""
    if not (_is_digit(data, at, end) and _is_digit(data, at + 1, end)):
        return -1
    return (np.int64(data[at]) - 48) * 10 + np.int64(data[at + 1]) - 48


@inlined_kernel
def _date(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return days since 1970 of ``2026-11-01``, with a sign if the year has more than four digits or is before 0, and the place after it.

    The place is -1 if there is no date.
    """
    is_signed = at < end and (data[at] == ord("+") or data[at] == ord("-"))
    is_negative = is_signed and data[at] == ord("-")
    if is_signed:
        at += 1
    begin, year = at, np.int64(0)
    while _is_digit(data, at, end) and at - begin < 9:
        year = year * 10 + np.int64(data[at]) - 48
        at += 1
    digits = at - begin
    if digits < 4 or (digits > 4 and not is_signed) or end - at < 6 or data[at] != ord("-") or data[at + 3] != ord("-"):
        return 0, -1
    if is_negative:
        year = -year
    month, day = _two_digits(data, at + 1, end), _two_digits(data, at + 4, end)
    if month < 1 or month > 12 or day < 1 or day > _days_of_month(year, month):
        return 0, -1
    return _days(year, month, day), at + 6


@inlined_kernel
def _days_of_month(year, month):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in {4, 6, 9, 11} else 31


@inlined_kernel
def _days(year, month, day):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return days since 1970; years are counted from March, in eras of 400 years (see `ledgerfs.messages.kernels.digits`)."""
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    month_from_march = month - 3 if month > 2 else month + 9
    day_of_year = (153 * month_from_march + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@inlined_kernel
def _clock(data, at, end, digits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return seconds and ticks after them of ``12:00:00.123``, the place after it (-1 if there is none), and a reason."""
    hour, minute, second, fraction, reason = _two_digits(data, at, end), 0, 0, 0, 0
    at += 2
    if at < end and data[at] == ord(":"):
        minute = _two_digits(data, at + 1, end)
        at += 3
        if at < end and data[at] == ord(":"):
            second = _two_digits(data, at + 1, end)
            at += 3
            if at < end and data[at] == ord("."):
                fraction, at, reason = _fraction(data, at + 1, end, digits)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        at = -1
    return hour * 3600 + minute * 60 + second, fraction, at, reason


@inlined_kernel
def _fraction(data, at, end, digits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    fraction, reason, begin = np.int64(0), 0, at
    while _is_digit(data, at, end):
        digit = np.int64(data[at]) - 48
        if at - begin < digits:
            fraction = fraction * 10 + digit
        elif digit != 0:
            reason = TOO_FINE
        at += 1
    for _ in range(digits - (at - begin)):
        fraction *= 10
    return fraction, at if at > begin else -1, reason


@kernel
def _zone(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return seconds east of UTC of ``Z``, ``+05``, ``+0530`` or ``+05:30``, and the place after it, -1 if it is none."""
    if data[at] == ord("Z"):
        return 0, at + 1
    if data[at] != ord("+") and data[at] != ord("-"):
        return 0, -1
    sign = 1 if data[at] == ord("+") else -1
    hours, minutes = _two_digits(data, at + 1, end), 0
    at += 3
    if at < end:
        if data[at] == ord(":"):
            at += 1
        minutes = _two_digits(data, at, end)
        at += 2
    if not (0 <= hours < 24 and 0 <= minutes < 60):
        return 0, -1
    return sign * (hours * 3600 + minutes * 60), at


@inlined_kernel
def _ticks(seconds, fraction, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the ticks of seconds and of ticks after them, or a reason if 64 bits do not hold them."""
    if -_FEW_SECONDS < seconds < _FEW_SECONDS:
        return seconds * per_second + fraction, 0
    if seconds < 0 and fraction > 0:
        seconds += 1
        fraction -= per_second
    most, least = (_MAX - max(fraction, 0)) // per_second, -((_MAX + min(fraction + 1, 0)) // per_second)
    if seconds > most or seconds < least:
        return 0, OUT_OF_RANGE
    return seconds * per_second + fraction, 0

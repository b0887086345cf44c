"""Texts as integers, decimals, dates and times: the exact value, or the reason why there is none.

Arrow reads most columns at once; its value counts only if it is written as this very text again, since Arrow reads some texts differently.
All others are read one by one. Times are ISO 8601: between date and time is ``T`` or a space; seconds may be left out, and in points in
time also the time of day. Years of more than four digits have a sign.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.formats.array_types import Int64
from ledgerfs.messages.text.json_typed import TEXT, clocks, dates, decimals, times

_NO_TEXT, _TOO_FINE, _OUT_OF_RANGE, _WITH_ZONE = 1, 2, 3, 4
"""Why a text has no value."""
_REPORTED = {_TOO_FINE: "it has more digits", _OUT_OF_RANGE: "it is outside the range", _WITH_ZONE: "it has a zone"}
_INTEGERS = pa.decimal128(38, 0)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_OF_DATE = r"(?P<year>[0-9]{4}|[+-][0-9]{4,9})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_OF_SECOND = r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?"
_DATE = re.compile(_OF_DATE)
_CLOCK = re.compile(rf"(?P<hour>[0-9]{{2}}):(?P<minute>[0-9]{{2}}){_OF_SECOND}")
_TIME = re.compile(rf"{_OF_DATE}(?:[T ](?P<hour>[0-9]{{2}})(?::(?P<minute>[0-9]{{2}}){_OF_SECOND})?{_ZONE})?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ERA_YEARS, _ERA_DAYS = 400, 146_097
"""Years and days after which the calendar repeats."""


class _RefusedError(Exception):
    """A text has no value of the type."""

    def __init__(self, reason: int) -> None:
        super().__init__()
        self.reason = reason


def is_read_from_text(wanted: pa.DataType) -> bool:
    """Whether `from_text` makes values of the type."""
    return bool(pt.is_integer(wanted) or pt.is_decimal(wanted) or _is_temporal(wanted))


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(pt.is_date32(kind) or pt.is_timestamp(kind) or pt.is_time(kind))


def from_text(texts: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Int64]:
    """Return values of texts (``string``; integers as decimals), and for each text 0 or the number of the reason for no value."""
    kind = _INTEGERS if pt.is_integer(wanted) else wanted
    found, is_same = _by_arrow(texts, kind)
    reasons = np.zeros(len(texts), np.int64)
    left = np.flatnonzero(~np.asarray(is_same) & np.asarray(texts.is_valid()))
    if not left.size:
        return found, reasons
    values: list[Any] = [None] * len(texts)
    for index in left.tolist():
        try:
            values[index] = _read(texts[index].as_py(), kind)
        except _RefusedError as error:
            reasons[index] = error.reason
    width = kind if pt.is_decimal(kind) else pa.int32() if kind.bit_width == 32 else pa.int64()
    read = pa.array(values, width).view(kind)
    return pc.if_else(is_same, found, read), reasons


def reported(reason: int) -> str:
    """Return a reason in words; empty for a text of another kind."""
    return _REPORTED.get(reason, "")


def _by_arrow(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.BooleanArray]:
    """Return Arrow's values, and whether each is written as the same text."""
    try:
        found = texts.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(texts), kind), pa.array(np.zeros(len(texts), np.bool_))
    return found, pc.equal(_written_as(kind)(found), texts.cast(TEXT)).fill_null(False)


def _written_as(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pt.is_decimal(kind):
        return decimals
    return dates if pt.is_date(kind) else clocks if pt.is_time(kind) else times


def _read(text: str, kind: Any) -> Any:  # noqa: ANN401  (a number or decimal; a type of Arrow's)
    """Return a decimal, or the ticks of a date or time; raises `_RefusedError`."""
    if pt.is_decimal(kind):
        return _decimal(text, kind.precision, kind.scale)
    if pt.is_date(kind):
        return _in_range(_days(_matched(_DATE, text)), kind)
    match = _matched(_CLOCK if pt.is_time(kind) else _TIME, text)
    seconds = _seconds(match)
    if pt.is_timestamp(kind):
        if match["zone"] and kind.tz is None:
            raise _RefusedError(_WITH_ZONE)
        seconds += _days(match) * 86_400 - _offset(match)
    fraction, digits = (match["fraction"] or "").rstrip("0"), _DIGITS[kind.unit]
    if len(fraction) > digits:
        raise _RefusedError(_TOO_FINE)
    return _in_range(seconds * 10**digits + int(fraction.ljust(digits, "0") or "0"), kind)


def _matched(pattern: "re.Pattern[str]", text: str) -> "re.Match[str]":
    match = pattern.fullmatch(text)
    if match is None:
        raise _RefusedError(_NO_TEXT)
    return match


def _days(match: "re.Match[str]") -> int:
    """Return days since 1970."""
    eras, year = divmod(int(match["year"]), _ERA_YEARS)
    try:
        known = date(year + _ERA_YEARS, int(match["month"]), int(match["day"]))
    except ValueError:
        raise _RefusedError(_NO_TEXT) from None
    return known.toordinal() - date(1970, 1, 1).toordinal() + (eras - 1) * _ERA_DAYS


def _seconds(match: "re.Match[str]") -> int:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour >= 24 or minute >= 60 or second >= 60:
        raise _RefusedError(_NO_TEXT)
    return hour * 3600 + minute * 60 + second


def _offset(match: "re.Match[str]") -> int:
    """Return seconds east of UTC."""
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    if hours >= 24 or minutes >= 60:
        raise _RefusedError(_NO_TEXT)
    return (hours * 3600 + minutes * 60) * (-1 if match["sign"] == "-" else 1)


def _in_range(ticks: int, kind: Any) -> int:  # noqa: ANN401
    most = 1 << (kind.bit_width - 1)
    if not -most <= ticks < most:
        raise _RefusedError(_OUT_OF_RANGE)
    return ticks


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    _matched(_DECIMAL, text)
    try:
        value = Decimal(text).normalize(Context(prec=len(text)))
    except InvalidOperation:
        raise _RefusedError(_NO_TEXT) from None
    exponent = value.as_tuple().exponent
    if value and (not isinstance(exponent, int) or -exponent > scale or value.adjusted() + scale >= precision):
        raise _RefusedError(_NO_TEXT)
    return value

"""Columns to the type of a schema: texts and decimals against Python's, and no value that is another one."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import InvalidRowsError
from ledgerfs.messages.encode.values.leaf_casts import cast_leaf
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.text.json_typed import typed_values
from tests.support.each import for_each


def decimal_type(precision: int, scale: int) -> Any:
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)


DECIMALS = st.sampled_from(
    [(1, 0), (1, 1), (5, 2), (20, 10), (38, 0), (38, 20), (38, 38), (39, 0), (76, 0), (76, 40), (76, 76)]
)
EXPONENTS = st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E+", "e-"]), st.integers(0, 120))
TEXTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.from_regex(r"0{0,9}[0-9]{1,90}0{0,40}|[0-9]{0,50}\.[0-9]{1,50}|[0-9]{1,50}\.", fullmatch=True),
    EXPONENTS,
)


def expect(given: pa.Array, value: Decimal, precision: int, scale: int) -> None:
    with localcontext(prec=400):
        unscaled = value.scaleb(scale)
        fits = unscaled == unscaled.to_integral_value() and abs(unscaled) < Decimal(10) ** precision
    if fits:
        assert cast_leaf(given, decimal_type(precision, scale), Place("v")).to_pylist() == [None, value]
    else:
        with pytest.raises(InvalidRowsError, match="row 1: its v"):
            cast_leaf(given, decimal_type(precision, scale), Place("v"))


@given(TEXTS, DECIMALS)
def test_texts_of_decimals(text: str, wanted: tuple[int, int]) -> None:
    expect(pa.array([None, text]), Decimal(text), *wanted)


@given(DECIMALS, DECIMALS, st.integers(-(10**76) + 1, 10**76 - 1), st.integers(0, 76))
def test_decimals_of_another_scale(of: tuple[int, int], wanted: tuple[int, int], number: int, less: int) -> None:
    """Arrow's own cast has others from 128 or 256 bits on."""
    with localcontext(prec=400):
        unscaled = number // 10**less
        value = Decimal(unscaled if abs(unscaled) < 10 ** of[0] else 1).scaleb(-of[1])
    expect(pa.array([None, value], decimal_type(*of)), value, *wanted)


@given(st.integers(-(2**63), 2**63 - 1), DECIMALS)
def test_integers_as_decimals(number: int, wanted: tuple[int, int]) -> None:
    expect(pa.array([None, number], pa.int64()), Decimal(number), *wanted)


def test_small_decimals_of_fewer_bits() -> None:
    given = pa.array([Decimal("1.25")], pa.decimal64(18, 2))
    assert cast_leaf(given, pa.decimal128(5, 2), Place("v")).to_pylist() == [Decimal("1.25")]
    with pytest.raises(InvalidRowsError, match=r"its v is not a value of decimal128\(4, 4\): Decimal\('1.25'\)"):
        cast_leaf(given, pa.decimal128(4, 4), Place("v"))


TIMES = [pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
TIMES += [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC")]


@for_each("kind", TIMES)
def test_texts_of_times_are_what_ledgerfs_writes_of_them(kind: Any) -> None:
    most = 2 ** (kind.bit_width - 1)
    if pa.types.is_time(kind):
        day = 86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        numbers = [0, 1, day - 1, *(day * part // 1013 for part in range(1013))]
    else:
        numbers = [-most, most - 1, *(sign * 3**power % most - (sign < 0) for power in range(60) for sign in (-1, 1))]
        numbers += [-most + step * 99_999_999 for step in range(20)]
    values = pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    texts = pa.array([one.strip('"') for one in typed_values(values).to_pylist()])
    for text in (pa.string(), pa.large_string(), pa.string_view()):
        assert cast_leaf(texts.cast(text).slice(1), kind, Place("v")).equals(values.slice(1))


@given(st.datetimes(), st.integers(-23 * 60, 23 * 60), st.sampled_from("T "))
def test_texts_of_times_are_what_python_writes(value: datetime, minutes: int, between: str) -> None:
    def one(text: str, kind: pa.DataType) -> Any:
        return cast_leaf(pa.array([text]), kind, Place("v"))[0].as_py()

    sign, hours = "-" if minutes < 0 else "+", f"{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    text = value.isoformat(between)
    assert one(text, pa.timestamp("us")) == value
    assert one(value.date().isoformat(), pa.date32()) == value.date()
    assert one(value.time().isoformat(), pa.time64("us")) == value.time()
    if 1 < value.year < 9999:
        there = value.replace(tzinfo=UTC) - timedelta(minutes=minutes)
        for zone in (hours, hours.replace(":", "")):
            assert one(text + sign + zone, pa.timestamp("us", "UTC")) == there


MS, UTC_MS, NS = pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")


@for_each(
    ("text", "kind", "value"),
    [
        ("12:00:00.123", pa.time32("ms"), time(12, 0, 0, 123_000)),
        ("12:00:00.12300000", pa.time32("ms"), time(12, 0, 0, 123_000)),
        ("12:01", pa.time64("ns"), time(12, 1)),
        ("2026-11-01 12:00:00.500000+05:30", UTC_MS, datetime(2026, 11, 1, 6, 30, 0, 500_000, tzinfo=UTC)),
        ("2026-11-01T12Z", UTC_MS, datetime(2026, 11, 1, 12, tzinfo=UTC)),
        ("2026-11-01 12:00", UTC_MS, datetime(2026, 11, 1, 12, tzinfo=UTC)),
        ("2026-11-01", UTC_MS, datetime(2026, 11, 1, tzinfo=UTC)),
        ("2024-02-29", pa.date32(), date(2024, 2, 29)),
        ("+007", pa.int32(), 7), ("-12.00", pa.int8(), -12), ("1E3", pa.int64(), 1000), ("-9223372036854775808", pa.int64(), -(2**63)),
        ("true", pa.bool_(), True), ("False", pa.bool_(), False),
        ("0.1", pa.float32(), 0.10000000149011612), ("0.1", pa.float64(), 0.1), ("-inf", pa.float32(), float("-inf")),
    ],
)  # fmt: skip
def test_texts_that_are_read(text: str, kind: pa.DataType, value: object) -> None:
    found = cast_leaf(pa.array([text, None]), kind, Place("v"))
    assert (found.type, found.to_pylist()) == (kind, [value, None])


BAD = [
    (
        pa.time32("ms"),
        "is not a value of",
        ["12", "1200", "24:00", "23:59:60", "12:00Z", "-01:00", "12:0", "12:00:", "12:00:00.", "1:00:00", ""],
    ),
    (pa.time32("ms"), "is not a value of .* .it has more digits", ["12:00:00.1234"]),
    (
        pa.date32(),
        "is not a value of",
        ["2026-02-29", "2026-13-01", "2026-00-01", "20261101", "12026-01-01", "2026-11-01 00:00", "-", " 2026-01-01"],
    ),
    (pa.date32(), "is not a value of .* .it is outside the range", ["+5881580-07-12", "-999999999-01-01"]),
    (
        MS,
        "is not a value of",
        ["2026-11-01T", "2026-11-01T25:00", "2026-11-01t12:00", "1700000000000", "2026-11-01T12:00 "],
    ),
    (MS, "is not a value of .* .it has a zone", ["2026-11-01T12:00Z", "2026-11-01T12:00+01"]),
    (
        UTC_MS,
        "is not a value of",
        ["2026-11-01Z", "2026-11-01T12:00ZZ", "2026-11-01T12:00+5", "2026-11-01T12:00+05:3", "2026-11-01T12:00+24:00"],
    ),
    (UTC_MS, "is not a value of .* .it has more digits", ["2026-11-01T12:00:00.123456Z"]),
    (
        NS,
        "is not a value of .* .it is outside the range",
        ["2400-01-01", "1677-09-21T00:12:43.145224191", "2262-04-11T23:47:16.854775808"],
    ),
    (
        pa.int32(),
        "is not a value of",
        ["2147483648", "0xFFFFFFFF", "1.5", "1e-1", "e1", "x", "", " 1", "1_0", "9" * 60],
    ),
    (
        pa.decimal128(5, 2),
        "is not a value of",
        [
            "340282366920938463463374607431768211457",
            "1000",
            "0.001",
            "NaN",
            "1e",
            ".",
            "1.2.3",
            "1e99999999999999999999",
        ],
    ),
    (pa.float32(), "is not a value of .* .it is outside the range", ["1e39", "-1e39"]),
    (pa.float64(), "is not a value of .* .it is outside the range", ["1e309"]),
    (pa.float64(), "is not a value of", ["x", "", "0x1"]),
    (pa.bool_(), "is not a value of", ["yes", ""]),
]


@for_each(("kind", "reason", "text"), [(kind, why, one) for kind, why, texts in BAD for one in texts])
@for_each("of", [pa.string(), pa.string_view()])
def test_texts_that_are_not_read(kind: pa.DataType, reason: str, text: str, of: pa.DataType) -> None:
    with pytest.raises(InvalidRowsError, match=f"row 1: its v {reason}"):
        cast_leaf(pa.array([None, text], of), kind, Place("v"))


def view(number: int, kind: Any) -> pa.Array:
    return pa.array([0, number], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


@for_each(
    ("given", "wanted", "reason"),
    [
        (view(2**60, pa.timestamp("us", "UTC")), pa.timestamp("ns", "UTC"), r"is not a value of .*: \+038504-08-17T21"),
        (view(2**62, pa.timestamp("s")), MS, r"is not a value of .*: \+146138514283-"),
        (view(2**60, pa.date64()), pa.date32(), "it is outside its range"),
        (view(86_400_000 * 2**35, pa.date64()), pa.date32(), "it is outside its range"),
        (view(86_400_001, pa.date64()), pa.date32(), "is not a value of date32.*: 1970-01-02T00:00:00.001"),
        (view(4_294_968, pa.time32("s")), pa.time32("ms"), "is not a time of day"),
        (view((2**32 + 5) * 1000, pa.time64("us")), pa.time32("ms"), "is not a time of day"),
        (view(86_400_000, pa.time32("ms")), pa.time32("ms"), "is not a time of day"),
    ],
)
def test_times_outside_what_there_is(given: pa.Array, wanted: pa.DataType, reason: str) -> None:
    with pytest.raises(InvalidRowsError, match=f"row 1: its v .*{reason}"):
        cast_leaf(given, wanted, Place("v"))

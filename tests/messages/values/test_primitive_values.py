"""Values of Pulsar's primitive types: whatever is written is read, and what has another size, or no meaning, is null with a reason."""

import math
import random
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES
from tests.support.each import for_each
from tests.support.typed_golden import payloads, plain

DAY_MS, DAY_NS, SECOND_NS = 86_400_000, 86_400_000_000_000, 1_000_000_000
LONGS = (-(2**63), 2**63 - 1)
KINDS: dict[str, tuple[str, int, int]] = {
    "BOOLEAN": (">?", 0, 1),
    "INT8": (">b", -128, 127),
    "INT16": (">h", -(2**15), 2**15 - 1),
    "INT32": (">i", -(2**31), 2**31 - 1),
    "INT64": (">q", *LONGS),
    "FLOAT": (">f", 0, 2**32 - 1),
    "DOUBLE": (">d", 0, 2**64 - 1),
    "DATE": (">q", *LONGS),
    "TIMESTAMP": (">q", *LONGS),
    "TIME": (">q", 0, DAY_MS - 1),
    "LOCAL_DATE": (">q", -(2**31), 2**31 - 1),
    "LOCAL_TIME": (">q", 0, DAY_NS - 1),
}
"""How a value is written, and the least and the greatest; of floats, of their bits."""
WRONG_SIZE = "it has another size than values of its type"
BEYOND = "a time or decimal of it is outside the range of its type"


def decode(name: str, rows: list[bytes | None], **properties: str) -> tuple[pa.Array, list[str]]:
    decoder = decoder_of(SchemaInfo(name, b"null", properties))
    array, reasons = decoder.decode(*payloads(pa.array(rows, pa.binary())))
    array.validate(full=True)
    assert array.type == decoder.type == PRIMITIVE_TYPES[name]
    return array, [decoder.explain(one) if one else "" for one in reasons.tolist()]


def some_of(name: str) -> list[Any]:
    """Return the ends of what there is of a type, what is about zero, and 1000 others of any size, with nulls among them."""
    (how, least, most), dice = KINDS[name], random.Random(name)
    numbers = [least, least + 1, most - 1, most, *range(max(least, -2), min(most, 2) + 1)]
    numbers += [dice.randint(max(least, -(2**bits)), min(most, 2**bits)) for bits in range(1, 65) for _ in range(15)]
    if name in {"FLOAT", "DOUBLE"}:
        size, (infinity,) = (
            struct.calcsize(how),
            struct.unpack(f">{'I' if how == '>f' else 'Q'}", struct.pack(how, math.inf)),
        )
        numbers += [
            sign | bits for sign in (0, 1 << 8 * size - 1) for bits in (0, 1, infinity - 1, infinity, infinity + 1)
        ]
        return [None, *(struct.unpack(how, one.to_bytes(size, "big"))[0] for one in numbers)]
    return [one for number in numbers for one in ([number, None] if dice.random() < 0.1 else [number])]


@for_each("name", KINDS)
def test_what_is_written_is_read(name: str) -> None:
    values = some_of(name)
    for some in (values, values[:1], values[-9:-1], [None], []):
        rows = [None if one is None else struct.pack(KINDS[name][0], one) for one in some]
        array, reasons = decode(name, rows)
        are_real = name in {"FLOAT", "DOUBLE"}
        assert plain(array) == [repr(one) if are_real and one is not None else one for one in some]
        assert reasons == ["it has no value" if one is None else "" for one in rows]


@given(
    st.lists(
        st.tuples(st.integers(-(2**63) // SECOND_NS + 2, 2**63 // SECOND_NS - 2), st.integers(0, SECOND_NS - 1)),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_instants(given_values: list[tuple[int, int]]) -> None:
    array, reasons = decode("INSTANT", [struct.pack(">qi", *one) for one in given_values])
    assert plain(array) == [second * SECOND_NS + nano for second, nano in given_values]
    assert not any(reasons)


@given(st.lists(st.tuples(st.integers(-106_000, 106_000), st.integers(0, DAY_NS - 1)), max_size=5))
@settings(max_examples=60, deadline=None)
def test_local_dates_with_times(given_values: list[tuple[int, int]]) -> None:
    array, reasons = decode("LOCAL_DATE_TIME", [struct.pack(">qq", *one) for one in given_values])
    assert plain(array) == [day * DAY_NS + nano for day, nano in given_values]
    assert not any(reasons)


@given(st.lists(st.none() | st.text(max_size=8), max_size=6))
@settings(max_examples=60, deadline=None)
def test_text_and_bytes(texts: list[str | None]) -> None:
    rows = [None if one is None else one.encode() for one in texts]
    assert decode("STRING", rows)[0].to_pylist() == texts
    assert decode("BYTES", rows)[0].to_pylist() == rows
    for charset in ("UTF-16", "utf-32", "UTF-7"):
        others = [None if one is None else one.encode(charset) for one in texts]
        array, reasons = decode("STRING", others, __charset=charset)
        assert array.to_pylist() == texts
        assert reasons == ["it has no value" if one is None else "" for one in rows]


@for_each("name", [name for name in PRIMITIVE_TYPES if name not in {"STRING", "BYTES"}])
def test_another_size_is_no_value(name: str) -> None:
    size = {"INSTANT": 12, "LOCAL_DATE_TIME": 16}.get(name) or struct.calcsize(KINDS[name][0])
    array, reasons = decode(name, [bytes(size), b"", bytes(size - 1), bytes(size + 1), None, bytes(100), bytes(size)])
    assert reasons == ["", WRONG_SIZE, WRONG_SIZE, WRONG_SIZE, "it has no value", WRONG_SIZE, ""]
    assert array.is_valid().to_pylist() == [True, False, False, False, False, False, True]
    assert decode(name, []) == (pa.array([], PRIMITIVE_TYPES[name]), [])


@for_each(
    ("name", "row", "reason"),
    [
        ("BOOLEAN", b"\2", "a boolean of it is neither 0 nor 1"),
        ("TIME", struct.pack(">q", 2 * DAY_MS), BEYOND),
        ("TIME", struct.pack(">q", -DAY_MS - 1), BEYOND),
        ("LOCAL_DATE", struct.pack(">q", 2**31), BEYOND),
        ("LOCAL_DATE", struct.pack(">q", -(2**63)), BEYOND),
        ("LOCAL_TIME", struct.pack(">q", DAY_NS), BEYOND),
        ("LOCAL_TIME", struct.pack(">q", -1), BEYOND),
        *(("INSTANT", struct.pack(">qi", second, 0), BEYOND) for second in (2**63 - 1, -(2**63), 2**34)),
        ("INSTANT", struct.pack(">qi", 0, -1), BEYOND),
        ("INSTANT", struct.pack(">qi", 0, SECOND_NS), BEYOND),
        *(("LOCAL_DATE_TIME", struct.pack(">qq", day, 0), BEYOND) for day in (2**63 - 1, -(2**63), 2**17)),
        ("LOCAL_DATE_TIME", struct.pack(">qq", 0, DAY_NS), BEYOND),
    ],
)  # fmt: skip
def test_what_arrow_has_no_value_for(name: str, row: bytes, reason: str) -> None:
    good = bytes({"BOOLEAN": 1, "INSTANT": 12, "LOCAL_DATE_TIME": 16}.get(name, 8))
    array, reasons = decode(name, [good, row, good])
    assert reasons == ["", reason, ""]
    assert array.is_valid().to_pylist() == [True, False, True]


def test_times_that_a_zone_has_moved_are_of_the_first_day() -> None:
    """`java.sql.Time` holds milliseconds since 1970 of a local time: to the west of the next day, to the east of the one before."""
    array, _ = decode("TIME", [struct.pack(">q", one) for one in (-1, DAY_MS, 5)])
    assert plain(array) == [DAY_MS - 1, 0, 5]


def test_types_for_users() -> None:
    when = datetime(2024, 2, 29, 12, 30, 1, 5000, UTC)
    millis = struct.pack(">q", (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    assert decode("TIMESTAMP", [millis])[0].to_pylist() == decode("DATE", [millis])[0].to_pylist() == [when]
    assert decode("LOCAL_DATE", [struct.pack(">q", 19_782)])[0].to_pylist() == [date(2024, 2, 29)]


def test_text_that_is_none() -> None:
    assert decode("STRING", [b"a\xffb"])[0].to_pylist() == ["a\ufffdb"]
    array, reasons = decode("STRING", ["ä".encode("utf-16"), b"\xff", b"", None], __charset="UTF-16")
    assert array.to_pylist() == ["ä", None, "", None]
    assert reasons == ["", "it is not text in the character set of its schema", "", "it has no value"]


def test_utf16_without_an_order_of_bytes_is_as_java_has_it() -> None:
    rows = ["äb".encode("utf-16-be"), "äb".encode("utf-16"), b"\xfe\xff" + "äb".encode("utf-16-be")]
    assert decode("STRING", rows, __charset="UTF-16")[0].to_pylist() == ["äb"] * 3


def test_an_unknown_character_set_is_refused() -> None:
    for charset in ("x-none", "\0", "", "zip"):
        with pytest.raises(InvalidSchemaError):
            decode("STRING", [b"a"], __charset=charset)

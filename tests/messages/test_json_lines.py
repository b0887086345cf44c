"""JSON lines of arbitrary batches against a slow writer in plain Python."""

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.text.json_lines import json_lines
from ledgerfs.messages.text.json_typed import base64_texts, properties, text_or_base64, times
from tests.support.json_lines import slow_lines, slow_time

SETTINGS = settings(deadline=None, max_examples=70)
TIME = MESSAGE_SCHEMA.field("event_time").type
MAP = MESSAGE_SCHEMA.field("properties").type

INT64 = st.integers(-(2**63), 2**63 - 1)
AWKWARD = st.text(st.sampled_from('ab"\\/\b\f\n\r\t\x00\x1f\x7f\x80é漢\u2028\ufffd\U0001f600'), max_size=40)
TEXT = st.one_of(AWKWARD, st.text(max_size=40))
PIECES = st.sampled_from(
    [b"plain", b'"', b"\\", b"\n", b"\x00", "é漢😀".encode(), b"\xff", b"\xe2\x82", b"\xed\xa0\x80"]
)
BYTES = st.one_of(TEXT.map(str.encode), st.binary(max_size=60), st.lists(PIECES, max_size=20).map(b"".join))
OF_TYPE = {
    pa.string(): TEXT,
    pa.binary(): BYTES,
    pa.int64(): INT64,
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    TIME: INT64,
    MAP: st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=4),
}
NO_TEXT = [
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc2",
    b"\xc2\x41",
    b"\xe0\x9f\xbf",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xf8\x88\x80\x80\x80",
]
TEXTS_AT_THE_EDGE = [
    "\x7f",
    "\x80",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
]


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw a slice of a batch with some columns of the message table, nulls among them."""
    names = draw(st.lists(st.sampled_from(MESSAGE_SCHEMA.names), unique=True, max_size=6))
    rows = draw(st.integers(0, 8))
    columns = []
    for name in names:
        kind = MESSAGE_SCHEMA.field(name).type
        one = OF_TYPE[kind] if name == "properties" else st.none() | OF_TYPE[kind]
        columns.append(pa.array(draw(st.lists(one, min_size=rows, max_size=rows)), kind))
    batch = pa.RecordBatch.from_arrays(columns, names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start)))


@SETTINGS
@given(batch=batches())
def test_any_batch(batch: pa.RecordBatch) -> None:
    lines = bytes(json_lines(batch))
    assert lines == slow_lines(batch)
    assert len([json.loads(line) for line in lines.split(b"\n")[:-1]]) == batch.num_rows


def test_what_is_utf8_and_what_is_not() -> None:
    values = [*NO_TEXT, *map(str.encode, TEXTS_AT_THE_EDGE), *(bytes([one]) for one in range(256))]
    values += [value + b"y" for value in values]
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
    lines = [json.loads(line) for line in bytes(json_lines(batch)).splitlines()]
    for value, line in zip(values, lines, strict=True):
        try:
            assert line == {"value": value.decode()}
        except UnicodeDecodeError:
            assert line == {"value_base64": base64.b64encode(value).decode()}


def test_every_day_of_some_eras_and_the_ends_of_all_time() -> None:
    day = 86_400_000_000
    numbers = [-(2**63), 2**63 - 1, 0, -1, -1000, -999, 999, 1000, 1_793_534_400_123_000]
    numbers += [
        (first + i) * day + i * 7_919 for first in (-719_528, -1_000_000, 0, 2_932_800) for i in range(-500, 1500)
    ]
    column = pa.array(numbers, TIME)
    assert times(column).to_pylist() == [slow_time(number) for number in numbers]
    assert slow_time(1_793_534_400_123_000) == "2026-11-01T12:00:00.123Z"
    assert slow_time(-62_167_219_200_000_001) == "-000001-12-31T23:59:59.999999Z"
    assert slow_time(253_402_300_800_000_000) == "+010000-01-01T00:00:00.000Z"
    assert slow_time(2**63 - 1) == "+294247-01-10T04:00:54.775807Z"


def test_columns_as_arrays_of_text() -> None:
    column = pa.array([b"text", None, b"\xff", b""], pa.binary())
    assert [one.to_pylist() for one in text_or_base64(column)] == [
        ["text", None, None, ""],
        [None, None, "/w==", None],
    ]
    assert base64_texts(column.slice(2)).to_pylist() == ["/w==", ""]
    maps = pa.array([[("a", "b"), ("a", None)], []], MAP)
    assert properties(maps).to_pylist() == ['{"a":"b","a":null}', None]
    assert times(pa.array([], TIME)).to_pylist() == []


def test_a_text_that_is_none_is_an_error_and_no_bad_json() -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    maps = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), broken, pa.array(["x"]))
    for name, column in (("key", broken), ("properties", maps)):
        with pytest.raises(CorruptObjectError, match="not UTF-8"):
            json_lines(pa.RecordBatch.from_arrays([column], [name]))


def test_no_rows_and_no_columns() -> None:
    assert bytes(json_lines(pa.RecordBatch.from_pylist([], MESSAGE_SCHEMA))) == b""
    nothing = pa.RecordBatch.from_arrays([pa.array([None, None], pa.string())], ["key"])
    assert bytes(json_lines(nothing)) == b"{}\n{}\n"

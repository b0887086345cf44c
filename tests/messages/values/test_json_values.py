"""JSON values: any document by any schema, against a slow reader of the tests' own, and Pulsar."""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.messages.values import json_parts, json_values
from ledgerfs.messages.values.json_parsing import Documents
from ledgerfs.messages.values.json_values import JsonDecoder
from ledgerfs.messages.values.value_program import REASONS, Reason
from tests.support.avro import USED_AGAIN, schemas
from tests.support.each import for_each
from tests.support.json_documents import STYLES, ContradictionError, Number, Reader, clean, documents, load
from tests.support.typed_answers import comparable_json

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "street", "type": ["null", "string"]},
        {"name": "number", "type": ["null", "int"]},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "ways", "type": {"type": "map", "values": "double"}},
        {
            "name": "near",
            "type": ["null", {"type": "record", "name": "Near", "fields": [{"name": "far", "type": "long"}]}],
        },
    ],
}
NOTHING = {"street": None, "number": None, "lines": None, "ways": None, "near": None}


def payloads(documents: list[bytes | None]) -> tuple[Any, ...]:
    data = np.frombuffer(b"".join(one or b"" for one in documents), np.uint8)
    sizes = np.array([len(one or b"") for one in documents], np.int64)
    ends = np.cumsum(sizes)
    return data, ends - sizes, ends, np.array([one is not None for one in documents], bool)


def decode(decoder: JsonDecoder, documents: list[bytes | None]) -> tuple[list[Any], list[str]]:
    """Return values, and why those that are null are not there."""
    array, reasons = decoder.decode(*payloads(documents))
    array.validate(full=True)
    assert array.type == decoder.type
    assert all(one is None for one, reason in zip(array.to_pylist(), reasons, strict=True) if reason)
    return comparable_json(array), [decoder.explain(one) if one > 0 else "" for one in reasons.tolist()]


def of_address(*documents: str) -> tuple[list[Any], list[str]]:
    return decode(JsonDecoder.of_schema(json.dumps(ADDRESS)), [one.encode() for one in documents])


@st.composite
def written(draw: Any) -> tuple[Any, list[bytes | None]]:
    schema = draw(schemas())
    styles = draw(STYLES)
    values = draw(st.lists(st.none() | documents(schema).map(styles.document), max_size=8))
    return schema, values


@pytest.mark.long
@given(written())
@settings(max_examples=150, deadline=None)
@example((USED_AGAIN, [b'{"a": {"in": {"out": {"in": null}}}, "b": {"out": {"in": {"out": null}}}}']))
def test_any_document_of_any_schema(made: tuple[Any, list[bytes | None]]) -> None:
    schema, texts = made
    rows, reasons = decode(JsonDecoder.of_schema(json.dumps(schema)), texts)
    read = Reader.of(schema)
    for row, text, reason in zip(rows, texts, reasons, strict=True):
        try:
            wanted = None if text is None else read(load(text))
        except ContradictionError:
            assert re.search(" is (not|ambiguous|a number outside)", reason)
        else:
            assert not reason
            assert row == wanted


@pytest.mark.long
@given(written(), st.data())
@settings(max_examples=120, deadline=None)
def test_a_damaged_document_changes_no_other(made: tuple[Any, list[bytes | None]], data: st.DataObject) -> None:
    schema, texts = made
    decoder = JsonDecoder.of_schema(json.dumps(schema))
    texts = [one for one in texts if one]
    if not texts:
        return
    at = data.draw(st.integers(0, len(texts) - 1))
    cut = data.draw(st.integers(0, len(texts[at]) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    damaged = data.draw(
        st.sampled_from((texts[at][:cut], texts[at] + byte, texts[at][:cut] + byte + texts[at][cut + 1 :]))
    )
    whole, whole_reasons = decode(decoder, texts)
    rows, reasons = decode(decoder, [*texts[:at], damaged, *texts[at + 1 :]])
    assert rows[:at] + rows[at + 1 :] == whole[:at] + whole[at + 1 :]
    assert reasons[:at] + reasons[at + 1 :] == whole_reasons[:at] + whole_reasons[at + 1 :]
    if not reasons[at]:
        assert rows[at] == Reader.of(schema)(load(damaged.decode("utf-8", "replace").encode()))


@given(st.binary(max_size=30) | st.text('{}[]:,"\\nulltrefas 019.eE+-NaIity', max_size=30).map(str.encode))
@settings(max_examples=300, deadline=None)
@example(b"\xef\xbb\xbf{}")
@example(b'{"a":1e}')
@example(b"01")
@example(b"-")
@example(b"1.")
@example(b'"\\ud800\\ud800"')
@example(b'"\\u12')
@example(b"[1,]")
@example(b"\x00")
@example(b"\x000")
def test_what_is_no_json_is_refused(text: bytes) -> None:
    """As Python does, which also knows NaN and Infinity."""
    rows, reasons = decode(JsonDecoder.of_type(pa.string()), [text])
    try:
        value = load(text.decode("utf-8-sig", "replace").encode())
    except ValueError:
        assert reasons != [""]
        return
    assert reasons == [""]
    if value is None or (isinstance(value, str) and not isinstance(value, Number)):
        assert rows == [value and clean(value)]
    else:
        assert load(rows[0].encode()) == value


def test_fields_come_in_any_order_or_not_at_all_and_others_are_left_out() -> None:
    rows, reasons = of_address(
        '{"number":1,"street":"a"}',
        " {\n} ",
        "null",
        '{"x":{"street":[{}]},"\\u0073treet":"b","near":{"far":2,"y":[1]}}',
    )
    assert rows == [
        NOTHING | {"number": 1, "street": "a"},
        NOTHING,
        None,
        NOTHING | {"street": "b", "near": {"far": 2}},
    ]
    assert reasons == [""] * 4


def test_of_a_field_that_is_given_twice_the_last_counts() -> None:
    rows, _ = of_address(
        '{"lines":["a","b"],"lines":["c"],"ways":{"k":1,"k":2},"near":{"far":1},"near":{}}',
        '{"lines":["d"],"ways":{"a":1},"ways":{"b":2},"street":"a","street":null}',
        '{"lines":["e"],"lines":null,"ways":{"m":1,"n":2,"m":3}}',
        '{"lines":["f",null]}',
    )
    assert rows == [
        NOTHING | {"lines": ["c"], "ways": [("k", "2.0")], "near": {"far": None}},
        NOTHING | {"lines": ["d"], "ways": [("b", "2.0")]},
        NOTHING | {"ways": [("m", "3.0"), ("n", "2.0")]},
        NOTHING | {"lines": ["f", None]},
    ]


@for_each(
    ("text", "reason"),
    [
        ('{"number":1.0}', "its field 'number' is not an int"),
        ('{"number":2147483648}', "its field 'number' is not an int"),
        ('{"number":"1"}', "its field 'number' is not an int"),
        ('{"street":["a"]}', "its field 'street' is not text"),
        ('{"lines":"one"}', "its field 'lines' is not a list"),
        ('{"lines":["a",{}]}', "an item of its field 'lines' is not text"),
        ('{"ways":{"k":true}}', "a value of its field 'ways' is not a number"),
        ('{"near":{"far":9223372036854775808}}', "its field 'near.far' is not a long"),
        ('{"near":[]}', "its field 'near' is not an object"),
        ("[]", "it is not an object"),
        ("{} {}", "bytes follow after its last field"),
        ('{"street":"a', "it ends inside a field"),
        ("", "it ends inside a field"),
        ('{"street":"a\n"}', "it is not JSON"),
        ("{street:1}", "it is not JSON"),
    ],
)
def test_why_a_document_is_not_read(text: str, reason: str) -> None:
    rows, reasons = of_address('{"number":1}', text, '{"number":2}')
    assert reasons == ["", reason, ""]
    assert [one and one["number"] for one in rows] == [1, None, 2]


def test_hostile_documents_are_refused() -> None:
    deep = '{"x":' + "[" * 10**6 + "]" * 10**6 + "}"
    deep_enough = '{"number":3,"x":' + "[" * 255 + "]" * 255 + "}"
    long = '{"number":' + "9" * 10**6 + "}"
    rows, reasons = of_address('{"number":1}', deep, long, "[" * 10**6, '{"a":' * 10**6, deep_enough, '{"number":2}')
    assert [one and one["number"] for one in rows] == [1, None, None, None, None, 3, 2]
    # Looked for from each quote again, the end of a string that has none would take days.
    endless = '"' + '\\"' * 10**6
    assert of_address("[" * 257 + endless, '{"street":' + endless)[1] == [
        "it is nested too deeply",
        "it ends inside a field",
    ]
    assert reasons == [
        "", "it is nested too deeply", "its field 'number' is not an int", "it is nested too deeply", "it is nested too deeply", "", ""
    ]  # fmt: skip


def test_very_long_numbers_and_texts() -> None:
    decoder = JsonDecoder.of_schema('{"type":"map","values":["null","double","string"]}')
    numbers = ["9" * 10**5, "0." + "0" * 10**5 + "1", "1" + "0" * 300, "1e-99999999999999999999", "0" + ".0" * 1]
    texts = ["\\u00e9" * 10**5, "\\n"]
    rows, reasons = decode(decoder, [f'{{"k":{one}}}'.encode() for one in [*numbers, *(f'"{one}"' for one in texts)]])
    assert (rows[0], reasons) == (None, ["a value of it is a number outside the range of double", *[""] * 6])
    assert [one[0][1]["double"] for one in rows[1:5]] == ["0.0", "1e+300", "0.0", "0.0"]
    assert [one[0][1]["string"] for one in rows[5:]] == ["é" * 10**5, "\n"]


def test_documents_are_parsed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "BYTES_AT_ONCE", 256)
    texts = [json.dumps({"street": f"\t{row}" * 50, "lines": [f"é{row}"] * 3, "number": row}) for row in range(100)]
    rows, reasons = of_address(*texts)
    assert not any(reasons)
    assert [NOTHING | json.loads(text) for text in texts] == rows


def test_a_document_of_very_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_parts, "MOST_WORDS", 1 << 14)
    schema = {"type": "array", "items": ADDRESS}
    decoder = JsonDecoder.of_schema(json.dumps(schema))
    many = b"[" + b",".join([b"{}"] * 10_000) + b"]"
    rows, reasons = decode(decoder, [b'[{"street":"\\n"}]', many, b'[{"street":"\\t"}]'])
    assert reasons == ["", REASONS[Reason.TOO_LARGE], ""]
    assert [one and one[0]["street"] for one in rows] == ["\n", None, "\t"]


def test_times_are_whole_numbers() -> None:
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {"name": "of_day", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
    decoder = JsonDecoder.of_schema(json.dumps(schema))
    array, reasons = decoder.decode(
        *payloads([b'{"at":1,"day":2,"of_day":3,"price":1.50}', b'{"of_day":86400000}', b'{"at":"1970-01-01"}'])
    )
    wanted = {"at": pa.timestamp("ms", "UTC"), "day": pa.date32(), "of_day": pa.time32("ms"), "price": pa.string()}
    assert array.type == pa.struct(wanted)
    assert [decoder.explain(one) for one in reasons[1:]] == [
        "its field 'of_day' is not a time of day in milliseconds",
        "its field 'at' is not a time in milliseconds",
    ]
    fields = [array.field(name) for name in ("at", "day", "of_day")]
    assert [one.cast(pa.int32() if one.type.bit_width == 32 else pa.int64())[0].as_py() for one in fields] == [1, 2, 3]
    assert array[0]["price"].as_py() == "1.50"


def test_no_documents() -> None:
    assert of_address() == ([], [])
    assert of_address("", "") == ([None, None], ["it ends inside a field"] * 2)


def test_numbers_without_digits_are_real() -> None:
    texts = [b"NaN", b"-Infinity", b'"NaN"', b'"Infinity"', b'"NaN', b'"x"', b"-Inf", b"NaNs", b"-0.0"]
    rows, reasons = decode(JsonDecoder.of_schema('"double"'), texts)
    assert rows[:4] == ["nan", "-inf", "nan", "inf"]
    assert rows[8] == "-0.0"
    assert [bool(one) for one in reasons] == [False] * 4 + [True] * 4 + [False]


LIMITS = {"float": (1 << 128) - (1 << 103), "double": (1 << 1024) - (1 << 970)}
"""The smallest numbers that are rounded to infinity."""


@pytest.mark.parametrize("kind", LIMITS)
def test_numbers_too_large_for_their_type(kind: str) -> None:
    limit = LIMITS[kind]
    digits, size = str(limit), len(str(limit))
    below, zeros = str(limit - 1), "0" * 2_000_000
    too_large = [
        digits,
        f"-{digits}",
        f"{digits}.0",
        f"0.000{digits}e{size + 3}",
        f"{digits[0]}.{digits[1:]}E+{size - 1}",
        f"{digits}{zeros}e-2000000",
        f"0.{zeros}{digits}e{size + 2_000_000}",
        f"1e{size}",
        "1e400",
        "9" * 400,
        "1e99999999999999999999",
    ]
    fitting = [
        below,
        f"-{below}",
        f"{below}.999999",
        f"{digits[:18]}e{size - 18}",
        f"0.{below}e{size}",
        f"{below}{zeros}e-2000000",
        f"0.{zeros}{below}e{size + 2_000_000}",
        f"1e{size - 1}",
        "0e999",
        "0.000e400",
        f"{digits}e-1",
        "1e-99999999999999999999",
    ]
    rows, reasons = decode(JsonDecoder.of_schema(f'"{kind}"'), [one.encode() for one in (*too_large, *fitting)])
    assert reasons == [f"it is a number outside the range of {kind}"] * len(too_large) + [""] * len(fitting)
    assert rows[: len(too_large)] == [None] * len(too_large)
    assert not any("inf" in one for one in rows[len(too_large) :])


def test_types_that_json_is_not_read_as() -> None:
    twice = pa.struct([pa.field("a", pa.int64()), pa.field("a", pa.int64())])
    for kind in (pa.decimal128(3, 1), pa.uint64(), twice, pa.map_(pa.int64(), pa.string())):
        with pytest.raises(InvalidSchemaError):
            JsonDecoder.of_type(kind)


def test_zeros_and_negative_zeros_are_distinguished_by_one_search_of_a_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    text = Documents.text
    monkeypatch.setattr(Documents, "text", lambda self, row: looks.append(row) or text(self, row))
    decoder = JsonDecoder.of_type(pa.list_(pa.float64()))
    rows, _ = decode(decoder, [b"[0,0,-0.5,-1,0]", b"[0,-0,-0.0]", b"[1]"])
    assert [[str(one) for one in row] for row in rows] == [
        ["0.0", "0.0", "-0.5", "-1.0", "0.0"],
        ["0.0", "-0.0", "-0.0"],
        ["1.0"],
    ]
    # The second document is parsed again, and then the columns are made again of all.
    assert sorted(looks) == [0, 0, 1, 1]

"""JSON of columns of any type, against a slow writer in plain Python."""

import json

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs.errors import UnsupportedFormatError
from ledgerfs.messages.text.json_lines import json_lines
from ledgerfs.messages.text.json_typed import typed_values
from tests.support.each import for_each
from tests.support.typed_json import LEAVES, random_array, random_type, slow_json


def found(array: pa.Array) -> list[str | None]:
    texts: list[str | None] = typed_values(array).to_pylist()
    return texts


@for_each("kind", [*LEAVES, pa.time32("s"), pa.timestamp("s"), pa.timestamp("s", "UTC")])
def test_every_leaf(kind: pa.DataType) -> None:
    array = random_array(np.random.default_rng(1), kind, 500)
    assert found(array) == slow_json(array)
    assert found(array.slice(7, 100)) == slow_json(array.slice(7, 100))


@for_each("seed", range(60))
def test_columns_of_any_type_and_parts_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = random_array(rng, random_type(rng, 4), 60)
    for part in (array, array.slice(5, 40), array.slice(60)):
        assert found(part) == slow_json(part)
        for text in filter(None, found(part)):
            json.loads(text)


def test_lines_with_typed_values_and_with_their_fields() -> None:
    rng = np.random.default_rng(5)
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("lines", pa.list_(random_type(rng))),
            ("when", pa.timestamp("ns", "UTC")),
            ("blob", pa.binary(3)),
        ]
    )
    values = random_array(rng, kind, 300)
    batch = pa.RecordBatch.from_arrays([pa.array(range(300)), values], ["entry_id", "value"])
    lines = [f'{{"entry_id":{row},"value":{text or "null"}}}\n' for row, text in enumerate(slow_json(values))]
    assert bytes(json_lines(batch)).decode() == "".join(lines)
    assert bytes(json_lines(batch.slice(10, 20))).decode() == "".join(lines[10:30])
    flat = pa.RecordBatch.from_arrays(values.flatten(), ["id", "lines", "when", "blob"])
    said = [(text or "{}").replace('"blob":', '"blob_base64":') + "\n" for text in slow_json(values)]
    assert bytes(json_lines(flat)).decode() == "".join(said)


def test_numbers_keep_what_they_are() -> None:
    array = pa.array([1.0, -0.0, 0.1, 1e300, float("nan"), float("inf"), float("-inf"), 1e-7, None])
    assert found(array) == ["1.0", "-0.0", "0.1", "1e+300", '"NaN"', '"Infinity"', '"-Infinity"', "1e-7", None]
    assert found(pa.array([2**64 - 1, 0], pa.uint64())) == ["18446744073709551615", "0"]


def test_maps_with_keys_that_are_not_text() -> None:
    keys = pa.map_(pa.int32(), pa.float64())
    assert found(pa.array([[(1, 2.0), (-3, None)], [], None], keys)) == ['{"1":2.0,"-3":null}', "{}", None]
    nested = pa.map_(pa.struct([("a", pa.int8())]), pa.bool_())
    assert found(pa.array([[({"a": 1}, True)]], nested)) == ['[{"key":{"a":1},"value":true}]']


def test_a_type_that_no_value_has_is_an_error() -> None:
    with pytest.raises(UnsupportedFormatError, match="month_day_nano"):
        typed_values(pa.array([None], pa.month_day_nano_interval()))

"""Columns of any type as JSON, written slowly in plain Python, and random arrays of such types."""

import base64
import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.json_lines import year_of

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def slow_json(array: pa.Array) -> list[str | None]:
    """Return the JSON text of each value; None for null."""
    valid = array.is_valid().to_pylist()
    return [text if is_there else None for text, is_there in zip(_texts(array), valid, strict=True)]


def _texts(array: pa.Array) -> list[str]:
    kind = array.type
    if pa.types.is_null(kind):
        return [""] * len(array)
    if pa.types.is_struct(kind):
        columns = [slow_json(array.field(place)) for place in range(kind.num_fields)]
        return [_object(kind.names, [column[row] for column in columns]) for row in range(len(array))]
    if pa.types.is_map(kind):
        keys = [one if one.startswith('"') else f'"{one}"' for one in map(str, slow_json(array.keys))]
        pairs = [f"{key}:{item or 'null'}" for key, item in zip(keys, slow_json(array.items), strict=True)]
        return [f"{{{','.join(pairs[begin:end])}}}" for begin, end in _ranges(array)]
    if pa.types.is_list(kind):
        items = [one or "null" for one in slow_json(array.values)]
        return [f"[{','.join(items[begin:end])}]" for begin, end in _ranges(array)]
    if pa.types.is_temporal(kind):
        numbers = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return ["" if one is None else json.dumps(_moment(one, kind)) for one in numbers]
    return ["" if one is None else _leaf(one, kind) for one in array.to_pylist()]


def _ranges(array: pa.Array) -> list[tuple[int, int]]:
    offsets = array.offsets.to_pylist()
    return list(pairwise(offsets))


def _object(names: list[str], values: list[str | None]) -> str:
    there = [f"{_dumps(name)}:{value}" for name, value in zip(names, values, strict=True) if value is not None]
    return f"{{{','.join(there)}}}"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _leaf(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bytes):
        return _dumps(base64.b64encode(value).decode())
    if isinstance(value, Decimal):
        return _dumps(f"{value:f}")
    if isinstance(value, float) and not np.isfinite(value):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[repr(value)]
    if pa.types.is_float32(kind):
        # Arrow knows the fewest digits; that they mean the number is compared.
        text = str(pa.scalar(value, kind).cast(pa.string()))
        assert np.float32(text) == np.float32(value)
        return text if {".", "e"} & set(text) else f"{text}.0"
    if isinstance(value, float):
        return _same_digits(value)
    return _dumps(value)


def _same_digits(value: float) -> str:
    """Return Python's digits, with an exponent where Arrow has one."""
    text = str(pa.scalar(value).cast(pa.string()))
    assert float(text) == value
    assert len(text) <= len(repr(value)) + len("e+14")
    return text if {".", "e"} & set(text) else f"{text}.0"


def _moment(number: int, kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return _date(number)
    second, rest = divmod(number, PER_SECOND[kind.unit])
    nanoseconds = rest * 10**9 // PER_SECOND[kind.unit]
    fraction = f"{nanoseconds:09}"
    while len(fraction) > 3 and fraction.endswith("000"):
        fraction = fraction[:-3]
    days, of_day = (0, second) if pa.types.is_time(kind) else divmod(second, 86_400)
    clock = f"{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}.{fraction}"
    if pa.types.is_time(kind):
        return clock
    return f"{_date(days)}T{clock}{'' if kind.tz is None else 'Z'}"


def _date(days: int) -> str:
    year, known = year_of(days)
    text = f"{year:04}" if 0 <= year <= 9999 else f"{year:+07}"
    return f"{text}{known:-%m-%d}"


def random_type(rng: np.random.Generator, depth: int = 3) -> pa.DataType:
    """Return a type as values have them."""
    nested = depth > 0 and rng.random() < 0.5
    if not nested:
        return LEAVES[rng.integers(len(LEAVES))]
    match rng.integers(3):
        case 0:
            return pa.struct([(f'f"{i}', random_type(rng, depth - 1)) for i in range(rng.integers(4))])
        case 1:
            return pa.list_(random_type(rng, depth - 1))
        case _:
            return pa.map_(KEYS[rng.integers(len(KEYS))], random_type(rng, depth - 1))


KEYS = (pa.string(), pa.int64(), pa.bool_(), pa.uint32())
LEAVES = (
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.binary(3), pa.binary(0), pa.decimal128(20, 4), pa.decimal256(60, 30), pa.date32(),
    pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("ms", "UTC"), pa.timestamp("us"),
    pa.timestamp("ns", "UTC"),
)  # fmt: skip


def random_array(rng: np.random.Generator, kind: pa.DataType, rows: int, nulls: float = 0.2) -> pa.Array:
    """Return values of a type, some of them null, and some at the ends of what it holds."""
    mask = rng.random(rows) < nulls
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_struct(kind):
        parts = [random_array(rng, one.type, rows) for one in kind]
        bitmap = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
        return pa.Array.from_buffers(kind, rows, [bitmap], children=parts)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        # Some items lie where lists are null.
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, rows))]).astype(np.int32)
        if pa.types.is_map(kind):
            parts = [
                random_array(rng, kind.key_type, int(offsets[-1]), 0),
                random_array(rng, kind.item_type, int(offsets[-1])),
            ]
            inner = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
        else:
            inner = random_array(rng, kind.value_type, int(offsets[-1]))
        bitmap = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(offsets)], children=[inner])
    return _random_leaves(rng, kind, rows, mask)


def _random_leaves(rng: np.random.Generator, kind: pa.DataType, rows: int, mask: np.ndarray) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(rows) < 0.5, mask=mask)
    if pa.types.is_floating(kind):
        some = np.array([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e300, 0.1, 123456789.0, -2.5e-30])[
            rng.integers(0, 10, rows)
        ]
        with np.errstate(over="ignore"):
            return pa.array(
                np.where(rng.random(rows) < 0.5, some, rng.normal(size=rows)).astype(kind.to_pandas_dtype()), mask=mask
            )
    if pa.types.is_string(kind):
        words = ["", "a", 'q"\\\n', "é漢😀", "\x00", "x" * 40]
        return pa.array(
            [None if no else words[one] for one, no in zip(rng.integers(0, 6, rows), mask, strict=True)], kind
        )
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        fixed = pa.types.is_fixed_size_binary(kind)
        sizes = np.full(rows, kind.byte_width) if fixed else rng.integers(0, 9, rows)
        return pa.array([None if no else rng.bytes(int(size)) for size, no in zip(sizes, mask, strict=True)], kind)
    if pa.types.is_decimal(kind):
        numbers = rng.integers(-(10**15), 10**15, rows)
        values = [None if no else Decimal(int(one)).scaleb(-kind.scale) for one, no in zip(numbers, mask, strict=True)]
        return pa.array(values, kind)
    return _random_integers(rng, kind, rows, mask)


def _random_integers(rng: np.random.Generator, kind: pa.DataType, rows: int, mask: np.ndarray) -> pa.Array:
    of_time = pa.types.is_temporal(kind)
    number = (
        {32: np.dtype(np.int32), 64: np.dtype(np.int64)}[kind.bit_width]
        if of_time
        else np.dtype(kind.to_pandas_dtype())
    )
    info = np.iinfo(number)
    numbers = rng.integers(info.min, info.max, rows, dtype=number, endpoint=True)
    small = rng.random(rows) < 0.5
    numbers[small] = rng.integers(0, 100, int(small.sum())).astype(number)
    numbers[rng.random(rows) < 0.1] = info.min
    numbers[rng.random(rows) < 0.1] = info.max
    if pa.types.is_time(kind):
        numbers %= 86_400 * PER_SECOND[kind.unit]
    return pa.array(numbers, mask=mask).view(kind)

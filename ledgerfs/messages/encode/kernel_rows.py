"""Rows as input of the kernels in `encode_kernels`: arrays over Arrow's own buffers, copying only the offsets of maps.

A column of bytes is (data, offsets, valid); a missing column has no valid row.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

KernelRows = tuple[Any, ...]
"""value, key, ordering key, producer name, schema version, origin as columns of bytes; (publish time, sequence id, event time, delivery
time); (first pair of each row, has pairs, keys, values); whether keys are base64; the producer name of rows without one."""

_TEXTS = ("value", "key", "ordering_key", "producer_name", "schema_version", "replicated_from")


def kernel_rows(rows: pa.RecordBatch, first_row: int, publish_time_ms: int, producer_name: bytes) -> KernelRows:
    """Return the rows of a batch that `InputColumns.plain` made.

    Parameters
    ----------
    rows
        The rows.
    first_row
        Number of the first row: rows without a sequence id get their number.
    publish_time_ms, producer_name
        For rows without them.

    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    is_base64 = np.zeros(rows.num_rows, np.bool_)
    if "key_bytes" in columns:
        encoded = columns.pop("key_bytes")
        is_base64 = _valid(encoded)
        columns["key"] = encoded if "key" not in columns else _either(encoded, columns["key"])
    return (
        *(_text(columns.get(name), rows.num_rows) for name in _TEXTS),
        (
            _numbers(columns.get("publish_time"), np.full(rows.num_rows, publish_time_ms, np.int64)),
            _numbers(columns.get("sequence_id"), np.arange(first_row, first_row + rows.num_rows)),
            _numbers(columns.get("event_time"), np.zeros(rows.num_rows, np.int64)),
            _numbers(columns.get("deliver_at_time"), np.zeros(rows.num_rows, np.int64)),
        ),
        _pairs(columns.get("properties"), rows.num_rows),
        _read_only(is_base64),
        _read_only(np.frombuffer(producer_name, np.uint8)),
    )


def publish_times_of_rows(rows: KernelRows) -> npt.NDArray[np.int64]:
    """Return the publish time of each row, ms."""
    times: npt.NDArray[np.int64] = rows[6][0]
    return times


def value_sizes(rows: KernelRows) -> npt.NDArray[np.int64]:
    """Return how many bytes each value has."""
    _, offsets, valid = rows[0]
    sizes: npt.NDArray[np.int64] = np.where(valid, np.diff(offsets), 0)
    return sizes


def _either(one: pa.Array, other: pa.Array) -> pa.Array:
    return one if other.null_count == len(other) else pc.coalesce(one, other)


def _text(column: pa.Array | None, count: int) -> KernelRows:
    if column is None:
        return _NO_BYTES, _read_only(np.zeros(1, np.int64)), _read_only(np.zeros(count, np.bool_))
    offsets = (
        np.frombuffer(column.buffers()[1], np.int64, count + 1, 8 * column.offset) if count else np.zeros(1, np.int64)
    )
    return _bytes(column), _read_only(offsets), _read_only(_valid(column))


def _bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    data = column.buffers()[2]
    return _NO_BYTES if data is None or not data.size else _read_only(np.frombuffer(data, np.uint8))


def _numbers(column: pa.Array | None, default: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if column is None:
        return _read_only(default)
    numbers = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset) if len(column) else default
    return _read_only(np.where(_valid(column), numbers, default) if column.null_count else numbers)


def _pairs(column: pa.Array | None, count: int) -> KernelRows:
    if column is None:
        return _read_only(np.zeros(1, np.int64)), _read_only(np.zeros(count, np.bool_)), _text(None, 0), _text(None, 0)
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    offsets = column.offsets.to_numpy().astype(np.int64) - first
    keys, items = (
        _text(texts.slice(first, last - first).cast(pa.large_binary()), last - first)
        for texts in (column.keys, column.items)
    )
    return _read_only(offsets), _read_only(_valid(column)), keys, items


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array in the one type that kernels are compiled for."""
    array.flags.writeable = False
    return array


_NO_BYTES = _read_only(np.zeros(0, np.uint8))

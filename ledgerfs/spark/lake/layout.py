"""The folders of a lake, named by the values of columns as in Hive and Spark: ``topic=…/date=2026-11-01``.

Messages are sorted by numbers, a whole batch at a time; a text is made for each folder, not for each message.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64

PARTITION_COLUMNS = ("topic", "date", "hour", "partition", "ledger_id", "producer_name")
"""Columns that folders may be named by; date and hour are those of ``publish_time``, UTC, and not columns of the files."""

_OF_TIME = ("date", "hour")
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("[\x01-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


@dataclass(frozen=True, slots=True)
class LakeLayout:
    """The columns that folders are named by, outermost first.

    Raises
    ------
    InvalidOptionError
        A column that folders cannot be named by, a column named twice, an hour without its date.

    """

    partition_by: tuple[str, ...]

    def __post_init__(self) -> None:
        for number, name in enumerate(self.partition_by):
            if name not in PARTITION_COLUMNS:
                raise InvalidOptionError(f"folders are named by {', '.join(PARTITION_COLUMNS)}", key=name)
            if name in self.partition_by[:number]:
                raise InvalidOptionError("folders are named by a column once", key=name)
            if name == "hour" and "date" not in self.partition_by[:number]:
                raise InvalidOptionError("an hour goes below its date", key=name)

    def columns_of_files(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are not in the names of folders; raises `InvalidOptionError` if none is left."""
        left = tuple(name for name in columns if name not in self.partition_by)
        if not left:
            raise InvalidOptionError("no column is left for the files", key=", ".join(columns) or "columns")
        return left

    def columns_to_read(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the files, and those that folders are named by."""
        needed = ("publish_time" if name in _OF_TIME else name for name in self.partition_by)
        return tuple(dict.fromkeys((*columns, *needed)))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Int64 | None]]:
        """Yield each folder of a batch, in order of the first message in it, and which rows go there; None for all of them."""
        codes = [_codes(name, batch) for name in self.partition_by]
        codes = [code for code in codes if (code != code[0]).any()] if batch.num_rows else []
        if not codes:
            yield self._folder(batch, 0), None
            return
        _, firsts, numbers = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
        order = np.argsort(numbers.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(numbers.reshape(-1)))
        for number in np.argsort(firsts).tolist():
            rows = order[ends[number - 1] if number else 0 : ends[number]]
            yield self._folder(batch, int(firsts[number])), rows

    def _folder(self, batch: pa.RecordBatch, row: int) -> str:
        return "/".join(f"{name}={_escaped(_text(name, batch, row))}" for name in self.partition_by)


def _codes(name: str, batch: pa.RecordBatch) -> Int64:
    """Return for each row the number of its folder, different for each."""
    if name in _OF_TIME:
        # The date is in the number, so hours of different days differ.
        times: Int64 = batch["publish_time"].view(pa.int64()).to_numpy()
        return times // (_DAY_US if name == "date" else _HOUR_US)
    column = batch[name]
    if pa.types.is_string(column.type):
        column = column.dictionary_encode().indices
    codes: Int64 = pc.fill_null(column.cast(pa.int64()), -1).to_numpy()
    return codes


def _text(name: str, batch: pa.RecordBatch, row: int) -> str | None:
    if name in _OF_TIME:
        moment = batch["publish_time"].view(pa.int64())[row].as_py()
        return str(np.datetime64(moment // _DAY_US, "D")) if name == "date" else f"{moment % _DAY_US // _HOUR_US:02d}"
    value = batch[name][row].as_py()
    return None if value is None else str(value)


def _escaped(value: str | None) -> str:
    """Return a value as Spark writes it into a path; null and the empty text are the same there."""
    if not value:
        return _NULL
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)

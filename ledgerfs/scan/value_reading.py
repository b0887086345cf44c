"""Values of one iteration of a scan: the batches of the message table with columns for the bytes of values.

What cannot be decoded is null, left out or an error, and counted by version and reason.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ledgerfs.errors import UndecodableValueError
from ledgerfs.formats.array_types import Mask
from ledgerfs.scan.shown_values import IDENTITY, Decoding, Failure, ShownValues


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Values of one version that could not be decoded for one reason.

    Attributes
    ----------
    version
        The number that the messages name; None for none.
    reason
        Why, in words that follow the name of a message.
    count
        How many there were.
    first
        The id of the first in the order of the rows, ``ledger:entry`` or ``ledger:entry:index``; of several partitions, in the first of
        these that has one.
    is_error
        False for values that no schema is named for: they are null, and no error.

    """

    version: int | None
    reason: str
    count: int
    first: str
    is_error: bool = True


@dataclass(slots=True)
class ValueReading:
    """The values of one iteration.

    Attributes
    ----------
    shown
        How they are shown.
    wanted
        Columns of the message table, in their order.
    undecodable
        What could not be decoded; this adds to it.

    """

    shown: ShownValues
    wanted: tuple[str, ...]
    undecodable: list[Undecodable]
    schema: pa.Schema = field(init=False)
    _decode: Decoding = field(init=False)

    def __post_init__(self) -> None:
        self.schema = self.shown.schema_for(self.wanted)
        self._decode = self.shown.source.decoding()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted columns of a batch; raises `UndecodableValueError` if that is wanted."""
        values, failures = self._decode(batch)
        keep = self._told(failures, batch)
        arrays: list[pa.Array] = []
        for name in self.wanted:
            arrays += self.shown.columns_of(values) if name == "value" else [batch[name]]
        if not arrays:
            # A struct without fields, which is flattened: rows without columns are rows, too.
            return (batch if keep is None else batch.filter(pa.array(keep))).select([])
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return made if keep is None else made.filter(pa.array(keep))

    def _told(self, failures: Sequence[Failure], batch: pa.RecordBatch) -> Mask | None:
        """Count what could not be decoded; return the rows to keep if some are left out."""
        on_undecodable = self.shown.on_undecodable
        errors = [(int(one.rows[0]), one.reason) for one in failures if one.is_error]
        if errors and on_undecodable == "raise":
            row, reason = min(errors)
            raise UndecodableValueError.of(_message_id(batch, row), reason)
        # They come by their schemas; two of these may have one number and one reason.
        for one in sorted(failures, key=lambda one: int(one.rows[0])):
            first = _message_id(batch, int(one.rows[0]))
            add_undecodable(self.undecodable, Undecodable(one.version, one.reason, one.rows.size, first, one.is_error))
        if not errors or on_undecodable != "skip":
            return None
        keep = np.ones(batch.num_rows, bool)
        for one in failures:
            if one.is_error:
                keep[one.rows] = False
        return keep


def _message_id(batch: pa.RecordBatch, row: int) -> str:
    ledger, entry, index = (batch[name][row].as_py() for name in IDENTITY)
    return f"{ledger}:{entry}" if index is None else f"{ledger}:{entry}:{index}"


def counts_of(undecodable: Iterable[Undecodable]) -> tuple[int, int]:
    """Return how many errors there are, and how many values that no schema is named for."""
    errors = unnamed = 0
    for one in undecodable:
        errors += one.count * one.is_error
        unnamed += one.count * (not one.is_error)
    return errors, unnamed


def add_undecodable(undecodable: list[Undecodable], new: Undecodable) -> None:
    """Add to those of its version and reason."""
    for place, one in enumerate(undecodable):
        if (one.version, one.reason, one.is_error) == (new.version, new.reason, new.is_error):
            undecodable[place] = replace(one, count=one.count + new.count)
            return
    undecodable.append(new)

"""The first rows of a scan with their values as columns; no value of any other row is decoded, or told of."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.partitioned_scan import PartitionedScan
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.shown_values import ShownValues
from ledgerfs.scan.value_reading import ValueReading


@dataclass(slots=True)
class FirstRows:
    """A table of the first rows, which is read by its iteration.

    Attributes
    ----------
    scan
        What is read: values are bytes, and the columns those of `ShownValues.columns_for`.
    wanted
        Columns of the message table, in their order.
    shown
        How values are shown.
    rows
        How many rows the table has at most.
    """

    scan: Scan | PartitionedScan
    wanted: tuple[str, ...]
    shown: ShownValues
    rows: int
    _of_values: list[Undecodable] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.shown.schema_for(self.wanted)

    @property
    def undecodable(self) -> list[Undecodable]:
        """After an iteration: which values and times could not be decoded."""
        return [*self._of_values, *self.scan.undecodable]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._of_values = []
        reading, left = ValueReading(self.shown, self.wanted, self._of_values), self.rows
        batches = iter(self.scan)
        while left > 0 and (batch := next(batches, None)) is not None:
            at = 0
            while at < batch.num_rows and left > 0:
                part = batch.slice(at, left)
                made = reading(part)
                at, left = at + part.num_rows, left - made.num_rows
                yield made

"""Decode values in one iteration of a scan: batches of the message table with columns for the bytes of values.

Values that cannot be decoded are null, skipped or an error, and counted by version and reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.errors import UndecodableValueError
from ledgerfs.formats.array_types import Mask
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable, message_id
from ledgerfs.scan.shown_values import IDENTITY, Decoding, Failure, ShownValues


@dataclass(slots=True)
class ValueReading:
    """The values of one iteration.

    Attributes
    ----------
    shown
        The value format.
    undecodable
        Values that could not be decoded; this adds to it.

    """

    shown: ShownValues
    undecodable: list[Undecodable]
    _decode: Decoding = field(init=False)

    def __post_init__(self) -> None:
        self._decode = self.shown.source.decoding()

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, Mask | None]:
        """Return the values of a batch, and a mask of the rows to keep, None for all; raises `UndecodableValueError` if so configured."""
        values, failures = self._decode(batch)
        return values, self._kept(failures, batch)

    def _kept(self, failures: Sequence[Failure], batch: pa.RecordBatch) -> Mask | None:
        """Count values that could not be decoded; return the rows to keep if some are skipped."""
        on_undecodable = self.shown.on_undecodable
        errors = [(int(one.rows[0]), one.reason) for one in failures if one.is_error]
        if errors and on_undecodable == "raise":
            row, reason = min(errors)
            raise UndecodableValueError.of(_message_id(batch, row), reason)
        # Failures are sorted by schema; two schemas may have one number and one reason.
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
    return message_id(*(batch[name][row].as_py() for name in IDENTITY))

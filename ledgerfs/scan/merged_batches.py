"""Merge several streams of rows into one by publish time; the rows of each stream keep their order.

The next row is always the one with the least publish time among the streams' next rows; of equal ones, that of the first stream. So a row
that was published before the previous row of its stream directly follows that row: its order is the greatest publish time up to it. By
these times each stream is ascending, so whole windows are merged at once: no earlier row can follow up to the least of the times at which
the windows end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Int64

_MOST_BYTES = 64 << 20
"""Most bytes of rows to join at once: a larger batch is yielded in parts, so that no column comes near its limit of 2 GiB."""

_LONG_RUN = 256
"""If runs of rows of one stream have this length on average, they are yielded without a copy."""


def merged_by_publish_time(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of streams, which need the column ``publish_time``; one batch of each stream is held at a time."""
    windows = [window for window in map(_Window, streams) if window.refill()]
    while len(windows) > 1:
        last = min(range(len(windows)), key=lambda number: windows[number].times[-1])
        until = windows[last].times[-1]
        # Rows of later streams have to wait for rows of this one with the same time.
        taken = [window.take(until, including=number <= last) for number, window in enumerate(windows)]
        yield from _interleaved([rows for rows, _ in taken], np.concatenate([times for _, times in taken]))
        windows = [window for window in windows if window.times.size or window.refill()]
    for window in windows:
        yield window.rows
        yield from window.stream


@dataclass(slots=True)
class _Window:
    """Rows of a stream that are read and not yielded yet.

    Attributes
    ----------
    times
        The greatest publish time up to each row, µs since 1970.

    """

    stream: Iterator[pa.RecordBatch]
    rows: pa.RecordBatch | None = None
    times: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    latest: int = -(2**63)

    def refill(self) -> bool:
        """Read the next batch with rows; return whether there is one."""
        for batch in self.stream:
            if batch.num_rows:
                times = batch.column("publish_time").cast(pa.int64()).to_numpy()
                self.rows, self.times = batch, np.maximum(np.maximum.accumulate(times), self.latest)
                self.latest = int(self.times[-1])
                return True
        return False

    def take(self, until: int, *, including: bool) -> tuple[pa.RecordBatch, Int64]:
        """Take the rows before a time, or up to and including it."""
        count = int(np.searchsorted(self.times, until, side="right" if including else "left"))
        assert self.rows is not None  # noqa: S101  (refilled)
        taken = self.rows.slice(0, count), self.times[:count]
        self.rows, self.times = self.rows.slice(count), self.times[count:]
        return taken


def _interleaved(parts: Sequence[pa.RecordBatch], times: Int64) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all parts by ``times``, which are those of one part after the other; equal times in the order of the parts."""
    owners = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])[np.argsort(times, kind="stable")]
    given = np.zeros(len(parts), np.int64)
    pending = [owners]
    while pending:
        rows = pending.pop()
        counts = np.bincount(rows, minlength=len(parts))
        # Each part ascends, so its next rows are contiguous.
        slices = [
            part.slice(start, count) for part, start, count in zip(parts, given.tolist(), counts.tolist(), strict=True)
        ]
        if rows.size > 1 and sum(one.nbytes for one in slices if one.num_rows) > _MOST_BYTES:
            pending += [rows[rows.size // 2 :], rows[: rows.size // 2]]
            continue
        given += counts
        begins = np.append(0, np.flatnonzero(np.diff(rows)) + 1)
        if begins.size * _LONG_RUN <= rows.size or begins.size <= 1:
            yield from _runs(slices, rows, begins)
        else:
            yield _mixed(slices, rows)


def _runs(parts: Sequence[pa.RecordBatch], owners: Int64, begins: Int64) -> Iterator[pa.RecordBatch]:
    """Yield rows of parts as slices; ``owners`` has the part of each row, ``begins`` the rows where that changes."""
    given = [0] * len(parts)
    for owner, length in zip(owners[begins].tolist(), np.diff(np.append(begins, owners.size)).tolist(), strict=True):
        yield parts[owner].slice(given[owner], length)
        given[owner] += length


def _mixed(parts: Sequence[pa.RecordBatch], owners: Int64) -> pa.RecordBatch:
    """Return rows of parts as one batch; ``owners`` has the part of each row."""
    places = np.empty(owners.size, np.int64)
    places[np.argsort(owners, kind="stable")] = np.arange(owners.size)
    table = pa.Table.from_batches([part for part in parts if part.num_rows]).combine_chunks()
    (batch,) = table.to_batches()
    return batch.take(pa.array(places))

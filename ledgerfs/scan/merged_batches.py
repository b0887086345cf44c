"""Several streams of rows merged into one by publish time; no row of a stream ever passes another one of the same stream.

The next row is always the one published first of the streams' next rows, and of equal ones that of the first such stream. A row whose
publish time is before that of a row ahead of it so comes directly behind that: it counts as published when the latest of all rows up to it
was. By these times each stream ascends, so whole windows are merged at once: up to the least of the times that the windows end with,
nothing can come any more that belongs before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Int64

_MOST_BYTES = 64 << 20
"""Of rows that are put together at once: a batch of more is given in parts, so that no column comes near the 2 GiB that it may have."""

_LONG_RUN = 256
"""Rows of one stream in succession that are given as they are, uncopied, where they are so many on average."""


def merged_by_publish_time(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of streams that have the column ``publish_time``; of each stream one batch is held at a time."""
    windows = [window for window in map(_Window, streams) if window.refill()]
    while len(windows) > 1:
        last = min(range(len(windows)), key=lambda number: windows[number].times[-1])
        until = windows[last].times[-1]
        # Equal times in streams behind this one have to wait for those that this one still may have.
        taken = [window.take(until, including=number <= last) for number, window in enumerate(windows)]
        yield from _interleaved([rows for rows, _ in taken], np.concatenate([times for _, times in taken]))
        windows = [window for window in windows if window.times.size or window.refill()]
    for window in windows:
        yield window.rows
        yield from window.stream


@dataclass(slots=True)
class _Window:
    """What was read of a stream and is not given yet.

    Attributes
    ----------
    times
        Of each row the greatest publish time up to it, µs since 1970.

    """

    stream: Iterator[pa.RecordBatch]
    rows: pa.RecordBatch | None = None
    times: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    latest: int = -(2**63)

    def refill(self) -> bool:
        """Read the next batch that has rows; return whether there is one."""
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
    """Yield the rows of all parts by ``times``, those of one part after the other; equal ones come in the order of the parts."""
    owners = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])[np.argsort(times, kind="stable")]
    given = np.zeros(len(parts), np.int64)
    pending = [owners]
    while pending:
        rows = pending.pop()
        counts = np.bincount(rows, minlength=len(parts))
        # Each part ascends, so what comes next of it stands side by side.
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
    """Yield rows of parts as slices of these; ``owners`` tells of each row which part has it, ``begins`` where that changes."""
    given = [0] * len(parts)
    for owner, length in zip(owners[begins].tolist(), np.diff(np.append(begins, owners.size)).tolist(), strict=True):
        yield parts[owner].slice(given[owner], length)
        given[owner] += length


def _mixed(parts: Sequence[pa.RecordBatch], owners: Int64) -> pa.RecordBatch:
    """Return rows of parts as one batch; ``owners`` tells of each row which part has it."""
    places = np.empty(owners.size, np.int64)
    places[np.argsort(owners, kind="stable")] = np.arange(owners.size)
    table = pa.Table.from_batches([part for part in parts if part.num_rows]).combine_chunks()
    (batch,) = table.to_batches()
    return batch.take(pa.array(places))

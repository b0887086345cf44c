"""Streams of rows merged by publish time, against the plainest of all merges."""

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.scan import merged_batches
from ledgerfs.scan.merged_batches import merged_by_publish_time

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("publish_time", TIME, nullable=False),
        pa.field("value", pa.binary()),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
    ]
)
Row = tuple[int, bytes]


def batches(rows: Sequence[Row], sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of these sizes, over and over; 0 is a batch without rows."""
    at, number = 0, 0
    while at < len(rows):
        size = sizes[number % len(sizes)]
        part = rows[at : at + size]
        columns = [
            pa.array([time for time, _ in part], pa.int64()).cast(TIME),
            pa.array([value for _, value in part], pa.binary()),
            pa.array([[("of", value.decode())] for _, value in part], SCHEMA.field("properties").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        at, number = at + size, number + 1


def merged(streams: Sequence[Sequence[Row]]) -> list[Row]:
    """Take the next row of that stream of which it was published first."""
    waiting = [list(stream) for stream in streams]
    found = []
    while any(waiting):
        first = min((stream[0][0], number) for number, stream in enumerate(waiting) if stream)
        found.append(waiting[first[1]].pop(0))
    return found


def rows_of(found: Sequence[pa.RecordBatch]) -> list[Row]:
    table = pa.Table.from_batches(found, SCHEMA)
    table.validate(full=True)
    values = table["value"].to_pylist()
    assert [dict(one)["of"].encode() for one in table["properties"].to_pylist()] == values
    return list(zip(table["publish_time"].cast(pa.int64()).to_pylist(), values, strict=True))


TIMES = st.lists(st.integers(0, 12), max_size=30)


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(
    times=st.lists(TIMES, max_size=5),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    most_bytes=st.sampled_from([1, 200, 1 << 20]),
    long_run=st.sampled_from([1, 2, 256]),
)
def test_each_next_row_is_the_earliest_of_the_next_rows(
    times: list[list[int]], sizes: list[int], most_bytes: int, long_run: int
) -> None:
    """Also where times go back within a stream, are equal, and batches are cut in parts by their bytes."""
    streams = [[(time, b"%d:%d" % (n, i)) for i, time in enumerate(one)] for n, one in enumerate(times)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_batches, "_MOST_BYTES", most_bytes)
        patch.setattr(merged_batches, "_LONG_RUN", long_run)
        found = list(merged_by_publish_time([batches(one, sizes) for one in streams]))
    assert rows_of(found) == merged(streams)


def test_of_each_stream_one_batch_is_held_at_a_time() -> None:
    source = random.Random(1)
    read = [0, 0, 0]

    def stream(number: int) -> Iterator[pa.RecordBatch]:
        times = sorted(source.randrange(1 << 30) for _ in range(5000))
        for batch in batches([(time, b"%d" % number) for time in times], [100]):
            read[number] += batch.num_rows
            yield batch

    given_rows = 0
    for batch in merged_by_publish_time([stream(number) for number in range(3)]):
        given_rows += batch.num_rows
        assert sum(read) - given_rows <= 300
    assert given_rows == 15_000


def test_rows_that_no_column_could_hold_together_are_given_apart() -> None:
    """Every two of these rows are more than the 64 MiB that are put together at once."""
    large = b"x" * (40 << 20)
    streams = [[(time, large) for time in range(number, 8, 2)] for number in range(2)]
    schema = SCHEMA.remove(2)

    def stream(rows: list[Row]) -> Iterator[pa.RecordBatch]:
        times = pa.array([time for time, _ in rows], pa.int64()).cast(TIME)
        yield pa.RecordBatch.from_arrays([times, pa.array([value for _, value in rows], pa.binary())], schema=schema)

    found = list(merged_by_publish_time([stream(rows) for rows in streams]))
    assert [batch.num_rows for batch in found] == [1] * 8
    assert [batch["publish_time"].cast(pa.int64()).to_pylist() for batch in found] == [[time] for time in range(8)]

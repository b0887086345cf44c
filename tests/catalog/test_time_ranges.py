"""Ranges of time in topics of any history: a broker's ledgers, imported ones, copies, under ids in any order of their times."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partition_plan import plan_partitions, within
from ledgerfs.bucket.topic import Topic
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.catalog.ledger_times import TimeRange
from ledgerfs.export.export import export_topic
from ledgerfs.scan import time_pruning
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder

NAME = "persistent://public/default/orders"
COLUMNS = ["ledger_id", "entry_id", "publish_time"]
SLACK = 500


def message(time_ms: int) -> bytes:
    return frame(metadata(publish_time_ms=time_ms), b"x" * 40)


def imported(times: list[int], ledger_id: int, **options: Any) -> Offload:
    """Return a ledger as an import makes it: no bookies, created when its earliest message was published."""
    return offload(
        [message(time) for time in times], ledger_id, uuid=ledger_id + 1, created_ms=min(times), bookies=(), **options
    )


def topic_of(url: str) -> Topic:
    return open_bucket(url).topic(NAME)


def in_range(table: pa.Table, start: int | None, end: int | None) -> pa.Table:
    times = table["publish_time"].cast(pa.int64()).to_pylist()
    inside = [(start is None or t >= start * 1000) and (end is None or t < end * 1000) for t in times]
    return table.filter(pa.array(inside, pa.bool_()))


class History:
    """Makes the ledgers of a topic: those of one broker, nearly in order, and others in any order of any time between them."""

    def __init__(self, seed: int, size: int) -> None:
        self.draw = random.Random(seed)
        self.now = CREATED_MS
        self.times: list[int] = []
        self.ledgers = [self.ledger(number) for number in range(size)]

    def ledger(self, number: int) -> Offload:
        block_size = self.draw.choice((300, 700, 100_000))
        kind = self.draw.choice(("broker", "broker", "import", "copy"))
        if kind == "broker":
            begun = self.now = self.now + self.draw.choice((0, 1, 3000))
            times, created = self.of_broker(), begun if self.draw.random() < 0.8 else None
        else:
            times = [CREATED_MS + self.draw.randint(0, 40_000) for _ in range(self.draw.randint(1, 20))]
            created = min(times) if kind == "import" else None
        self.times += times
        entries = [message(time) for time in times]
        bookies = ("127.0.0.1:3181",) if kind == "broker" else ()
        return offload(entries, number, uuid=number + 1, created_ms=created, bookies=bookies, block_size=block_size)

    def of_broker(self) -> list[int]:
        """Return times from `now` on, which goes on with them, out of order by no more than the slack."""
        times = []
        for _ in range(self.draw.randint(1, 20)):
            self.now += self.draw.choice((0, 1, 400))
            times.append(self.now + self.draw.randint(0, SLACK))
        return times


def parts_of(bucket: Bucket, start: int | None, end: int | None, size: int) -> Iterator[pa.Table]:
    wanted = within(bucket.catalog, wanted_ledgers(bucket.catalog), TimeRange(start, end, SLACK))
    for part in plan_partitions(bucket.catalog, wanted, size):
        for run in part.runs:
            yield run.scan(bucket, columns=COLUMNS, start_time=start, end_time=end, clock_slack_ms=SLACK).to_table()


@pytest.mark.long
@settings(max_examples=30)
@given(data=st.data())
def test_a_range_is_the_whole_topic_filtered(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a scan, a count, each size of parts that Spark plans, and an export."""
    history = History(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 6)))
    folder = tmp_path_factory.mktemp("made")
    topic = topic_of(put_in_folder(folder, *history.ledgers))
    near = st.builds(int.__add__, st.sampled_from(history.times), st.sampled_from((0, 1, -SLACK, SLACK)))
    moments = st.one_of(st.none(), near, st.integers(CREATED_MS - 100, CREATED_MS + 41_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_pruning, "_WORTH_A_GLANCE", data.draw(st.sampled_from((0, 2000))))
        whole = topic.scan(COLUMNS).to_table()
        for number in range(3):
            start, end = data.draw(moments), data.draw(moments)
            expected = in_range(whole, start, end)
            scan = topic.scan(COLUMNS, start_time=start, end_time=end, clock_slack_ms=SLACK)
            assert scan.to_table() == expected
            assert scan.count() == expected.num_rows
            parts = list(parts_of(topic.bucket, start, end, data.draw(st.sampled_from((1, 2000, 1 << 30)))))
            assert pa.concat_tables([expected.slice(0, 0), *parts]) == expected
            if not number:
                options = {"columns": COLUMNS, "start_time": start, "end_time": end, "clock_slack_ms": SLACK}
                report = export_topic(topic, folder / "out", "parquet", **options)
                files = sorted((folder / "out").glob("*.parquet"), key=lambda path: int(path.stem))
                assert pa.concat_tables([expected.slice(0, 0), *map(pq.read_table, files)]) == expected
                assert report.rows == expected.num_rows

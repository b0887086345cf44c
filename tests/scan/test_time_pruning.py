"""Ranges of time: what is left unread never has a row of them, and much is left unread.

Topics have any history: a broker's ledgers, imported ones, copies, under ids in any order of their times.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.topic_entries import Reach
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder
from tests.support.scans import part_of, scan_of_run
from tests.support.stores import CountingStore, counting_bucket

COLUMNS = ["ledger_id", "entry_id", "publish_time", "value", "txn_state"]
SLACK = 500
COMMIT, ABORT = 21, 22


def message(time_ms: int, payload: bytes = b"", **fields: object) -> bytes:
    return frame(metadata(publish_time_ms=time_ms, **fields), payload)


def topic_of(url: str) -> Topic:
    return open_bucket(url).topic("public/default/orders")


def in_range(table: pa.Table, start: int | None, end: int | None) -> pa.Table:
    times = table["publish_time"].cast(pa.int64()).to_pylist()
    inside = [(start is None or t >= start * 1000) and (end is None or t < end * 1000) for t in times]
    return table.filter(pa.array(inside, pa.bool_()))


@dataclass
class Writer:
    """Makes entries of nearly ordered times: whole messages, chunks of several messages, transactions and their ends.

    Between the ledgers of that broker are others, of messages of any time: imported ones have no bookies, and were created when their
    earliest message was published.
    """

    draw: random.Random
    now: int = CREATED_MS
    sent: int = 0
    times: list[int] = field(default_factory=list)
    chunks: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    transactions: list[int] = field(default_factory=list)

    def time(self) -> int:
        self.times.append(self.now + self.draw.choice((0, SLACK, self.draw.randint(0, SLACK))))
        return self.times[-1]

    def entry(self) -> bytes:
        self.now += self.draw.choice((0, 1, 20, 400))
        self.sent += 1
        payload = bytes(self.draw.randrange(256) for _ in range(self.draw.choice((0, 10, 100))))
        kind = self.draw.random()
        if kind < 0.2:
            return self.chunk(payload)
        if kind < 0.4:
            return self.of_transaction(payload)
        return message(self.time(), payload)

    def chunk(self, payload: bytes) -> bytes:
        if len(self.chunks) < 2:
            self.chunks[b"chunked-%d" % self.sent] = (0, self.draw.randint(2, 4))
        identity = self.draw.choice(sorted(self.chunks))
        number, count = self.chunks.pop(identity)
        if number + 1 < count:
            self.chunks[identity] = (number + 1, count)
        return message(self.time(), payload, chunked_id=identity, chunk=number, chunks=count)

    def of_transaction(self, payload: bytes) -> bytes:
        if len(self.transactions) < 2:
            self.transactions.append(self.sent)
        number = self.draw.choice(self.transactions)
        fields: dict[str, object] = {"transaction_least": number, "transaction_most": 1}
        if self.draw.random() < 0.3:
            self.transactions.remove(number)
            return message(self.time(), marker_type=self.draw.choice((COMMIT, ABORT)), **fields)
        return message(self.time(), payload, **fields)

    def ledger(self, number: int) -> Offload:
        kind = self.draw.choice(("broker", "broker", "import", "copy"))
        if kind == "broker":
            created = self.time() if self.draw.random() < 0.7 else None
            entries = [self.entry() for _ in range(self.draw.randint(1, 40))]
        else:
            times = [CREATED_MS + self.draw.randint(0, 40_000) for _ in range(self.draw.randint(1, 20))]
            created = min(times) if kind == "import" else None
            entries = [message(time, b"x" * 40) for time in times]
            self.times += times
        block_size = self.draw.choice((400, 900, 100_000))
        bookies = ("127.0.0.1:3181",) if kind == "broker" else ()
        return offload(entries, number, uuid=number, created_ms=created, block_size=block_size, bookies=bookies)


def parts_of_spark(bucket: Bucket, size: int, **options: Any) -> Iterator[pa.Table]:
    """Yield the rows of each part that Spark plans, of about ``size`` bytes."""
    times = TimeRange(options["start_time"], options["end_time"], SLACK)
    wanted = within(bucket.catalog, wanted_ledgers(bucket.catalog), times)
    for part in plan_partitions(bucket.catalog, wanted, size):
        for run in part.runs:
            yield scan_of_run(run, bucket, **options).to_arrow()


def exported(topic: Topic, folder: Path, **options: Any) -> list[pa.Table]:
    export_topic(topic, folder, "parquet", **options)
    return [pq.read_table(path) for path in sorted(folder.glob("*.parquet"), key=lambda path: int(path.stem))]


@pytest.mark.long
@settings(deadline=None, max_examples=35)
@given(data=st.data())
def test_rows_are_those_of_the_whole_topic_that_are_in_the_range(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a scan, a count, each ledger alone, each size of parts that Spark plans, and an export."""
    writer = Writer(random.Random(data.draw(st.integers(0, 2**32))))
    ledgers = [writer.ledger(number) for number in range(1, 1 + data.draw(st.integers(1, 4)))]
    folder = tmp_path_factory.mktemp("made")
    topic = topic_of(put_in_folder(folder, *ledgers))
    near = st.builds(int.__add__, st.sampled_from(writer.times), st.sampled_from((0, 1, -SLACK, SLACK)))
    moments = st.one_of(st.none(), near, st.integers(CREATED_MS - 100, writer.now + 200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_pruning, "_WORTH_A_GLANCE", data.draw(st.sampled_from((0, 2000))))
        patch.setattr(time_pruning, "_GLANCE", data.draw(st.sampled_from((13, 40, 100, 4096))))
        transactions = data.draw(st.sampled_from(("committed", "all")))
        whole = topic.scan(COLUMNS, transactions=transactions).to_arrow()
        for number in range(4):
            start, end = data.draw(moments), data.draw(moments)
            if start is not None and end is not None and start >= end:
                end = start + 1
            options = {"start_time": start, "end_time": end, "clock_slack_ms": SLACK, "transactions": transactions}
            expected = in_range(whole, start, end)
            scan = topic.scan(COLUMNS, **options)
            assert scan.to_arrow() == expected
            assert scan.count() == expected.num_rows
            parts = [part_of(scan, Reach.of(range(i, i + 1))).to_arrow() for i in range(len(ledgers))]
            assert pa.concat_tables(parts) == expected
            size = data.draw(st.sampled_from((1, 2000, 1 << 30)))
            parts = list(parts_of_spark(topic.bucket, size, columns=COLUMNS, **options))
            assert pa.concat_tables([expected.slice(0, 0), *parts]) == expected
            if not number:
                parts = exported(topic, folder / "out", columns=COLUMNS, **options)
                assert pa.concat_tables([expected.slice(0, 0), *parts]) == expected


SECOND = 1000
ENTRIES, PAYLOAD = 2048, 16 << 10


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ledger of 32 MiB in blocks of 1 MiB, a message of 16 KiB every minute."""
    entries = [message(CREATED_MS + i * 60 * SECOND, b"x" * PAYLOAD) for i in range(ENTRIES)]
    return put_in_folder(tmp_path_factory.mktemp("large"), offload(entries, block_size=1 << 20))


def read_of(url: str, start: int | None, end: int | None, **options: object) -> tuple[list[int], CountingStore]:
    """Return the entries in a range of minutes, and the store that was asked."""
    bucket, store = counting_bucket(url)
    topic = bucket.topic("public/default/orders")
    assert topic.ledgers[0].index
    store.requests.clear()
    times = {
        name: CREATED_MS + minute * 60 * SECOND
        for name, minute in (("start_time", start), ("end_time", end))
        if minute is not None
    }
    table = topic.scan(["entry_id"], **times, **options).to_arrow()
    return table["entry_id"].to_pylist(), store


@for_each(
    ("start", "end", "mib"),
    [
        (1000, 1010, 6),
        (None, 30, 6),
        (2000, None, 6),
        (2040, 2048, 6),
        (0, ENTRIES, 34),
        (9000, None, 2),
        (None, -9, 2),
    ],
)
def test_little_is_read_but_the_range(large: str, start: int | None, end: int | None, mib: int) -> None:
    found, store = read_of(large, start, end)
    assert found == list(range(start or 0, ENTRIES if end is None else end))
    assert store.bytes_read < mib << 20
    assert len(store.requests) < 30 or mib > 6


def entries_of_blocks(times: Sequence[int], **fields: object) -> list[bytes]:
    """Three entries of each time, which are a block of 2000 bytes together."""
    return [message(time, b"x" * 500, **fields) for time in times for _ in range(3)]


def ids_in(topic: Topic, start: int | None, end: int | None, **options: object) -> list[int]:
    scan = topic.scan(["entry_id"], start_time=start, end_time=end, clock_slack_ms=SLACK, **options)
    return scan.to_arrow()["entry_id"].to_pylist()


@pytest.fixture
def _every_block_is_worth_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_pruning, "_WORTH_A_GLANCE", 0)


HOURS = [CREATED_MS + i * 3600 * SECOND for i in range(9)]


@pytest.mark.usefixtures("_every_block_is_worth_a_glance")
@for_each("block", range(9))
@for_each("shift", [-(10**7), 10**7])
def test_a_block_whose_first_time_is_damaged_cuts_nothing_off(
    tmp_path_factory: pytest.TempPathFactory, block: int, shift: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    entries = entries_of_blocks(HOURS)
    checksum = entries[3 * block][:6]
    entries[3 * block] = checksum + message(HOURS[block] + shift * SECOND, b"x" * 500)[6:]
    made = offload(entries, block_size=2000, created_ms=None)
    topic = topic_of(put_in_folder(tmp_path, made))
    assert len(topic.ledgers[0].index.blocks) == 9
    for start, end in [(HOURS[4], HOURS[6]), (None, HOURS[3]), (HOURS[7], None)]:
        expected = [
            i
            for i in range(27)
            if i != 3 * block and (start is None or HOURS[i // 3] >= start) and (end is None or HOURS[i // 3] < end)
        ]
        assert ids_in(topic, start, end, on_corrupt="skip") == expected


@pytest.mark.usefixtures("_every_block_is_worth_a_glance")
@for_each("shift", [-(10**7), 0, 10**7])
@for_each("damage", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\1"])
def test_a_block_whose_first_record_is_damaged_cuts_nothing_off(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, shift: int
) -> None:
    for block in range(9):
        tmp_path = tmp_path_factory.mktemp("case")
        entries = entries_of_blocks(HOURS)
        entries[3 * block] = message(HOURS[block] + shift * SECOND, b"x" * 500)
        made = offload(entries, block_size=2000, created_ms=None)
        at = 2000 * block + 128
        topic = topic_of(put_in_folder(tmp_path, replace(made, data=made.data[:at] + damage + made.data[at + 4 :])))
        found = ids_in(topic, HOURS[4], HOURS[6], on_corrupt="skip")
        assert [i for i in found if i // 3 != block] == [i for i in range(12, 18) if i // 3 != block]


@pytest.mark.usefixtures("_every_block_is_worth_a_glance")
def test_a_truncated_object_cuts_nothing_off(tmp_path: Path) -> None:
    made = offload(entries_of_blocks(HOURS), block_size=2000, created_ms=None)
    topic = topic_of(put_in_folder(tmp_path, replace(made, data=made.data[:7000])))
    assert ids_in(topic, HOURS[2], HOURS[8], on_corrupt="skip") == [6, 7, 8, 9]
    assert ids_in(topic, None, HOURS[2], on_corrupt="skip") == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("_every_block_is_worth_a_glance")
def test_times_of_another_cluster_cut_nothing_off(tmp_path: Path) -> None:
    """A replicated message keeps the time of its publishing there, which may be hours ago."""
    for block in range(9):
        entries = entries_of_blocks(HOURS)
        entries[3 * block] = message(HOURS[0] - 10**9, b"x" * 480, replicated_from=b"west")
        folder = tmp_path / str(block)
        folder.mkdir()
        topic = topic_of(put_in_folder(folder, offload(entries, block_size=2000, created_ms=None)))
        assert ids_in(topic, HOURS[2], None) == [i for i in range(6, 27) if i != 3 * block]


def test_the_earlier_parts_of_a_chunked_message_are_read_from_left_out_blocks(tmp_path: Path) -> None:
    chunks = [message(HOURS[i], b"part %d;" % i + b"x" * 600, chunked_id=b"a", chunk=i, chunks=9) for i in range(9)]
    topic = topic_of(put_in_folder(tmp_path, offload(chunks, block_size=900, created_ms=None)))
    assert len(topic.ledgers[0].index.blocks) == 9
    assert ids_in(topic, HOURS[8], None) == [8]
    scan = topic.scan(["value"], start_time=HOURS[8], clock_slack_ms=0)
    report = ScanReport()
    assert scan.to_arrow(report)["value"][0].as_py().count(b"part") == 9
    assert report.incomplete == []
    # What waits where the range ends is not told: the topic goes on.
    scan = topic.scan(["value"], end_time=HOURS[4], clock_slack_ms=0)
    report = ScanReport()
    assert (scan.to_arrow(report).num_rows, report.incomplete, report.is_final) == (0, [], True)

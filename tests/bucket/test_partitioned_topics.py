"""A partitioned topic as one topic: what it is read as, what it is missing, and whom it meets."""

import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import (
    AmbiguousLedgerError,
    CorruptMessageError,
    InvalidNameError,
    MissingLedgerError,
    NotFoundError,
    UnplacedLedgersWarning,
)
from ledgerfs.export.export import export_topic
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.scan.report import ScanReport
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, NAME, offload, put_in_folder
from tests.support.stores import counting_bucket

TOPIC = "persistent://public/default/orders"
GOLDEN = "persistent://public/golden/partitioned"
COMMIT = 21


def message(value: str, time: int = 0, **fields: object) -> bytes:
    return frame(metadata(publish_time_ms=CREATED_MS + time, **fields), value.encode())


def put(folder: Path, partition: int | str | None, ledger_id: int, *entries: bytes, uuid: int = 0) -> Bucket:
    """Write a ledger of a partition, or of the topic itself, and return the bucket as one who opens it now sees it."""
    name = NAME if partition is None else f"{NAME}-partition-{partition}"
    number = uuid or 1000 * (1 + int(partition or 0)) + ledger_id
    return open_bucket(put_in_folder(folder, offload(entries, ledger_id, uuid=number, name=name)))


def values(topic: Topic, **options: Any) -> list[str]:
    return [value.decode() for value in topic.scan(["value"], **options).to_arrow()["value"].to_pylist()]


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Partitions 0, 1, 2 and 10, with two ledgers in the first; times go back in partition 1."""
    put(tmp_path, 0, 1, message("0a", 10), message("0b", 30))
    put(tmp_path, 0, 9, message("0c", 50))
    put(tmp_path, 1, 2, message("1a", 20), message("1b", 15), message("1c", 60))
    put(tmp_path, 10, 3, message("10a", 5))
    return put(tmp_path, 2, 4, message("2a", 30), message("2b", 55))


PARTITION_ORDER = ["0a", "0b", "0c", "1a", "1b", "1c", "2a", "2b", "10a"]
TIME_ORDER = ["10a", "0a", "1a", "1b", "0b", "2a", "0c", "2b", "1c"]


# One topic.


@for_each("name", [TOPIC, "public/default/orders", "orders", NAME])
def test_the_name_of_a_partitioned_topic_is_all_its_partitions(bucket: Bucket, name: str) -> None:
    topic = bucket.topic(name)
    assert (topic.name, topic.is_partitioned) == (TOPIC, True)
    assert [one.name for one in topic.partitions] == [f"{TOPIC}-partition-{number}" for number in (0, 1, 2, 10)]
    assert not any(one.partitions for one in topic.partitions)
    assert [ledger.ref.ledger_id for ledger in topic.ledgers] == [1, 9, 2, 4, 3]
    assert values(topic) == PARTITION_ORDER
    assert topic.count() == len(PARTITION_ORDER)


def test_the_exact_name_wins(bucket: Bucket, tmp_path: Path) -> None:
    opened = bucket.topic(TOPIC)
    topic = put(tmp_path, None, 77, message("itself")).topic(TOPIC)
    assert (topic.is_partitioned, topic.partitions, values(topic)) == (False, [], ["itself"])
    bucket.refresh()
    assert values(opened) == PARTITION_ORDER  # as it was opened


def test_real_partitions_are_what_each_of_them_is(golden_url: str) -> None:
    topic = open_bucket(golden_url).topic(GOLDEN)
    tables = [one.scan().to_arrow() for one in topic.partitions]
    assert len(tables) == 3
    whole = topic.scan().to_arrow()
    assert whole.equals(pa.concat_tables(tables))
    assert topic.count() == whole.num_rows == sum(one.count() for one in topic.partitions)
    merged = topic.scan(order="publish_time").to_arrow()
    assert merged.schema == whole.schema
    key = [
        ("publish_time", "ascending"),
        ("partition", "ascending"),
        ("ledger_id", "ascending"),
        ("entry_id", "ascending"),
    ]
    rest = [name for name in DEFAULT_COLUMNS if name != "properties"]
    assert merged.select(rest).sort_by(key).equals(whole.select(rest).sort_by(key))
    times = merged["publish_time"].cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    for number, table in enumerate(tables):
        assert merged.filter(pa.compute.equal(merged["partition"], number)).equals(table)


# Merged by publish time.


def test_merged_each_next_row_is_the_earliest_of_the_partitions_next_ones(bucket: Bucket) -> None:
    """``1b`` was published before ``1a``, which it stands behind."""
    topic = bucket.topic(TOPIC)
    assert values(topic, order="publish_time") == TIME_ORDER
    (one, *_) = topic.partitions[1:]
    assert values(one, order="publish_time") == ["1a", "1b", "1c"]


@for_each("columns", [["value"], ["value", "publish_time"], ["publish_time", "value"], None])
def test_the_publish_time_is_only_there_if_it_is_asked_for(bucket: Bucket, columns: Sequence[str] | None) -> None:
    scan = bucket.topic(TOPIC).scan(columns, order="publish_time")
    names = list(DEFAULT_COLUMNS if columns is None else columns)
    assert scan.schema.names == names
    for batch in scan:
        assert batch.schema.names == names
    assert [value.decode() for value in scan.to_arrow()["value"].to_pylist()] == TIME_ORDER
    assert pl.DataFrame(scan)["value"].to_list() == [value.encode() for value in TIME_ORDER]
    assert duckdb.from_arrow(scan.to_arrow_batch_reader()).count("*").fetchall() == [(9,)]
    assert len(scan.to_pandas()) == 9


def test_rows_without_columns_are_counted_in_either_order(bucket: Bucket) -> None:
    for order in ("partition", "publish_time"):
        scan = bucket.topic(TOPIC).scan((), order=order)
        assert (sum(batch.num_rows for batch in scan), scan.count(), scan.to_arrow().num_rows) == (9, 9, 9)


def test_times_are_those_of_each_partition(bucket: Bucket) -> None:
    for order, expected in (("partition", ["0b", "1a", "2a"]), ("publish_time", ["1a", "0b", "2a"])):
        assert (
            values(bucket.topic(TOPIC), start_time=CREATED_MS + 20, end_time=CREATED_MS + 31, order=order) == expected
        )


def test_a_scan_that_is_left_early_reads_no_further_partitions(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path, number, number, message("x" * 1000))
    bucket, store = counting_bucket(f"file://{tmp_path}")
    next(iter(bucket.topic(TOPIC).scan()))
    assert len({request.key for request in store.requests if not request.key.endswith("-index")}) == 1


# Options, partition by partition.


def transaction(value: str, number: int = 1, **fields: object) -> bytes:
    return message(value, transaction_most=7, transaction_least=number, **fields)


def test_each_partition_has_its_own_outcomes_and_its_own_first_open_transaction(tmp_path: Path) -> None:
    """Ledgers of two clusters may even have the same ids: what is known of a place in one partition says nothing of the other."""
    put(tmp_path, 0, 5, message("0a"), transaction("0t"), transaction("", marker_type=COMMIT), message("0b"))
    topic = put(tmp_path, 1, 5, message("1a"), transaction("1t"), message("1b")).topic(TOPIC)
    assert values(topic) == ["0a", "0t", "0b", "1a", "1b"]
    assert values(topic, transactions="readable") == ["0a", "0t", "0b", "1a"]
    assert topic.count(transactions="readable") == 4
    states = topic.scan(["txn_state"], transactions="all").to_arrow()["txn_state"].to_pylist()
    assert states == [None, "committed", None, None, "open", None]
    scan = topic.scan()
    report = ScanReport()
    scan.to_arrow(report)
    assert [one.is_final for one in report.bases] == [True, False]
    assert not report.is_final


def test_chunks_are_never_joined_across_partitions(tmp_path: Path) -> None:
    def chunk(number: int) -> bytes:
        return message(f"part {number};", chunked_id=b"m", chunk=number, chunks=2)

    put(tmp_path, 0, 1, chunk(0), message("0"))
    topic = put(tmp_path, 1, 2, chunk(1), message("1")).topic(TOPIC)
    for order in ("partition", "publish_time"):
        scan = topic.scan(["value"], order=order)
        report = ScanReport()
        assert scan.to_arrow(report)["value"].to_pylist() == [b"0", b"1"]
        assert sorted(one.ledger_id for one in report.incomplete) == [1, 2]


def test_damage_is_reported_of_all_partitions_and_anew_each_time(tmp_path: Path) -> None:
    put(tmp_path, 0, 1, message("0a"), message("0b")[:-1] + b"?")
    topic = put(tmp_path, 1, 2, message("1a")[:-1] + b"?", message("1b")).topic(TOPIC)
    with pytest.raises(CorruptMessageError, match="1:1"):
        topic.scan().to_arrow()
    scan = topic.scan(["value"], on_corrupt="skip")
    for _ in range(2):
        report = ScanReport()
        assert scan.to_arrow(report)["value"].to_pylist() == [b"0a", b"1b"]
        assert [(one.ledger_id, one.first_entry) for one in report.skipped] == [(1, 1), (2, 0)]
    assert report.is_final
    report = ScanReport()
    next(iter(scan.batches(report)))
    assert ([one.ledger_id for one in report.skipped], report.is_final) == ([1], False)
    report = ScanReport()
    assert scan.count(report) == 2
    assert len(report.skipped) == 2


@pytest.mark.parametrize("order", ["partition", "publish_time"])
def test_a_ledger_that_any_partition_lacks_is_an_error_before_the_first_row(
    bucket: Bucket, tmp_path: Path, order: str
) -> None:
    (lost,) = tmp_path.glob("*-ledger-4")
    lost.unlink()
    topic = open_bucket(bucket.store.url).topic(TOPIC)
    assert [one.ledger_id for one in topic.missing] == [4]
    scan = topic.scan(["value"], order=order)
    with pytest.raises(MissingLedgerError, match=f"^{TOPIC}: 1 ledger .* ledger 4: "):
        next(iter(scan))
    with pytest.raises(MissingLedgerError):
        topic.count()
    with pytest.raises(MissingLedgerError):
        topic.ledger(4)
    with pytest.raises(MissingLedgerError):
        topic.message("4:0")
    assert sorted(values(topic, on_corrupt="skip", order=order)) == sorted(set(PARTITION_ORDER) - {"2a", "2b"})
    rest = topic.scan(on_corrupt="skip", order=order)
    report = ScanReport()
    rest.to_arrow(report)
    assert ([one.ledger_id for one in report.missing], report.is_final) == ([4], False)


def test_a_partition_of_which_every_ledger_is_missing_is_still_one(tmp_path: Path) -> None:
    put(tmp_path, 0, 1, message("0"))
    put(tmp_path, 1, 2, message("1"))
    next(tmp_path.glob("*-ledger-2")).unlink()
    topic = open_bucket(f"file://{tmp_path}").topic(TOPIC)
    assert len(topic.partitions) == 2
    with pytest.raises(MissingLedgerError):
        topic.count()


# One message.


def test_a_message_is_looked_for_in_the_partition_that_has_its_ledger(bucket: Bucket) -> None:
    topic = bucket.topic(TOPIC)
    found = topic.message("3:0")
    assert (found.value, found.partition, found.topic, found.id) == (b"10a", 10, f"{TOPIC}-partition-10", "3:0:10")
    assert topic.message("2:1:1").value == topic.message("2:1:1:0").value == topic.message((2, 1)).value == b"1b"
    assert topic.ledger(3).ref.managed_ledger == f"{NAME}-partition-10"
    for wrong, reason in [
        ("8:0", "message 8:0: no such ledger"),
        ("3:7", "ends with entry 0"),
        ("3:0:1:0", "message 3:0:1:0: no such ledger"),
        ("3:0:4:0", "no ledger of partition 4"),
    ]:
        with pytest.raises(NotFoundError, match=reason):
            topic.message(wrong)
    with pytest.raises(InvalidNameError):
        topic.message("3")


def test_a_ledger_id_that_two_partitions_have_needs_the_partition(tmp_path: Path) -> None:
    """Two clusters share the bucket. What one of them has is not the other's, be it that the other's is lost."""
    put(tmp_path, 0, 5, message("0"))
    put(tmp_path, 1, 5, message("1"))
    topic = open_bucket(f"file://{tmp_path}").topic(TOPIC)
    assert (topic.message("5:0:0:0").value, topic.message("5:0:1:0").value) == (b"0", b"1")
    assert values(topic) == ["0", "1"]
    for ask in (topic.ledger, topic.bucket.ledger):
        with pytest.raises(AmbiguousLedgerError, match=f"{TOPIC}-partition-0, {TOPIC}-partition-1"):
            ask(5)
    with pytest.raises(AmbiguousLedgerError):
        topic.message((5, 0))
    with pytest.raises(AmbiguousLedgerError):
        topic.bucket.ledger(5, topic=TOPIC)
    next(tmp_path.glob("*3ed-ledger-5")).unlink()
    topic = open_bucket(f"file://{tmp_path}").topic(TOPIC)
    assert len(topic.missing) == 1
    with pytest.raises(AmbiguousLedgerError):
        topic.message("5:0")


# Meetings.


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Bucket], object]], None]:
    """Let something happen once, after the ledgers of the first partition were looked up."""

    def arrange(meet: Callable[[Bucket], object]) -> None:
        look_up, pending = Bucket.readers_of, [meet]

        def readers_of(self: Bucket, *arguments: Any) -> list[LedgerReader]:
            found = look_up(self, *arguments)
            while pending:
                pending.pop()(self)
            return found

        monkeypatch.setattr(Bucket, "readers_of", readers_of)

    return arrange


@pytest.mark.parametrize("what", ["ledgers", "scan"])
def test_what_arrives_between_the_partitions_is_there_in_all_or_in_none(
    bucket: Bucket, tmp_path: Path, between: Callable[[Callable[[Bucket], object]], None], what: str
) -> None:
    """``0d`` was uploaded before ``1d``: nobody may see the second one without the first."""

    def arrive(bucket: Bucket) -> None:
        put(tmp_path, 0, 20, message("0d"))
        put(tmp_path, 1, 21, message("1d"))
        put(tmp_path, 3, 22, message("3a"))
        bucket.refresh()

    topic = bucket.topic(TOPIC)
    between(arrive)
    if what == "ledgers":
        assert [ledger.ref.ledger_id for ledger in topic.ledgers] == [1, 9, 2, 4, 3]
    else:
        assert values(topic) == PARTITION_ORDER
    assert values(topic) == ["0a", "0b", "0c", "0d", "1a", "1b", "1c", "1d", "2a", "2b", "3a", "10a"]


def test_partitions_come_and_go_with_the_catalog(bucket: Bucket, tmp_path: Path) -> None:
    topic = bucket.topic(TOPIC)
    scan = topic.scan(["value"])
    put(tmp_path, 4, 40, message("4a"))
    assert values(topic) == PARTITION_ORDER
    bucket.refresh()
    assert values(topic) == [*PARTITION_ORDER[:-1], "4a", "10a"]
    assert scan.count() == len(PARTITION_ORDER)
    for path in tmp_path.iterdir():
        path.unlink()
    bucket.refresh()
    assert (topic.partitions, topic.ledgers, values(topic), topic.count()) == ([], [], [], 0)
    assert topic.scan(["key"], order="publish_time").to_arrow().schema.names == ["key"]


def test_a_topic_pickles_and_serves_threads(bucket: Bucket) -> None:
    topic = pickle.loads(pickle.dumps(bucket.topic(TOPIC)))
    assert topic.is_partitioned
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(values, topic, order=order) for order in ("partition", "publish_time") * 8]
    assert [job.result() for job in jobs] == [PARTITION_ORDER, TIME_ORDER] * 8


@pytest.fixture
def unplaced(bucket: Bucket, tmp_path: Path) -> Bucket:
    """The same with a ledger of unknown topic: in a folder nothing but its index told of whom it was."""
    lost = offload([message("lost")], 26, uuid=26)
    path = tmp_path / f"{lost.uuid}-ledger-26"
    path.write_bytes(lost.data)
    os.utime(path, (CREATED_MS / 1000, CREATED_MS / 1000))
    return open_bucket(f"file://{tmp_path}")


def test_a_ledger_of_unknown_topic_takes_no_partitioned_topic_away(unplaced: Bucket, tmp_path: Path) -> None:
    with pytest.warns(UnplacedLedgersWarning, match="ids 26"):
        assert unplaced.topic(TOPIC).count() == 9
    assert unplaced.topic(TOPIC).is_partitioned
    assert unplaced.topic(TOPIC).missing == ()
    with pytest.warns(UnplacedLedgersWarning):
        report = export_topic(open_bucket(unplaced.store.url).topic(TOPIC), tmp_path / "out", "parquet")
    assert (report.written, report.rows, report.missing) == (5, 9, ())
    with pytest.warns(UnplacedLedgersWarning):
        copied = copy_ledgers(open_bucket(unplaced.store.url), f"file://{tmp_path}/copy", topics=[TOPIC])
    assert (copied.copied, copied.is_complete) == (5, True)
    assert b"any topic may lack ledgers" in run("count", str(tmp_path), TOPIC).stderr


def test_a_topic_that_is_not_there_does_not_own_what_is_of_unknown_topic(unplaced: Bucket, tmp_path: Path) -> None:
    reported = r"no ledger of this topic in the bucket, but the topic of 1 ledger cannot be determined.*did you mean .*/orders\?"
    with pytest.raises(NotFoundError, match=reported):
        unplaced.topic("public/default/ordres")
    with pytest.raises(NotFoundError, match=reported):
        copy_ledgers(unplaced, f"file://{tmp_path}/copy", topics=["public/default/ordres"])
    assert b"no ledger of this topic" in run("count", str(tmp_path), "public/default/ordres", code=2).stderr
    assert unplaced.catalog.missing_of("public/default/persistent/ordres") == ()
    assert not unplaced.catalog.has("public/default/persistent/ordres")


def test_what_pulsar_takes_for_no_partition_is_none(tmp_path: Path) -> None:
    """Pulsar's `TopicName.getPartitionIndex` is -1 for them: topics of their own, with rows of their own."""
    numbers = ["00", "01", "-1", "+1", "2147483648", "9999999999", "1 ", "x", "1-DLQ"]
    bucket = put(tmp_path, 0, 1, message("0a"))
    for ledger_id, number in enumerate(numbers, 2):
        name = f"{NAME}-partition-{encode_topic(number)}"
        made = offload([message(f"foreign {number}")], ledger_id, uuid=ledger_id, name=name)
        bucket = open_bucket(put_in_folder(tmp_path, made))
    assert values(bucket.topic(TOPIC)) == ["0a"]
    for number in numbers:
        other = bucket.topic(f"{TOPIC}-partition-{number}")
        assert values(other) == [f"foreign {number}"]
        assert other.scan(["partition"]).to_arrow()["partition"].to_pylist() == [None], number


def test_the_last_partition_that_pulsar_knows(tmp_path: Path) -> None:
    put(tmp_path, 0, 1, message("0a"))
    bucket = put(tmp_path, 2**31 - 1, 2, message("last"))
    assert values(bucket.topic(TOPIC)) == ["0a", "last"]
    assert bucket.topic(TOPIC).scan(["partition"]).to_arrow()["partition"].to_pylist() == [0, 2**31 - 1]
    for written in (2, 0):
        assert export_topic(bucket.topic(TOPIC), tmp_path / "out", "parquet").written == written
    assert (tmp_path / "out" / "2-partition-2147483647.parquet").exists()

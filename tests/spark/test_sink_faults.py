"""Writing from Spark when something fails: all ledgers or none, and nothing left over that can be removed."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from ledgerfs import open_bucket
from ledgerfs.errors import (
    InvalidNameError,
    LedgerExistsError,
    RefusedLedgerError,
    StaleObjectError,
)
from ledgerfs.spark.source import data_sink
from ledgerfs.spark.source.data_sink import LedgerSink, WrittenPartition, open_sink
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.writing.imports import import_rows
from tests.spark.planned import numbers
from tests.support.mapfile_buckets import mapfile, messages, put_mapfiles
from tests.support.s3 import Fault, FaultProxy, S3Server
from tests.support.writes import Place, folder_place

TOPIC = "persistent://public/default/orders"
Batches = Iterator[pa.RecordBatch]

KIB = 1024
BIG = 40_000
"""Rows of a KiB that are several blocks of 5 MiB, and more than Spark and the encoder hold before the first one is written."""


def write(data: DataFrame, place: Place, **options: str) -> None:
    writer = data.write.format("ledgerfs").option("topic", TOPIC).option("blockSize", "5MiB").mode("append")
    writer.options(**options).save(place.url)


def values(place: Place) -> list[bytes]:
    table = pa.table(open_bucket(place.url, place.options).topic(TOPIC).scan(["value"]))
    return [value.rstrip(b"x") for value in table.column("value").to_pylist()]


def assert_whole(place: Place, count: int, ledgers: int) -> None:
    """Check that there are exactly the rows, in order, and no object besides."""
    assert values(place) == [b"%d" % number for number in range(count)]
    assert len(place.ledgers()) == ledgers
    assert len(place.objects()) == 2 * ledgers
    assert place.uploads() == []


def assert_nothing(place: Place) -> None:
    assert place.objects() == set()
    assert place.uploads() == []


def spoiling() -> Callable[[Batches], Batches]:
    """Return what makes the properties of row 700 none that a message can have."""

    def spoil(batches: Batches) -> Batches:
        for batch in batches:
            items = [[("n", None if value == "700" else "1")] for value in batch.column("value").to_pylist()]
            properties = pa.array(items, pa.map_(pa.string(), pa.string()))
            yield pa.RecordBatch.from_arrays([batch.column("value"), properties], ["value", "properties"])

    return spoil


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_row_that_is_no_message_leaves_nothing(
    spark: SparkSession, place: Place, open_place: Place, s3: S3Server, *, is_remote: bool
) -> None:
    target = open_place if is_remote else place
    options = {"endpoint_url": s3.endpoint, "anon": "true"} if is_remote else {}
    data = numbers(spark, 1000, 3).mapInArrow(spoiling(), "value string, properties map<string,string>")
    with pytest.raises(PySparkException, match=r"row 3[34] of partition 2, for .*-ledger-\d{16}: a property has no"):
        write(data, target, **options)
    assert_nothing(target)


def once(marker: Path, fail: Callable[[], None], after: int) -> Callable[[Batches], Batches]:
    """Return what passes rows on, and fails once, in the second partition, after some batches of it."""

    def passing(batches: Batches) -> Batches:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if number == after and TaskContext.get().partitionId() == 1 and not marker.exists():
                marker.touch()
                fail()
            yield batch

    return passing


def raising() -> Callable[[], None]:
    def fail() -> None:
        raise RuntimeError("once")

    return fail


def killing(folder: Path) -> Callable[[], None]:
    """Return what kills those processes that write to the bucket just now, be it the other task's as well."""

    def is_writing(process: Path) -> bool:
        try:
            opened = [str(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:
            return False
        return any(name.startswith(f"{folder}/.") and name.endswith(".part") for name in opened)

    def fail() -> None:
        end = time.monotonic() + 300
        found: list[Path] = []
        while not found:
            assert time.monotonic() < end, "nobody writes"
            found = [one for one in Path("/proc").iterdir() if one.name.isdigit() and is_writing(one)]
        for process in found:
            os.kill(int(process.name), signal.SIGKILL)

    return fail


@pytest.mark.parametrize("after", [0, 2])
def test_rows_that_come_at_the_second_try_are_there_once(
    spark: SparkSession, place: Place, tmp_path: Path, after: int
) -> None:
    data = numbers(spark, 2 * BIG, 2, KIB)
    write(data.mapInArrow(once(tmp_path / "failed", raising(), after), "value string"), place)
    assert (tmp_path / "failed").exists()
    assert_whole(place, 2 * BIG, 2)


def test_a_task_that_is_killed_in_the_middle_changes_nothing(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    data = numbers(spark, 2 * BIG, 2, KIB)
    kill = killing(tmp_path / "bucket")
    write(data.mapInArrow(once(tmp_path / "failed", kill, 3), "value string"), place)
    assert (tmp_path / "failed").exists()
    assert_whole(place, 2 * BIG, 2)


def test_an_index_that_cannot_be_put_leaves_none_of_the_ledgers(
    spark: SparkSession, open_place: Place, proxy: FaultProxy
) -> None:
    proxy.faults = [Fault("403", matches=lambda method, path, headers: method == "PUT" and "ledger-3-index" in path)]
    with pytest.raises(PySparkException, match=r"ledger-3-index: access denied"):
        write(numbers(spark, 50, 5), open_place, endpoint_url=proxy.endpoint, anon="true", ledgerId="0")
    put = [seen.path for seen in proxy.seen if seen.method == "PUT" and seen.path.endswith("-index")]
    assert len(put) >= 4, "the others were there by then"
    assert_nothing(open_place)


def test_ids_that_somebody_takes_meanwhile_stay_theirs(spark: SparkSession, place: Place) -> None:
    url = place.url

    def taking(batches: Batches) -> Batches:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            source = type("Rows", (), {"schema": pa.schema([("value", pa.string())]), "rows": 1})()
            source.batches = lambda: iter([pa.record_batch({"value": ["theirs"]})])
            import_rows(open_bucket(url), source, "public/default/others", ledger_id=2)
        yield from batches

    with pytest.raises(PySparkException, match="already has ledger 2"):
        write(numbers(spark, 30, 3).mapInArrow(taking, "value string"), place, ledgerId="0")
    assert len(place.ledgers()) == 1
    assert len(place.objects()) == 2
    assert [topic.name for topic in open_bucket(url).topics()] == ["persistent://public/default/others"]


# The sink without Spark: what its processes do, one after another. Only the sink's own `time` is replaced, for a thread of py4j's sleeps
# as well; with a sleep that only fills a list, it would fill the memory.

SCHEMA = StructType([StructField("value", StringType())])


def sink_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> LedgerSink:
    monkeypatch.setattr(data_sink, "_task", lambda: (0, 0))
    return open_sink({"topic": TOPIC, "path": place.url}, SCHEMA, overwrite=False)


def some_rows(*texts: str) -> Batches:
    return iter([pa.record_batch({"value": list(texts)})])


def before_listing(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Have somebody else act just before a folder is listed for this time from now on."""
    listed, calls = LocalStore.list_pages, []

    def list_pages(self: LocalStore, prefix: str = "") -> Iterator[list[ObjectStat]]:
        calls.append(None)
        if len(calls) == number:
            act()
        return listed(self, prefix)

    monkeypatch.setattr(LocalStore, "list_pages", list_pages)


def test_the_name_of_a_partitioned_topic_is_refused_before_any_row(place: Place, tmp_path: Path) -> None:
    import_rows(f"file://{tmp_path}/bucket", pa.table({"value": ["a"]}), f"{TOPIC}-partition-1")
    for options in ({}, {"ledgerId": "7"}):
        with pytest.raises(InvalidNameError, match="orders-partition-1"):
            open_sink({"topic": "public/default/orders", "path": place.url, **options}, SCHEMA, overwrite=False)


def test_rows_hide_no_partition_that_came_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(place, monkeypatch)
    message = sink.write(some_rows("0"))
    partition = f"{TOPIC}-partition-1"
    before_listing(monkeypatch, 1, lambda: import_rows(place.url, pa.table({"value": ["a"]}), partition))
    with pytest.raises(InvalidNameError, match="orders-partition-1"):
        sink.commit([message])
    sink.abort([message])
    assert values(place) == [b"a"]
    assert len(place.ledgers()) == 1


@pytest.mark.parametrize("layout", ["auto", "pulsar_blob"])
@pytest.mark.parametrize("taken", [7, 8])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_id_that_a_mapfile_has_is_refused(
    layout: str, taken: int, when: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the second partition is known when all rows are written."""
    there = mapfile(messages(taken, 3), taken)
    options = {"topic": TOPIC, "path": place.url, "ledgerId": "7", "layout": layout}
    if when == "before":
        put_mapfiles(tmp_path / "bucket", there)
    if (taken, when) == (7, "before"):
        with pytest.raises(LedgerExistsError, match="ledger 7"):
            open_sink(options, SCHEMA, overwrite=False)
        return
    sink = open_sink(options, SCHEMA, overwrite=False)
    written = []
    for partition in range(2):
        monkeypatch.setattr(data_sink, "_task", lambda number=partition: (number, 0))
        written.append(sink.write(some_rows("0", "1")))
    if when == "meanwhile":
        put_mapfiles(tmp_path / "bucket", there)
    with pytest.raises(LedgerExistsError, match=f"ledger {taken}"):
        sink.commit(written)
    assert [ref.key for ref in open_bucket(place.url).catalog.refs()] == [f"{there.folder}/data"]
    assert not [path for path in (tmp_path / "bucket").iterdir() if path.is_file()]


def test_a_ledger_that_goes_while_others_are_published_is_no_success(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(place, monkeypatch)
    message = sink.write(some_rows("0"))

    def remove_all() -> None:
        for key in sorted(place.objects(), reverse=True):
            place.clean.raw_store.writes.delete(key)

    before_listing(monkeypatch, 1, remove_all)
    with pytest.raises(StaleObjectError, match="removed or replaced the ledger"):
        sink.commit([message])
    assert_nothing(place)


def test_attempts_that_lost_leave_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(place, monkeypatch)
    lost, won = sink.write(some_rows("0", "1")), sink.write(some_rows("0", "1"))
    assert len(place.objects()) == 2
    assert lost.ledger is not None
    assert won.ledger is not None
    sink.commit([won])
    assert_whole(place, 2, 1)
    assert won.ledger.data.key in place.objects()


def test_an_attempt_that_lost_and_goes_on_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes a task for failed at once; its Python may notice some seconds later, and complete what it writes."""
    sink = sink_of(place, monkeypatch)
    attempts, objects = [1, 0], []
    monkeypatch.setattr(data_sink, "_task", lambda: (0, attempts.pop(0)))
    won = sink.write(some_rows("0", "1"))

    def sleep(_: float) -> None:
        sink.write(some_rows("0"))
        objects.append(len(place.objects()))

    monkeypatch.setattr(data_sink, "time", SimpleNamespace(sleep=sleep))
    sink.commit([won])
    assert objects == [3]
    assert_whole(place, 2, 1)


def test_nothing_shows_before_the_commit_and_nothing_is_left_by_an_abort(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(data_sink, "time", SimpleNamespace(sleep=slept.append))
    kept = folder_place(Path(place.url.removeprefix("file://")))
    other = sink_of(place, monkeypatch)
    sink = sink_of(place, monkeypatch)
    sink.write(some_rows("0"))
    others = other.write(some_rows("0"))
    assert kept.ledgers() == []
    sink.abort([None])
    assert slept == [data_sink._TASK_OUTLIVES_ITS_END]
    assert others.ledger is not None
    assert place.objects() == {others.ledger.data.key}


def test_a_commit_that_failed_after_its_end_is_taken_back_by_the_abort(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(place, monkeypatch)
    message = sink.write(some_rows("0"))
    sink.commit([message])
    assert len(place.ledgers()) == 1
    sink.abort([message])
    assert_nothing(place)


def test_a_task_that_reports_nothing_is_no_task_without_rows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(place, monkeypatch)
    message = sink.write(some_rows("0"))
    with pytest.raises(RefusedLedgerError, match="a task did not report its result"):
        sink.commit([message, None])
    assert place.ledgers() == []
    assert sink.write(iter([])) == WrittenPartition(None)
    assert sink.write(some_rows()) == WrittenPartition(None)

"""Exports to a lake: what is in the files, where they are, and what a later export adds."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ledgerfs import open_bucket
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.errors import (
    ExportFolderError,
    InvalidOptionError,
    MissingLedgerError,
    NotFoundError,
    OutdatedFilesWarning,
    UnplacedLedgersWarning,
)
from ledgerfs.ledgers.row_dependencies import Basis, TopicState
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.spark.lake.files import LakeFiles
from ledgerfs.spark.lake.layout import LakeLayout
from ledgerfs.spark.lake.state import LakeFile, LakeState, LedgerIds, Unit, what_is_new
from ledgerfs.spark.pipelines.export import export, run_export
from ledgerfs.spark.pipelines.export_request import ExportRequest
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.storage.objects import ObjectStat
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.s3 import S3Server

PATTERN = "persistent://public/golden/.*"
ENCRYPTED = "persistent://public/golden/encrypted"
KEY = ("topic", "ledger_id", "entry_id", "batch_index")
COMMIT = 21
DAY_MS = 86_400_000
START_MS = 1_700_006_400_000  # 2023-11-15, midnight


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of all default columns in one order, whatever order and which further columns the table has."""
    columns = [table[name].to_pylist() for name in DEFAULT_COLUMNS]
    return sorted(zip(*columns, strict=True), key=repr)


def scanned(url: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of all topics of a bucket, as scans of each one give them."""
    bucket = open_bucket(url)
    return rows_of(pa.concat_tables(bucket.topic(topic.name).scan(**options).to_table() for topic in bucket.topics()))


def in_lake(folder: Path | str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a lake of Parquet as pyarrow reads it."""
    table = ds.dataset(folder, format="parquet", partitioning=ds.partitioning(flavor="hive"), **options).to_table()
    return rows_of(table)


def files(folder: Path) -> dict[str, int]:
    """Return the files that readers see, and what changes when one is written anew."""
    paths = (path for path in folder.rglob("*.*") if path.is_file() and "_ledgerfs" not in path.parts)
    return {str(path.relative_to(folder)): path.stat().st_ino for path in paths}


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d" % i)


def put(folder: Path, ledger_id: int, *entries: bytes, uuid: int | None = None, **options: Any) -> str:
    """Write one ledger into a bucket, and return its URL."""
    folder.mkdir(exist_ok=True)
    return put_in_folder(folder, offload(entries, ledger_id, uuid=uuid or ledger_id, **options))


def values(folder: Path) -> list[str]:
    return sorted(json.loads(line)["value"] for name in files(folder) for line in (folder / name).open())


# What is in the files.


@pytest.mark.parametrize(
    ("partition_by", "partition_bytes"),
    [((), 1 << 10), (("topic", "date"), 128 << 20), (("topic", "ledger_id"), 1 << 16)],
)
def test_parquet_holds_what_scans_give(
    spark: SparkSession, golden_url: str, tmp_path: Path, partition_by: tuple[str, ...], partition_bytes: int
) -> None:
    out = tmp_path / "lake"
    told = export(
        spark, golden_url, str(out), topics_pattern=PATTERN, partition_by=partition_by,
        partition_bytes=partition_bytes, on_encrypted="null",
    )  # fmt: skip
    expected = scanned(golden_url, on_encrypted="null")
    assert in_lake(out) == expected
    assert rows_of(spark.read.parquet(str(out)).toArrow()) == expected
    assert (out / "_SUCCESS").exists()
    assert {row.path: row.bytes for row in told.collect()} == {name: (out / name).stat().st_size for name in files(out)}
    assert sum(row.messages for row in told.collect()) == len(expected) == 12_989
    assert sorted(path.name for path in (out / "_ledgerfs").iterdir()) == ["state.json"]


def test_folders_are_named_as_spark_names_them(spark: SparkSession, golden_url: str, tmp_path: Path) -> None:
    ours, sparks = tmp_path / "ours", tmp_path / "sparks"
    keys = ("topic", "date", "hour", "partition", "producer_name")
    export(spark, golden_url, str(ours), partition_by=keys, on_encrypted="null")
    rows = spark.read.format("ledgerfs").option("onEncrypted", "null").load(golden_url)
    rows = rows.selectExpr("*", "date(publish_time) as date", "date_format(publish_time, 'HH') as hour")
    rows.write.partitionBy(*keys).parquet(str(sparks))
    folders = [{path.parent.relative_to(out) for path in out.rglob("*.parquet")} for out in (ours, sparks)]
    assert folders[0] == folders[1]
    schema = pq.read_schema(ours / next(iter(files(ours))))
    assert schema.names == [name for name in DEFAULT_COLUMNS if name not in keys]


def test_json_lines_hold_what_scans_give(spark: SparkSession, golden_url: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    export(spark, golden_url, f"file://{out}", format="jsonl", on_encrypted="skip", columns=["value", *KEY])
    lines = [json.loads(line) for name in files(out) for line in (out / name).open()]
    found = {tuple(line.get(name) for name in KEY) for line in lines}
    assert len(lines) == len(found) == 12_989 - 69
    assert found == {row[:4] for row in scanned(golden_url, on_encrypted="skip")}


def test_private_keys_travel_to_the_tasks_and_stand_nowhere(
    spark: SparkSession, golden_url: str, golden: Path, tmp_path: Path
) -> None:
    keys = {"golden.key": golden / "keys" / "private.pem"}
    export(spark, golden_url, str(tmp_path / "lake"), topics=[ENCRYPTED], private_keys=keys)
    expected = open_bucket(golden_url).topic(ENCRYPTED).scan(private_keys=keys).to_table()
    assert in_lake(tmp_path / "lake") == rows_of(expected)
    state = (tmp_path / "lake" / "_ledgerfs" / "state.json").read_text()
    assert "golden.key" in state
    assert "PRIVATE" not in state


def test_an_export_to_s3(spark: SparkSession, s3: S3Server, s3_golden: str, s3_bucket: str, golden_url: str) -> None:
    to = f"s3://{s3_bucket}/lake"
    where = Storage(s3_golden, s3.options)
    options: dict[str, Any] = {"to_options": s3.options, "partition_by": ["topic"], "on_encrypted": "null"}
    first = export(spark, where, to, topics_pattern=".*/golden/[a-k].*", **options)
    assert first.count() > 0
    again = export(spark, where, to, incremental=True, **options)
    fs, root = fsspec.core.url_to_fs(to, **s3.options)
    fs.invalidate_cache()
    assert in_lake(root, filesystem=fs) == scanned(golden_url, on_encrypted="null")
    told = {f"{root}/{row.path}" for row in first.union(again).collect()}
    assert {path for path in fs.find(root) if path.endswith(".parquet")} == told
    left = {path.removeprefix(f"{root}/") for path in fs.find(root)} - {path.removeprefix(f"{root}/") for path in told}
    assert left == {"_SUCCESS", "_ledgerfs/state.json"}
    assert (
        s3.options["secret"]
        not in s3.client.get_object(Bucket=s3_bucket, Key="lake/_ledgerfs/state.json")["Body"].read().decode()
    )


# How messages are divided.


class _Memory:
    """An upload to nowhere."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> None:
        self.size += len(data)

    def end_part(self) -> None:
        """Nothing ends."""

    def complete(self) -> ObjectStat:
        return ObjectStat("", self.size, 0, "")

    def abort(self) -> None:
        """Nothing is left."""


def written(layout: LakeLayout, batches: Iterator[pa.RecordBatch]) -> list[Any]:
    schema = pa.schema([("value", pa.binary())])
    sink = LakeFiles(layout, schema, "parquet", lambda number: (str(number), _Memory()))  # type: ignore[arg-type, return-value]
    for batch in batches:
        sink.add(batch)
    return sink.close()


def batch_of(times_ms: np.ndarray[Any, Any], producers: list[str], value_bytes: int = 10) -> pa.RecordBatch:
    times = pa.array(times_ms * 1000, pa.timestamp("us", tz="UTC"))
    value = pa.array([b"x" * value_bytes] * len(times), pa.binary())
    return pa.RecordBatch.from_pydict({"publish_time": times, "producer_name": pa.array(producers), "value": value})


def test_mixed_messages_become_one_file_a_folder() -> None:
    rng = np.random.default_rng(1)

    def mixed() -> Iterator[pa.RecordBatch]:
        for _ in range(20):
            days = rng.integers(0, 30, 1000) * DAY_MS + START_MS
            yield batch_of(days, [f"p{i}" for i in rng.integers(0, 10, 1000)])

    made = written(LakeLayout(("date", "producer_name")), mixed())
    assert len({one.folder for one in made}) == len(made) == 300
    assert sum(one.messages for one in made) == 20_000


def test_a_day_that_ends_within_a_batch_makes_no_further_file() -> None:
    def days() -> Iterator[pa.RecordBatch]:
        for i in range(40):
            yield batch_of(START_MS + (np.arange(1000) + 1000 * i) * (DAY_MS // 10_000), ["p"] * 1000, 5000)

    made = written(LakeLayout(("date",)), days())
    assert [(one.folder, one.messages) for one in made] == [(f"date=2023-11-{15 + i}", 10_000) for i in range(4)]


def test_what_a_folder_is_named() -> None:
    names = ["a/b", "50%", "", "ü x", "{a}[b]^", "q\"'\\", "tab\t", "a=b:c*?#"]
    rows = batch_of(np.full(len(names), START_MS + DAY_MS - 1), names)
    folders = [folder for folder, _ in LakeLayout(("producer_name", "date", "hour")).split(rows)]
    assert folders == [
        f"producer_name={name}/date=2023-11-15/hour=23"
        for name in (
            "a%2Fb", "50%25", "__HIVE_DEFAULT_PARTITION__", "ü x", "%7Ba}%5Bb%5D%5E", "q%22%27%5C", "tab%09",
            "a%3Db%3Ac%2A%3F%23",
        )
    ]  # fmt: skip


def test_what_no_export_can_have_is_an_error_or_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A ledger whose data is gone, and one whose index nobody can read: who has the rest should not take it for all."""
    bucket = tmp_path / "bucket"
    for i in (1, 2, 3):
        url = put(bucket, i, message(i))
    next(bucket.glob("*-ledger-1")).unlink()
    next(bucket.glob("*-ledger-2-index")).write_bytes(b"?")
    lake = tmp_path / "lake"
    with pytest.raises(MissingLedgerError, match="ledger 1: its index is there, its data object is gone"):
        export(spark, url, str(lake), format="jsonl")
    assert not any(files(lake)) if lake.exists() else True
    with caplog.at_level("WARNING", "ledgerfs.spark"), pytest.warns(UnplacedLedgersWarning, match="ids 2"):
        export(spark, url, str(lake), format="jsonl", on_corrupt="skip")
    assert values(lake) == ["value 3"]
    assert any("ledger 1 is left out" in line for line in caplog.messages)
    # What comes back may change what is there: nothing of it is final.
    put(bucket, 1, message(1))
    done = run_export(
        spark, url, Storage(str(lake)), ExportRequest("jsonl", scan={"on_corrupt": "skip"}), incremental=True
    )
    assert values(lake) == ["value 1", "value 3"]
    assert [topic.missing for topic in done.topics] == [[]]


# What a later export does.


def test_a_second_export_adds_what_is_new_and_a_third_nothing(
    spark: SparkSession, golden: Path, golden_url: str, tmp_path: Path
) -> None:
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    bucket.mkdir()
    ledger = re.compile(r"ledger-(\d+)")
    for path in (golden / "bucket").iterdir():
        number = ledger.search(path.name)
        if path.is_file() and (number is None or int(number[1]) < 100):
            shutil.copy2(path, bucket)
    options: dict[str, Any] = {"partition_by": ["topic", "date"], "on_encrypted": "null", "incremental": True}
    export(spark, str(bucket), str(out), **options)
    first = files(out)
    assert in_lake(out) == scanned(str(bucket), on_encrypted="null")
    for path in (golden / "bucket").iterdir():
        if path.is_file() and not (bucket / path.name).exists():
            shutil.copy2(path, bucket)
    told = export(spark, str(bucket), str(out), **options).collect()
    second = files(out)
    assert in_lake(out) == scanned(golden_url, on_encrypted="null")
    assert {row.path for row in told} == second.keys() - first.keys()
    # Only what waited for something was read again.
    assert len(first.items() - second.items()) <= 3
    assert all(row.first_ledger >= 100 for row in told if row.topic.endswith("/plain"))
    assert export(spark, str(bucket), str(out), **options).collect() == []
    assert files(out) == second
    assert (out / "_SUCCESS").exists()


def test_what_transactions_and_chunks_left_open_is_read_again_when_the_topic_has_grown(
    spark: SparkSession, tmp_path: Path
) -> None:
    ids = {"transaction_most": 1, "transaction_least": 2}
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    options: dict[str, Any] = {"format": "jsonl", "incremental": True, "partition_bytes": 1}
    put(bucket, 1, message(1))
    url = put(bucket, 2, message(2, **ids), message(3))
    export(spark, url, str(out), **options)
    assert values(out) == ["value 1", "value 3"]
    before = files(out)
    put(bucket, 3, message(4, marker_type=COMMIT, **ids), message(5, chunked_id=b"m", chunk=0, chunks=2))
    told = export(spark, url, str(out), **options).collect()
    assert values(out) == ["value 1", "value 2", "value 3"]
    assert [(row.first_ledger, row.messages) for row in told] == [(2, 2)]
    assert len(before.items() & files(out).items()) == 1
    put(bucket, 4, message(6, chunked_id=b"m", chunk=1, chunks=2))
    told = export(spark, url, str(out), **options).collect()
    assert [(row.first_ledger, row.messages) for row in told] == [(4, 1)]
    assert values(out) == ["value 1", "value 2", "value 3", "value 5value 6"]


def test_a_ledger_that_comes_late_gives_a_message_its_first_part(spark: SparkSession, tmp_path: Path) -> None:
    """What is final does not depend on how many ledgers come behind it: the late one may stand before it."""
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    part = {"chunked_id": b"m", "chunks": 2}
    options: dict[str, Any] = {"format": "jsonl", "incremental": True, "partition_bytes": 1}
    export(spark, put(bucket, 5, message(1, chunk=1, **part), message(9)), str(out), **options)
    assert values(out) == ["value 9"]
    export(spark, put(bucket, 3, message(0, chunk=0, **part), message(8)), str(out), **options)
    assert values(out) == ["value 0value 1", "value 8", "value 9"]
    before = files(out)
    assert export(spark, put(bucket, 7, message(7)), str(out), **options).count() == 1
    assert before.items() < files(out).items()
    # Without the first part, the message could not be read again.
    for path in bucket.glob("*-ledger-3*"):
        path.unlink()
    export(spark, put(bucket, 4, message(6)), str(out), **options)
    assert values(out) == ["value 0value 1", "value 6", "value 7", "value 8", "value 9"]


def test_a_lake_is_of_one_bucket_and_one_version(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    one, other = put(tmp_path / "one", 1, message(1)), put(tmp_path / "other", 2, message(2))
    export(spark, one, str(out), format="jsonl")
    with pytest.raises(InvalidOptionError, match=f"other bucket .it is of {one}.; take"):
        export(spark, other, str(out), format="jsonl", incremental=True)
    state = out / "_ledgerfs" / "state.json"
    found = json.loads(state.read_text())
    state.write_text(json.dumps({**found, "version": 2}))
    with pytest.raises(InvalidOptionError, match="a state of version 2, which this version cannot read"):
        export(spark, one, str(out), format="jsonl", incremental=True)
    assert values(out) == ["value 1"]
    state.write_text(json.dumps(found))
    export(spark, other, str(out), format="jsonl", overwrite=True)
    assert values(out) == ["value 2"]


def test_a_ledger_that_was_replaced_is_read_again_and_one_that_is_gone_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    options: dict[str, Any] = {"format": "jsonl", "incremental": True, "partition_bytes": 1}
    for i in (1, 2, 3):
        url = put(bucket, i, message(i))
    export(spark, url, str(out), **options)
    for path in [*bucket.glob("*-ledger-1*"), *bucket.glob("*-ledger-3*")]:
        path.unlink()
    put(bucket, 3, message(33), uuid=9)
    told = export(spark, url, str(out), **options).collect()
    assert [(row.first_ledger, row.messages) for row in told] == [(3, 1)]
    assert values(out) == ["value 1", "value 2", "value 33"]


def test_a_replaced_ledger_beside_one_that_is_gone_ends_the_export(spark: SparkSession, tmp_path: Path) -> None:
    """Both are in one file, which can neither stay nor be made again without losing rows."""
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    for i in (1, 2):
        url = put(bucket, i, message(i))
    (file,) = export(spark, url, str(out), format="jsonl").collect()
    for path in bucket.iterdir():
        path.unlink()
    put(bucket, 2, message(22), uuid=9)
    put(bucket, 3, message(3))
    with pytest.raises(
        ExportFolderError, match=r"ledger 2 of persistent://public/default/orders.* new folder"
    ) as caught:
        export(spark, url, str(out), format="jsonl", incremental=True)
    assert str(caught.value.key).endswith(f"/lake/{file.path}")
    assert values(out) == ["value 1", "value 2"]
    export(spark, url, str(tmp_path / "new"), format="jsonl", incremental=True)
    assert values(tmp_path / "new") == ["value 22", "value 3"]


def test_files_that_stay_and_may_lack_rows_of_transactions_are_named(spark: SparkSession, tmp_path: Path) -> None:
    ids = {"transaction_most": 1, "transaction_least": 2}
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    put(bucket, 1, message(1))
    export(spark, put(bucket, 2, message(2, **ids), message(3)), str(out), format="jsonl")
    for path in bucket.glob("*-ledger-1*"):
        path.unlink()
    url = put(bucket, 3, message(4, marker_type=COMMIT, **ids), message(5))
    with pytest.warns(OutdatedFilesWarning, match="the files of ledger 2 may lack rows of transactions"):
        export(spark, url, str(out), format="jsonl", incremental=True)
    assert values(out) == ["value 1", "value 3", "value 5"]


def test_further_topics_are_added(spark: SparkSession, golden_url: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    topics = ["persistent://public/golden/plain", "persistent://public/golden/txn"]
    export(spark, golden_url, str(out), topics=topics[:1])
    before = files(out)
    told = export(spark, golden_url, str(out), topics=topics[1:], incremental=True).collect()
    assert {row.topic for row in told} == {topics[1]}
    assert before.items() < files(out).items()


def test_ledgers_that_are_shared_are_judged_together(tmp_path: Path) -> None:
    for i in range(1, 7):
        url = put(tmp_path / "bucket", i, message(i))
    catalog = open_bucket(url).catalog
    wanted = wanted_ledgers(catalog)
    ledgers = LedgerIds(catalog, wanted)
    versions = {ref.ledger_id: ref for ref in catalog.refs()}

    final = Basis()

    def unit(*ids: int, basis: Basis = final, state: str = "") -> Unit:
        from ledgerfs.spark.lake.state import ledger_version

        found = tuple(ledger_version(versions[i]) if i in versions else "gone" for i in ids)
        return Unit("public/default/persistent/orders", ids, found, basis, state, 0, ())

    units = [
        unit(1, 2), unit(2, 3), unit(3, basis=Basis.unknown()), unit(4), unit(0, basis=Basis.unknown()),
        unit(5, basis=Basis(4, 5, (0,))), unit(6, basis=Basis(5, 6), state=TopicState(catalog.refs()).of(Basis(5, 6))),
    ]  # fmt: skip
    work = what_is_new(ledgers, wanted, units)
    assert work.replaced == units[:3]
    assert work.kept == [units[4], *units[3:4], *units[5:]]
    assert work.held == [units[4], units[5]]
    assert catalog.ledgers["ledger_id"][work.wanted].tolist() == [1, 2, 3]


def test_a_state_of_many_ledgers_is_compact_and_comes_back() -> None:
    units = tuple(
        Unit(f"t/n/persistent/topic-{i % 100}", (i,), (f"{i:016x}",), Basis(), "", 0, (LakeFile(f"topic={i}/x", 1, 2),))
        for i in range(100_000)
    )
    state = LakeState({"format": "parquet", "columns": ["key"]}, units)
    text = state.to_json()
    assert len(text) < 100 * len(units)
    assert LakeState.parse(text, "key") == state


# What is refused.


def test_a_folder_holds_one_export(spark: SparkSession, tmp_path: Path) -> None:
    url, out = put(tmp_path / "bucket", 1, message(1)), tmp_path / "lake"
    export(spark, url, str(out), format="jsonl")
    before = files(out)
    with pytest.raises(InvalidOptionError, match=f"{out}: the folder holds an export already; say incremental"):
        export(spark, url, str(out), format="jsonl")
    for options, named in (
        ({"format": "csv"}, "format"),
        ({"partition_by": ["topic"]}, "partition_by, columns"),
        ({"start_time": 0, "on_corrupt": "skip"}, "start_ms, on_corrupt"),
    ):
        with pytest.raises(InvalidOptionError, match=f"{out}: the folder holds an export with other {named}; take"):
            export(spark, url, str(out), incremental=True, **{"format": "jsonl", **options})
    assert files(out) == before
    (told,) = export(spark, url, str(out), format="csv", overwrite=True).collect()
    assert list(files(out)) == [told.path]
    (out / "mine.csv").write_text("mine")
    with pytest.raises(InvalidOptionError, match=r"the folder holds mine\.csv, which no export wrote"):
        export(spark, url, str(out), overwrite=True)
    assert sorted(files(out)) == sorted([told.path, "mine.csv"])


def test_a_folder_of_somebody_else_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    url, out = put(tmp_path / "bucket", 1, message(1)), tmp_path / "lake"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "data.parquet").write_text("mine")
    for options in ({}, {"incremental": True}, {"overwrite": True}):
        with pytest.raises(InvalidOptionError, match=r"the folder holds sub/data\.parquet, which no export wrote"):
            export(spark, url, str(out), **options)
    assert [str(path.relative_to(out)) for path in out.rglob("*")] == ["sub", "sub/data.parquet"]


def test_what_is_wrongly_asked_for_leaves_no_folder(spark: SparkSession, golden_url: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    for options in (
        {"format": "xlsx"},
        {"columns": ["no"]},
        {"start_time": "soon"},
        {"partition_by": ["key"]},
        {"partition_by": ["topic", "topic"]},
        {"partition_by": ["hour"]},
        {"partition_by": ["topic"], "columns": ["topic"]},
        {"incremental": True, "overwrite": True},
    ):
        with pytest.raises(InvalidOptionError):
            export(spark, golden_url, str(out), **options)
    assert not out.exists()
    with pytest.raises(NotFoundError):
        export(spark, golden_url, str(out), topics=["public/golden/none"])
    assert files(out) == {}


def test_relative_paths_are_those_of_the_driver_wherever_java_was_started(
    spark: SparkSession, golden_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tier").symlink_to(golden_url.removeprefix("file://"))
    monkeypatch.chdir(tmp_path)
    done = export(spark, "tier", "lake", topics=["public/golden/plain"])
    assert sum(row.messages for row in done.collect()) == 600
    assert ds.dataset(tmp_path / "lake").count_rows() == 600

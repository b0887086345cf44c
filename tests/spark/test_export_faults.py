"""Exports to a lake that are killed, fail, or meet each other: nothing half is seen, and the next one makes it whole."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from ledgerfs import open_bucket
from ledgerfs.errors import (
    BucketNotFoundError,
    CorruptMessageError,
    ExportFolderError,
    InvalidOptionError,
    ObjectNotFoundError,
)
from ledgerfs.spark.lake import commit as lake_commit
from ledgerfs.spark.lake import lock as lake_lock
from ledgerfs.spark.lake.lock import FOLDER, Holder, LakeLock
from ledgerfs.spark.lake.target import Lake
from ledgerfs.spark.pipelines import export as export_module
from ledgerfs.spark.pipelines.export import export
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.runtime.tasks import distribute
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.s3 import S3Server
from tests.support.waiting import wait_until

STEPS = ("_remove_success", "_move", "_remove", "_write_state", "_write_success", "_clear")
IDS = {"transaction_most": 1, "transaction_least": 2}
COMMIT = 21
HANG_S = 300
"""Whatever takes longer never ends."""
BROKEN = frame(metadata(), b"value")[:-1] + b"?"
OPTIONS: dict[str, Any] = {"partition_by": ["date"], "incremental": True, "partition_bytes": 1}


class Killed(BaseException):
    """What nobody catches, as nobody catches a SIGKILL."""


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d" % i)


def put(folder: Path, ledger_id: int, *entries: bytes) -> str:
    folder.mkdir(exist_ok=True)
    return put_in_folder(folder, offload(entries, ledger_id, uuid=ledger_id))


def grown(folder: Path) -> str:
    """Add to the bucket what makes an export add files and replace one."""
    return put(folder, 3, message(4, marker_type=COMMIT, **IDS), message(5))


def made_bucket(folder: Path) -> Path:
    put(folder / "bucket", 1, message(1))
    put(folder / "bucket", 2, message(2, **IDS), message(3))
    return folder / "bucket"


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return made_bucket(tmp_path)


def values(folder: Path) -> list[bytes]:
    """Return the values of a lake as readers see it."""
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return sorted(table["value"].to_pylist(), key=repr)


def data_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet") if FOLDER not in path.parts}


def is_whole(folder: Path) -> bool:
    """Return whether a lake holds what its state tells, and nothing else."""
    state = json.loads((folder / FOLDER / "state.json").read_text())
    told = {file[0] for unit in state["units"] for file in unit[6]}
    rest = {path.name for path in (folder / FOLDER).iterdir()}
    return told == data_files(folder) and (folder / "_SUCCESS").exists() and rest == {"state.json"}


# Killed while it commits.


def before(step: Callable[..., None]) -> Callable[..., None]:
    def killed(*_: Any) -> None:
        raise Killed

    return killed


def after(step: Callable[..., None]) -> Callable[..., None]:
    def killed(*arguments: Any) -> None:
        step(*arguments)
        raise Killed

    return killed


def halfway(step: Callable[..., None]) -> Callable[..., None]:
    def killed(lake: Lake, job: str, moves: tuple[Any, ...]) -> None:
        step(lake, job, moves[:1])
        raise Killed

    return killed


CHANGED = [b"value 1", b"value 2", b"value 3", b"value 5"]
KILLS = [*((name, when) for name in STEPS for when in (before, after)), ("_move", halfway)]


def is_killed_at(spark: SparkSession, url: str, out: Path, name: str, when: Any, distribute: Any = distribute) -> None:
    """Export, and see to it that this is killed at a step of its commit, which leaves nothing half that looks whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_module, "distribute", distribute)
        patch.setattr(lake_commit, name, when(getattr(lake_commit, name)))
        with pytest.raises(Killed):
            export(spark, url, str(out), **OPTIONS)
    if (out / "_SUCCESS").exists() and (name, when) != ("_remove_success", before):
        assert values(out) == CHANGED


def finish(spark: SparkSession, url: str, out: Path) -> None:
    """Have the next export finish a commit: it needs nothing but the intent, not the bucket, and not Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_module, "distribute", before(export))
        export(spark, url, str(out), **OPTIONS)
    assert values(out) == CHANGED
    assert is_whole(out)


@pytest.fixture(scope="module")
def intended(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A bucket that has grown, and a lake whose export of that was killed with its intent written, and nothing of it done."""
    folder = tmp_path_factory.mktemp("intended")
    out, url = folder / "lake", f"file://{made_bucket(folder)}"
    export(spark, url, str(out), **OPTIONS)
    assert values(out) == [b"value 1", b"value 3"]
    grown(folder / "bucket")
    is_killed_at(spark, url, out, "_remove_success", before)
    assert values(out) == [b"value 1", b"value 3"]
    return url, out


@for_each(("name", "when"), KILLS)
def test_whoever_comes_next_finishes_a_commit(
    spark: SparkSession, intended: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory, name: str, when: Any
) -> None:
    """Wherever the one before was killed that carried out the intent: one that found it, for which Spark has nothing to do."""
    url, left = intended
    out = Path(shutil.copytree(left, tmp_path_factory.mktemp("case") / "lake"))
    is_killed_at(spark, url, out, name, when, distribute=None)
    finish(spark, url, out)


@pytest.mark.parametrize(("name", "when"), [("_move", halfway), ("_write_state", after)])
def test_whoever_comes_next_finishes_the_commit_of_the_export_that_began_it(
    spark: SparkSession, bucket: Path, tmp_path: Path, name: str, when: Any
) -> None:
    out, url = tmp_path / "lake", f"file://{bucket}"
    export(spark, url, str(out), **OPTIONS)
    grown(bucket)
    is_killed_at(spark, url, out, name, when)
    finish(spark, url, out)


@pytest.mark.parametrize("written", [0, 1])
def test_what_was_not_committed_is_removed(
    spark: SparkSession, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    out = tmp_path / "lake"
    export(spark, f"file://{bucket}", str(out), **OPTIONS)
    grown(bucket)
    write, done = Lake.write, []

    def killed(lake: Lake, name: str, data: bytes) -> None:
        if len(done) == written:
            raise Killed
        done.append(name)
        write(lake, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "write", killed)
        with pytest.raises(Killed):
            export(spark, f"file://{bucket}", str(out), **OPTIONS)
    assert values(out) == [b"value 1", b"value 3"]
    assert (out / "_SUCCESS").exists()
    export(spark, f"file://{bucket}", str(out), **OPTIONS)
    assert values(out) == [b"value 1", b"value 2", b"value 3", b"value 5"]
    assert is_whole(out)


def test_on_s3_a_file_that_was_copied_and_not_removed_is_moved_again(
    spark: SparkSession, s3: S3Server, s3_bucket: str, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, options = f"s3://{s3_bucket}/lake", {**OPTIONS, "to_options": s3.options}
    lake = Lake.of(Storage(to, s3.options))
    with monkeypatch.context() as patch:

        def copied(one: Lake, source: str, name: str) -> None:
            one.fs.cp_file(one.path(source), one.path(name))
            raise Killed

        patch.setattr(Lake, "move", copied)
        with pytest.raises(Killed):
            export(spark, f"file://{bucket}", to, **options)
    assert "_SUCCESS" not in lake.files()
    export(spark, f"file://{bucket}", to, **options)
    names = {name for name in lake.files() if not name.startswith("_")}
    assert len(names) == 2
    assert lake.files().keys() - names == {"_SUCCESS", "_ledgerfs/state.json"}


def test_a_file_that_somebody_removed_meanwhile_is_told(
    spark: SparkSession, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "lake"
    with monkeypatch.context() as patch:
        patch.setattr(lake_commit, "_move", before(export))
        with pytest.raises(Killed):
            export(spark, f"file://{bucket}", str(out), **OPTIONS)
    next((out / FOLDER).rglob("*.parquet")).unlink()
    with pytest.raises(ObjectNotFoundError, match="somebody has removed this file"):
        export(spark, f"file://{bucket}", str(out), **OPTIONS)
    assert not (out / "_SUCCESS").exists()


# Killed while tasks write.


KILLED = """
import runpy, signal, sys
from ledgerfs.spark.pipelines import export

# However late it is killed, it commits nothing.
export.commit = lambda *_: signal.pause()
runpy.run_module("ledgerfs.cli.spark.export", run_name="__main__", alter_sys=True)
"""


def test_a_process_that_is_killed_leaves_nothing_that_looks_whole(
    spark: SparkSession, golden_url: str, tmp_path: Path
) -> None:
    out = tmp_path / "lake"
    options = {"partition_by": ["topic"], "on_encrypted": "null", "partition_bytes": 1 << 17}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, golden_url, "--to", str(out), "--partition-by", "topic",
         "--on-encrypted", "null", "--partition-bytes", "128KiB", "--master", "local[1]", "--conf", "spark.ui.enabled=false"],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: any((out / FOLDER).rglob("*.parquet")) or process.poll() is not None, HANG_S)
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert (out / FOLDER / "lock").exists()
    assert data_files(out) == set()
    assert not (out / "_SUCCESS").exists()
    export(spark, golden_url, str(out), incremental=True, **options)
    golden = open_bucket(golden_url)
    scans = [golden.topic(topic.name).scan(["value"], on_encrypted="null").to_table() for topic in golden.topics()]
    assert values(out) == sorted(pa.concat_tables(scans)["value"].to_pylist(), key=repr)
    assert len(values(out)) == 12_989
    assert is_whole(out)


def test_a_task_that_is_killed_and_runs_again_changes_nothing(
    spark: SparkSession, golden_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "lake", tmp_path / "whole"
    options: dict[str, Any] = {"topics_pattern": ".*/golden/(plain|chunked|txn)", "partition_bytes": 1 << 16}

    def dying(session: SparkSession, parts: Any, work: Any, schema: Any) -> Any:
        def dies_once(part: Any) -> Iterator[pa.RecordBatch]:
            results = list(work(part))
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0 and part.number % 3 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield from results

        return distribute(session, parts, dies_once, schema)

    with monkeypatch.context() as patch:
        patch.setattr(export_module, "distribute", dying)
        told = export(spark, golden_url, str(out), **options).collect()
    expected = export(spark, golden_url, str(whole), **options).collect()
    assert values(out) == values(whole)
    assert [row.messages for row in told] == [row.messages for row in expected]
    assert is_whole(out)


# Damage.


def test_damage_ends_an_export_and_leaves_the_lake_as_it_was(spark: SparkSession, bucket: Path, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    export(spark, f"file://{bucket}", str(out), **OPTIONS)
    held = data_files(out)
    put(bucket, 3, message(4), BROKEN, message(5))
    with pytest.raises(CorruptMessageError, match="entry 3:1"):
        export(spark, f"file://{bucket}", str(out), **OPTIONS)
    assert data_files(out) == held
    assert is_whole(out)


def test_a_target_that_refuses_is_named(spark: SparkSession, s3: S3Server, bucket: Path, tmp_path: Path) -> None:
    with pytest.raises(BucketNotFoundError, match="/proc/lake: "):
        export(spark, f"file://{bucket}", "/proc/lake", **OPTIONS)
    with pytest.raises(BucketNotFoundError, match="no-such-bucket/lake: ") as told:
        export(spark, f"file://{bucket}", "s3://no-such-bucket/lake", to_options=s3.options, **OPTIONS)
    assert s3.options["secret"] not in str(told.value)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        export(spark, f"file://{bucket}", str(tmp_path / "file" / "lake"), **OPTIONS)


@for_each("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "contents": {}, "topics": []}'])
def test_a_state_that_is_none_is_told(
    spark: SparkSession, bucket: Path, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    out = tmp_path_factory.mktemp("case") / "lake"
    (out / FOLDER).mkdir(parents=True)
    (out / FOLDER / "state.json").write_text(text)
    with pytest.raises(InvalidOptionError, match=r"_ledgerfs/state\.json: .*(take another folder|cannot read)"):
        export(spark, f"file://{bucket}", str(out), **OPTIONS)


# Two at a time.


def test_a_second_exporter_is_told_who_the_first_one_is(spark: SparkSession, bucket: Path, tmp_path: Path) -> None:
    lake = Lake.of(Storage(str(tmp_path / "lake")))
    with LakeLock(lake, "first"), pytest.raises(ExportFolderError, match=f"process {os.getpid()} on .*, first") as told:
        export(spark, f"file://{bucket}", str(tmp_path / "lake"), **OPTIONS)
    assert told.value.errno == errno.EBUSY
    export(spark, f"file://{bucket}", str(tmp_path / "lake"), **OPTIONS)
    assert is_whole(tmp_path / "lake")


@pytest.mark.parametrize("is_remote", [False, True])
def test_of_many_exporters_one_has_the_lock(s3: S3Server, s3_bucket: str, tmp_path: Path, is_remote: bool) -> None:
    target = Storage(f"s3://{s3_bucket}/lake", s3.options) if is_remote else Storage(str(tmp_path / "lake"))
    Lake.of(target).create(FOLDER, "lock", b"what a killed one left") if not is_remote else None
    begin, held, refused = threading.Barrier(6), [], []
    release = threading.Event()

    def take(number: int) -> None:
        begin.wait()
        try:
            with LakeLock(Lake.of(target), f"job {number}") as lock:
                lock.require()
                held.append(number)
                release.wait(2 * HANG_S)
        except ExportFolderError:
            refused.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(held) + len(refused) == 6, HANG_S)
    release.set()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 5)
    assert Lake.of(target).files(FOLDER) == {}


def test_who_takes_a_lock_over_never_removes_that_of_who_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.of(Storage(str(tmp_path / "lake")))
    lake.create(FOLDER, "lock", b"what a killed one left")
    faster = LakeLock(lake, "faster")
    read = Lake.read

    def overtaken(self: Lake, name: str) -> bytes | None:
        """The other one is faster, just after the first look."""
        data = read(self, name)
        monkeypatch.setattr(Lake, "read", read)
        faster.__enter__()
        return data

    monkeypatch.setattr(Lake, "read", overtaken)
    with pytest.raises(ExportFolderError, match="faster"), LakeLock(lake, "slower"):
        pass
    faster.require()
    faster.__exit__(None, None, None)
    assert lake.files(FOLDER) == {}


@for_each("is_alive", [False, True])
def test_who_was_killed_while_it_took_a_lock_over_is_in_nobodys_way(
    tmp_path_factory: pytest.TempPathFactory, is_alive: bool
) -> None:
    lake = Lake.of(Storage(str(tmp_path_factory.mktemp("case") / "lake")))
    lake.create(FOLDER, "lock", b"what a killed one left")
    here = Holder.here("taker")
    lake.create(FOLDER, "lock-taking-over", lake_lock._encoded(here if is_alive else replace(here, started="12")))
    if is_alive:
        with pytest.raises(ExportFolderError, match="taker"), LakeLock(lake, "other"):
            pass
        return
    with LakeLock(lake, "other") as lock:
        lock.require()
    assert lake.files(FOLDER) == {}


@for_each(
    ("holder_of", "is_gone"),
    [
        (lambda here: replace(here, process=2**22 + 1, started="12"), True),
        (lambda here: replace(here, started="12"), True),
        (lambda here: replace(here, until=time.time() - 1), True),
        (lambda here: replace(here, host="elsewhere", process=1, started="12", until=time.time() - 1), True),
        (lambda here: replace(here, host="elsewhere", process=1, started="12"), False),
        (lambda here: here, False),
    ],
)
def test_a_lock_ends_with_its_holder(
    tmp_path_factory: pytest.TempPathFactory, holder_of: Callable[[Holder], Holder], is_gone: bool
) -> None:
    holder = holder_of(Holder.here("job"))
    lake = Lake.of(Storage(str(tmp_path_factory.mktemp("case") / "lake")))
    lake.create(FOLDER, "lock", lake_lock._encoded(holder))
    assert holder.is_gone == is_gone
    if not is_gone:
        with pytest.raises(ExportFolderError), LakeLock(lake, "other"):
            pass
        return
    with LakeLock(lake, "other") as lock:
        lock.require()


def test_who_lost_its_lock_or_finds_another_state_commits_nothing(
    spark: SparkSession, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "lake"
    export(spark, f"file://{bucket}", str(out), **OPTIONS)
    held = data_files(out)
    grown(bucket)
    run = export_module._run
    state = out / FOLDER / "state.json"

    def meanwhile(change: Callable[[], object]) -> Callable[..., Any]:
        def ran(*arguments: Any) -> Any:
            done = run(*arguments)
            change()
            return done

        return ran

    for change, told in (
        (lambda: state.write_text(state.read_text() + " "), "another export has written to this folder meanwhile"),
        (
            lambda: (out / FOLDER / "lock").write_bytes(lake_lock._encoded(Holder.here("other"))),
            "on .*, other; if it is no more",
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(export_module, "_run", meanwhile(change))
            with pytest.raises(ExportFolderError, match=told):
                export(spark, f"file://{bucket}", str(out), **OPTIONS)
        assert data_files(out) == held
        assert [path for path in (out / FOLDER).iterdir() if path.is_dir()] == []
    # A lock that is not ours is not removed, either.
    assert b"other" in (out / FOLDER / "lock").read_bytes()


def test_a_lock_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_lock, "_RENEWED_SECONDS", 0.01)
    lake = Lake.of(Storage(str(tmp_path / "lake")))
    with LakeLock(lake, "job"):
        first = lake.read(f"{FOLDER}/lock")
        wait_until(lambda: lake.read(f"{FOLDER}/lock") not in (None, first), HANG_S)


@pytest.mark.parametrize("name", ["out*", "out[1]", "out?", "out"])
def test_a_folder_is_removed_and_no_other(name: str, s3: S3Server, s3_bucket: str) -> None:
    """Also where its name would be a pattern."""
    keys = [f"{folder}/staged/{file}" for folder in (name, "out-eu", "out1", "out11") for file in "ab"]
    for key in keys:
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=b"x")
    lake = Lake.of(Storage(f"s3://{s3_bucket}/{name}", s3.options))
    assert set(lake.files("staged")) == {"staged/a", "staged/b"}
    lake.remove_folder("staged")
    left = {one["Key"] for one in s3.client.list_objects_v2(Bucket=s3_bucket)["Contents"]}
    assert left == {key for key in keys if not key.startswith(f"{name}/")}

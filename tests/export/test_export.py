"""Exports: what they write, what they keep, and what is left when they fail."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import CorruptMessageError, ExportFolderError, InvalidOptionError, NotFoundError
from ledgerfs.export import export as export_module
from ledgerfs.export import folder as export_folder
from ledgerfs.export.export import ExportReport, export_topic
from ledgerfs.export.folder import RECORD_NAME, ExportFolder
from ledgerfs.export.folder_lock import LOCK_NAME, locked
from ledgerfs.tables.table_files import TABLE_KINDS
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.json_lines import slow_lines
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

NAME = "persistent://public/default/orders"
COMMIT = 21
BROKEN = frame(metadata(), b"value")[:-1] + b"?"


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d" % i)


def put(folder: Path, ledger_id: int, *entries: bytes, uuid: int | None = None) -> Topic:
    """Write one ledger into a bucket, and return the topic as one who opens the bucket now sees it."""
    folder.mkdir(exist_ok=True)
    url = put_in_folder(folder, offload(entries, ledger_id, uuid=uuid or ledger_id))
    return open_bucket(url).topic(NAME)


def files(folder: Path) -> list[str]:
    """Return the names that a reader of the folder sees."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what changes when a file is written anew."""
    return {name: ((folder / name).stat().st_ino, (folder / name).stat().st_mtime_ns) for name in files(folder)}


def values(folder: Path) -> dict[str, list[str | None]]:
    """Return the values in each JSON-lines file."""
    return {
        name: [json.loads(line)["value"] for line in (folder / name).read_text().splitlines()] for name in files(folder)
    }


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RECORD_NAME).read_text())
    return found


# What is written.


@for_each("name", ["plain", "chunked", "txn", "batched-lz4"])
def test_the_files_together_are_the_scan(bucket: Bucket, case_path: Path, name: str) -> None:
    topic = bucket.topic(f"public/golden/{name}")
    whole = topic.scan().to_arrow()
    for kind in TABLE_KINDS:
        report = export_topic(topic, case_path / kind, kind)
        assert (report.rows, report.kept) == (whole.num_rows, 0)
        assert report.size == sum(path.stat().st_size for path in (case_path / kind).glob(f"[0-9]*.{kind}"))
        assert report.written == len(files(case_path / kind))
    in_order = sorted((case_path / "parquet").glob("*.parquet"), key=lambda path: int(path.stem))
    assert [path.stem for path in in_order] == [str(ledger.ref.ledger_id) for ledger in topic.ledgers]
    assert pa.concat_tables(map(pq.read_table, in_order)) == whole
    assert pq.read_table(case_path / "parquet").num_rows == whole.num_rows
    lines = b"".join((case_path / "jsonl" / f"{path.stem}.jsonl").read_bytes() for path in in_order)
    assert lines == b"".join(map(slow_lines, whole.to_batches()))


def test_an_encrypted_topic_needs_its_key_which_is_not_recorded(bucket: Bucket, golden: Path, tmp_path: Path) -> None:
    topic = bucket.topic("public/golden/encrypted")
    key = golden / "keys" / "private.pem"
    report = export_topic(topic, tmp_path, "jsonl", private_keys={"golden.key": key.read_text()})
    assert report.rows == 120
    assert record(tmp_path)["contents"]["private_keys"] == ["golden.key"]
    assert "PRIVATE KEY" not in (tmp_path / RECORD_NAME).read_text()
    with pytest.raises(InvalidOptionError, match="other private_keys, on_encrypted"):
        export_topic(topic, tmp_path, "jsonl", on_encrypted="null")


# What is kept.


def test_finished_files_are_kept_and_new_ledgers_added(tmp_path: Path) -> None:
    put(tmp_path / "bucket", 1, message(1), message(2))
    topic = put(tmp_path / "bucket", 2, message(3))
    out = tmp_path / "out"
    assert export_topic(topic, out, "jsonl").written == 2
    before = states(out)
    assert export_topic(topic, out, "jsonl") == ExportReport(NAME, kept=2)
    report = export_topic(put(tmp_path / "bucket", 3, message(4)), out, "jsonl")
    assert (report.written, report.kept, report.rows) == (1, 2, 1)
    assert states(out).items() > before.items()
    assert values(out) == {"1.jsonl": ["value 1", "value 2"], "2.jsonl": ["value 3"], "3.jsonl": ["value 4"]}


def test_a_replaced_ledger_and_a_file_that_is_not_ours_any_more_are_made_anew(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for i in (1, 2, 3):
        topic = put(tmp_path / "bucket", i, message(i))
    export_topic(topic, out, "jsonl")
    (out / "1.jsonl").write_bytes(b"cut")
    (out / "3.jsonl").unlink()
    for path in (tmp_path / "bucket").glob("*-ledger-2*"):
        path.unlink()
    report = export_topic(put(tmp_path / "bucket", 2, message(7), uuid=77), out, "jsonl")
    assert (report.written, report.kept) == (3, 0)
    assert values(out) == {"1.jsonl": ["value 1"], "2.jsonl": ["value 7"], "3.jsonl": ["value 3"]}


def test_a_ledger_without_messages_has_no_file_and_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "bucket", 1, message(1))
    topic = put(tmp_path / "bucket", 2, message(2_000_000))
    out = tmp_path / "out"
    options = {"start_time": CREATED_MS + 1_000_000}
    assert export_topic(topic, out, "csv", **options).written == 1
    assert files(out) == ["2.csv"]
    assert record(out)["ledgers"]["1"]["rows"] == 0
    monkeypatch.setattr(export_module, "write_table", None)
    assert export_topic(topic, out, "csv", **options) == ExportReport(NAME, kept=1)


def test_a_replaced_ledger_without_messages_takes_its_file_away(tmp_path: Path) -> None:
    topic = put(tmp_path / "bucket", 1, message(5))
    export_topic(topic, tmp_path / "out", "csv")
    for path in (tmp_path / "bucket").iterdir():
        path.unlink()
    export_topic(put(tmp_path / "bucket", 1, message(6, marker_type=COMMIT), uuid=9), tmp_path / "out", "csv")
    assert files(tmp_path / "out") == []


# Other contents.


def test_a_folder_holds_one_export(tmp_path: Path) -> None:
    topic = put(tmp_path / "bucket", 1, message(1))
    out = tmp_path / "out"
    export_topic(topic, out, "jsonl")
    for options, named in (
        ({"kind": "csv"}, "format"),
        ({"columns": ["value"]}, "columns"),
        ({"start_time": 0, "on_corrupt": "skip"}, "start_ms, on_corrupt"),
        ({"start_time": 0, "clock_slack_ms": 0}, "start_ms, clock_slack_ms"),
    ):
        with pytest.raises(
            InvalidOptionError, match=f"{out}: the folder contains an export with other {named}; choose another"
        ):
            export_topic(topic, out, **{"kind": "jsonl", **options})
    assert files(out) == ["1.jsonl"]
    assert export_topic(topic, out, "csv", overwrite=True).written == 1
    assert files(out) == ["1.csv"]
    assert export_topic(topic, out, "csv", overwrite=True).kept == 1


def test_files_that_no_export_made_are_not_touched(tmp_path: Path) -> None:
    topic = put(tmp_path / "bucket", 1, message(1))
    others = ["2024.pdf", "5-partition-1.txt", "5-partition-x.csv", "notes.csv"]
    for name in ("7.csv", "5-partition-1.csv"):
        out = tmp_path / f"of {name}"
        out.mkdir()
        for other in (*others, ".hidden.part", name):
            (out / other).write_bytes(b"mine")
        with pytest.raises(InvalidOptionError, match=f"{name}, which is not from an export"):
            export_topic(topic, out, "csv")
        export_topic(topic, out, "csv", overwrite=True)
        assert files(out) == ["1.csv", *others]
        assert (out / ".hidden.part").exists()


def test_a_record_that_is_none_or_of_another_version_is_reported(tmp_path: Path) -> None:
    topic, out = put(tmp_path / "bucket", 1, message(1)), tmp_path / "out"
    export_topic(topic, out, "csv")
    found = record(out)
    other = json.dumps({**found, "version": found["version"] - 1})
    for text in ("", "[]", "{}", '{"version": 99}', '{"version": 1, "contents": {}}', other):
        (out / RECORD_NAME).write_text(text)
        for overwrite in (False, True):
            with pytest.raises(InvalidOptionError, match=r"\.ledgerfs-export\.json: .*choose another folder"):
                export_topic(topic, out, "csv", overwrite=overwrite)
        assert files(out) == ["1.csv"]


def test_what_is_wrongly_asked_for_leaves_no_folder(bucket: Bucket, tmp_path: Path) -> None:
    topic = bucket.topic("public/golden/plain")
    for kind, options in (("xlsx", {}), ("csv", {"columns": ["no"]}), ("csv", {"start_time": "soon"})):
        with pytest.raises(InvalidOptionError):
            export_topic(topic, tmp_path / "out", kind, **options)
    assert not (tmp_path / "out").exists()


# Failures.


def test_damage_ends_it_or_is_left_out_and_reported_again(tmp_path: Path) -> None:
    for i, entries in enumerate(([message(1)], [message(2), BROKEN, message(3)], [message(4)]), 1):
        topic = put(tmp_path / "bucket", i, *entries)
    with pytest.raises(CorruptMessageError, match="entry 2:1"):
        export_topic(topic, tmp_path / "out", "jsonl")
    assert values(tmp_path / "out") == {"1.jsonl": ["value 1"]}
    assert not list((tmp_path / "out").glob(".*.part"))
    assert list(record(tmp_path / "out")["ledgers"]) == ["1"]
    out = tmp_path / "skipped"
    report = export_topic(topic, out, "jsonl", on_corrupt="skip")
    assert [(one.ledger_id, one.first_entry) for one in report.skipped] == [(2, 1)]
    assert values(out)["2.jsonl"] == ["value 2", "value 3"]
    assert export_topic(topic, out, "jsonl", on_corrupt="skip") == ExportReport(NAME, kept=3, skipped_before=1)


def failing_after(rows: int, error: BaseException) -> Callable[..., int]:
    """Return a writer that ends with an error when it has written some rows of a file."""
    write = export_module.write_table

    def fail(batches: Any, schema: pa.Schema, sink: Any, kind: str) -> int:
        def some() -> Any:
            yield next(batches).slice(0, rows)
            raise error

        return write(some(), schema, sink, kind)

    return fail


@for_each("kind", TABLE_KINDS)
@for_each("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_written_is_left(
    bucket: Bucket,
    case_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    error: BaseException,
) -> None:
    topic = bucket.topic("public/golden/plain")
    with monkeypatch.context() as patch:
        patch.setattr(export_module, "write_table", failing_after(5, error))
        with pytest.raises((ExportFolderError, KeyboardInterrupt)) as raised:
            export_topic(topic, case_path, kind)
    if isinstance(error, OSError):
        assert str(raised.value) == f"{case_path}/26.{kind}: No space left on device"
        assert raised.value.errno == 28
    assert sorted(path.name for path in case_path.iterdir()) == [RECORD_NAME, LOCK_NAME]
    assert export_topic(topic, case_path, kind).written == 3


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, bucket: Bucket) -> None:
    topic = bucket.topic("public/golden/plain")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExportFolderError, match=f"{tmp_path}/file: File exists"):
        export_topic(topic, tmp_path / "file", "csv")
    with pytest.raises(ExportFolderError, match="/proc/nowhere: "):
        export_topic(topic, Path("/proc/nowhere"), "csv")


def test_what_a_killed_export_left_is_removed(tmp_path: Path, bucket: Bucket) -> None:
    topic = bucket.topic("public/golden/plain")
    export_topic(topic, tmp_path, "csv")
    (tmp_path / ".84.csv.part").write_bytes(b"half")
    (tmp_path / f".{RECORD_NAME}.part").write_bytes(b"half")
    assert export_topic(topic, tmp_path, "csv").kept == 3
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == [RECORD_NAME, LOCK_NAME]


def test_the_bucket_is_listed_while_the_folder_is_locked(bucket: Bucket, tmp_path: Path) -> None:
    """What was listed before may be older than what another export has written meanwhile, which would be undone."""
    topic, refresh, listed = bucket.topic("public/golden/plain"), Bucket.refresh, []

    def refreshed(of: Bucket, *given: Any) -> Any:
        listed.append(of)
        with pytest.raises(ExportFolderError, match="another export or import is using this folder"), locked(tmp_path):
            pass
        return refresh(of, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "refresh", refreshed)
        assert export_topic(topic, tmp_path, "csv").written == 3
    assert listed == [bucket]


def test_a_topic_that_is_gone_since_it_was_looked_up_is_not_found(tmp_path: Path) -> None:
    topic, folder = put(tmp_path / "bucket", 1, message(1)), tmp_path / "bucket"
    export_topic(topic, tmp_path / "out", "csv")
    for path in folder.glob("*-ledger-1*"):
        path.unlink()
    for out in (tmp_path / "out", tmp_path / "another"):
        with pytest.raises(NotFoundError, match="no ledger of this topic in the bucket"):
            export_topic(topic, out, "csv")
    assert (tmp_path / "out" / "1.csv").exists()
    assert not (tmp_path / "another").exists()


def test_a_lock_that_its_holder_has_removed_keeps_nobody_out(tmp_path: Path) -> None:
    """An export that came to nothing removes its folder: who had opened the lock before does not go on without it."""
    out, flock = tmp_path / "out", fcntl.flock

    def removed_meanwhile(lock: Any, kind: int) -> None:
        flock(lock, kind)
        shutil.rmtree(out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", removed_meanwhile)
        with pytest.raises(ExportFolderError, match="another export or import is using this folder"), locked(out):
            pass
    with pytest.raises(ZeroDivisionError), locked(out):
        raise ZeroDivisionError
    assert not out.exists()
    out.mkdir()
    with pytest.raises(ZeroDivisionError), locked(out):
        raise ZeroDivisionError
    assert [one.name for one in out.iterdir()] == [LOCK_NAME]


def test_a_large_record_is_saved_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(1, 9):
        topic = put(tmp_path / "bucket", i, message(i))
    monkeypatch.setattr(export_folder, "_FEW_LEDGERS", 0)
    monkeypatch.setattr(export_folder, "_SHARE_OF_SAVING", 1e9)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        # As if killed: what the end would save is lost.
        patch.setattr(export_folder.ExportFolder, "__exit__", lambda *_: None)
        export_topic(topic, out, "csv")
    assert record(out)["ledgers"] == {}
    assert export_topic(topic, out, "csv").written == 8
    assert export_topic(topic, out, "csv").kept == 8
    shutil.rmtree(out)
    assert export_topic(topic, out, "csv").written == 8


# Ledgers that come late, and go.


def chunk(i: int, of: int = 2, name: bytes = b"m") -> bytes:
    return message(i, chunked_id=name, chunk=i, chunks=of)


def remove(folder: Path, ledger_id: int) -> Topic:
    for path in folder.glob(f"*-ledger-{ledger_id}*"):
        path.unlink()
    return open_bucket(f"file://{folder}").topic(NAME)


def exported(folder: Path) -> dict[str, list[str | None]]:
    return {name: rows for name, rows in values(folder).items() if rows}


IDS = {"transaction_most": 1, "transaction_least": 2}
ACROSS: dict[str, dict[int, list[bytes]]] = {
    "a message of chunks": {
        1: [message(1), chunk(0, 4)], 3: [chunk(1, 4)], 4: [chunk(2, 4), message(3)], 6: [chunk(3, 4)], 9: [message(6)],
    },
    # Its producer was not sure of a part; the message is where it was whole first.
    "a part that was sent again": {1: [chunk(0, name=b"r")], 4: [chunk(1, name=b"r")], 6: [message(2), chunk(1, name=b"r")]},
    "a transaction": {
        1: [message(1)], 3: [message(2, **IDS)], 4: [message(4, **IDS), message(3)], 6: [message(5, **IDS)],
        9: [message(6, marker_type=COMMIT, **IDS)],
    },
}  # fmt: skip
"""Ledgers of a topic, by what goes across them."""
ACROSS["all of it"] = {
    number: [one for made in ACROSS.values() for one in made.get(number, ())] for number in (1, 3, 4, 6, 9)
}


@for_each("late", [[], [4], [1, 9], [4, 9]])
@for_each("what", list(ACROSS))
def test_an_export_in_steps_is_one_at_once(case_path: Path, what: str, late: list[int]) -> None:
    """Whatever ledgers come, and in what order."""
    ledgers, out = ACROSS[what], case_path / "out"
    late = [number for number in late if number in ledgers]
    for number in (*(one for one in ledgers if one not in late), *late):
        topic = put(case_path / "bucket", number, *ledgers[number])
        export_topic(topic, out, "jsonl")
    assert export_topic(topic, out, "jsonl").written == 0
    export_topic(topic, case_path / "whole", "jsonl")
    assert exported(out) == exported(case_path / "whole")
    rows = [value for name in sorted(values(out)) for value in values(out)[name]]
    assert len(rows) == topic.count()


def test_rows_that_came_from_ledgers_which_are_gone_stay(tmp_path: Path) -> None:
    """Made anew, a file would lose its chunked message, whose first part nobody has any more."""
    out = tmp_path / "out"
    ids = {"transaction_most": 1, "transaction_least": 2}
    put(tmp_path / "bucket", 2, chunk(0))
    export_topic(put(tmp_path / "bucket", 8, chunk(1), message(9, **ids)), out, "jsonl")
    remove(tmp_path / "bucket", 2)
    topic = put(tmp_path / "bucket", 9, message(1, marker_type=COMMIT, **ids))
    report = export_topic(topic, out, "jsonl")
    assert (held(report), values(out)) == ([8], {"8.jsonl": ["value 0value 1"]})
    assert "a new file would lack rows of deleted ledgers: 2" in str(report.held[0])
    # When it is there again, so are all rows.
    report = export_topic(put(tmp_path / "bucket", 2, chunk(0)), out, "jsonl")
    assert (held(report), values(out)) == ([], {"8.jsonl": ["value 0value 1", "value 9"]})


def held(report: ExportReport) -> list[int]:
    return [one.ledger_id for one in report.held]


def test_a_replaced_ledger_takes_no_rows_away_that_cannot_be_made_again(tmp_path: Path) -> None:
    """Whether it is a copy or another ledger of its id: the export names it, and its file stays."""
    put(tmp_path / "bucket", 2, chunk(0))
    export_topic(put(tmp_path / "bucket", 8, chunk(1), message(9)), tmp_path / "out", "jsonl")
    for number, entries in enumerate(([message(3)], [chunk(1), message(9)])):
        for path in (tmp_path / "bucket").iterdir():
            path.unlink()
        topic = put(tmp_path / "bucket", 8, *entries, uuid=88 + number)
        report = export_topic(topic, tmp_path / "out", "jsonl")
        assert (report.written, report.kept, held(report)) == (0, 1, [8])
        assert values(tmp_path / "out") == {"8.jsonl": ["value 0value 1", "value 9"]}
    done = run("export", topic.bucket.url, NAME, str(tmp_path / "out"), "--format", "jsonl", code=1)
    assert b"its file may lack rows, but is not written again" in done.stderr


def test_a_ledger_that_is_gone_before_its_transactions_ended_is_named(tmp_path: Path) -> None:
    ids = {"transaction_most": 1, "transaction_least": 2}
    export_topic(put(tmp_path / "bucket", 8, message(9, **ids)), tmp_path / "out", "jsonl")
    topic = put(tmp_path / "bucket", 9, message(1, marker_type=COMMIT, **ids))
    remove(tmp_path / "bucket", 8)
    for _ in range(2):
        report = export_topic(topic.bucket.topic(NAME), tmp_path / "out", "jsonl")
        assert "ledger 8: it had open transactions or incomplete chunked messages" in str(*report.held)


# Which bucket.


def test_a_folder_is_an_export_of_one_bucket(tmp_path: Path) -> None:
    topic, other = put(tmp_path / "one", 1, message(1)), put(tmp_path / "other", 2, message(2))
    out = tmp_path / "out"
    export_topic(topic, out, "jsonl")
    with pytest.raises(InvalidOptionError, match=f"an export of file://{tmp_path}/one; choose"):
        export_topic(other, out, "jsonl")
    assert values(out) == {"1.jsonl": ["value 1"]}
    export_topic(other, out, "jsonl", overwrite=True)
    assert values(out) == {"2.jsonl": ["value 2"]}


def test_a_bucket_that_is_reached_in_another_way_is_known_by_its_objects(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, offload([message(1)], 1, uuid=1))
    out = tmp_path / "out"

    def exported_otherwise() -> ExportReport:
        """As if the last export had reached the bucket by another endpoint."""
        record = json.loads((out / RECORD_NAME).read_text())
        record["contents"]["bucket"]["identity"] = "0" * 64
        (out / RECORD_NAME).write_text(json.dumps(record))
        return export_topic(open_bucket(url).topic(NAME), out, "jsonl")

    export_topic(open_bucket(url).topic(NAME), out, "jsonl")
    assert exported_otherwise().kept == 1
    put_in_folder(tmp_path, offload([message(2)], 1, uuid=1))
    with pytest.raises(InvalidOptionError, match=r"an export of file:.*, with other storage options"):
        exported_otherwise()


# Folders where others may plant files: no link is followed, and nothing is made empty that the export did not make.

PLAIN = "public/golden/plain"


@pytest.fixture
def plain(golden: Path) -> Topic:
    return open_bucket(f"file://{golden}/bucket").topic(PLAIN)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"{}")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def first_part(plain: Topic) -> str:
    return f".{plain.ledgers[0].ref.ledger_id}.parquet.part"


@for_each("name", ["lock", "record", "record's part", "part", "dangling lock"])
def test_a_planted_link_is_an_error_that_names_it(name: str, plain: Topic, tmp_path: Path, golden: Path) -> None:
    out, victim = tmp_path / name / "out", tmp_path / name / "victim"
    out.mkdir(parents=True)
    victim.write_bytes(b"{}")
    names = {
        "lock": LOCK_NAME,
        "record": RECORD_NAME,
        "record's part": f".{RECORD_NAME}.part",
        "part": first_part(plain),
    }
    link = out / names.get(name, LOCK_NAME)
    link.symlink_to(victim if name in names else out.parent / "nowhere")
    done = run("export", f"file://{golden}/bucket", PLAIN, str(out), code=2)
    assert str(link) in done.stderr.decode()
    assert "a symbolic link, which is not followed" in done.stderr.decode()
    with pytest.raises(ExportFolderError, match="a symbolic link, which is not followed") as caught:
        export_topic(plain, out, "parquet")
    assert caught.value.key == str(link)
    assert link.is_symlink()
    assert victim.read_bytes() == b"{}"
    assert not (out.parent / "nowhere").exists()


def test_a_part_that_is_planted_while_the_export_runs_is_not_written_to(plain: Topic, out: Path, victim: Path) -> None:
    link = out / first_part(plain)
    with ExportFolder(out, {}, ".parquet", {}) as folder:
        link.symlink_to(victim)
        with pytest.raises(ExportFolderError) as caught, folder.writing(str(plain.ledgers[0].ref.ledger_id)) as file:
            file.write(b"lost")
    assert caught.value.key == str(link)
    assert link.is_symlink()
    assert victim.read_bytes() == b"{}"


def test_a_hard_link_in_the_place_of_the_lock_or_a_part_is_not_emptied(plain: Topic, out: Path, victim: Path) -> None:
    (out / LOCK_NAME).hardlink_to(victim)
    (out / first_part(plain)).hardlink_to(victim)
    assert export_topic(plain, out, "parquet").rows
    assert victim.read_bytes() == b"{}"


@for_each("name", ["lock", "part"])
def test_pipes_do_not_hang_an_export(name: str, plain: Topic, tmp_path: Path, golden: Path) -> None:
    out = tmp_path / name
    out.mkdir()
    pipe = out / (LOCK_NAME if name == "lock" else first_part(plain))
    os.mkfifo(pipe)
    said = run("export", f"file://{golden}/bucket", PLAIN, str(out), code=2).stderr.decode()
    assert str(pipe) in said
    assert "not a regular file" in said


def test_a_link_in_the_place_of_a_finished_file_is_replaced_and_not_its_target(
    plain: Topic, out: Path, tmp_path: Path
) -> None:
    report = export_topic(plain, out, "parquet")
    file = out / f"{plain.ledgers[0].ref.ledger_id}.parquet"
    content = file.read_bytes()
    target = tmp_path / "target"
    target.write_bytes(b"x" * len(content))
    file.unlink()
    file.symlink_to(target)
    again = export_topic(plain, out, "parquet")
    assert (again.written, again.kept) == (1, report.written - 1)
    assert not file.is_symlink()
    assert file.read_bytes() == content
    assert target.read_bytes() == b"x" * len(content)


# What cannot be known any more.


def test_a_file_that_is_not_as_it_was_written_takes_no_rows_away_that_cannot_be_made_again(tmp_path: Path) -> None:
    """Its ledger is gone, or one that it has rows of: parts of a message, or the outcome of a transaction."""
    ids = {"transaction_most": 1, "transaction_least": 2}
    cases = {
        "own": (8, [message(1)], [message(2)]),
        "part": (9, [chunk(0)], [chunk(1)]),
        "outcome": (8, [message(1, **ids)], [message(2, marker_type=COMMIT, **ids)]),
    }
    for name, (broken, first, second) in cases.items():
        bucket, out = tmp_path / f"bucket-{name}", tmp_path / f"out-{name}"
        put(bucket, 8, *first)
        export_topic(put(bucket, 9, *second), out, "jsonl")
        topic = remove(bucket, 9 if name == "outcome" else 8)
        for content in (b"cut", None):
            if content is None:
                (out / f"{broken}.jsonl").unlink()
            else:
                (out / f"{broken}.jsonl").write_bytes(content)
            report = export_topic(topic, out, "jsonl")
            assert (held(report), "is missing or was changed" in str(report.held[0])) == ([broken], True), name


def test_an_outcome_that_is_replaced_changes_the_files_that_depend_on_it(tmp_path: Path) -> None:
    ids = {"transaction_most": 1, "transaction_least": 2}
    bucket, out = tmp_path / "bucket", tmp_path / "out"
    put(bucket, 8, message(1, **ids))
    export_topic(put(bucket, 9, message(2, marker_type=22, **ids)), out, "jsonl")
    assert values(out) == {}
    remove(bucket, 9)
    export_topic(put(bucket, 9, message(2, marker_type=COMMIT, **ids), uuid=99), out, "jsonl")
    assert values(out) == {"8.jsonl": ["value 1"]}


def test_what_is_gone_is_still_named_if_its_file_lacks_rows_or_was_never_made(tmp_path: Path) -> None:
    bucket, out = tmp_path / "bucket", tmp_path / "out"
    put(bucket, 8, BROKEN, message(1))
    put(bucket, 9, message(2))
    topic = put(bucket, 10, BROKEN)
    assert len(export_topic(topic, out, "jsonl", on_corrupt="skip").skipped) == 2
    report = export_topic(remove(bucket, 8), out, "jsonl", on_corrupt="skip")
    assert report.skipped_before == 2
    other = tmp_path / "other"
    with pytest.raises(CorruptMessageError):
        export_topic(topic.bucket.topic(NAME), other, "jsonl")
    report = export_topic(remove(bucket, 10), other, "jsonl")
    assert "an earlier export found it but wrote no file, and it was deleted" in str(*report.held)
    (other / "77.jsonl").write_text("{}\n")
    report = export_topic(topic.bucket.topic(NAME), other, "jsonl")
    assert [one.ledger_id for one in report.held] == [10, 77]


def test_a_ledger_that_was_left_out_and_is_deleted_is_still_named(tmp_path: Path) -> None:
    bucket, out = tmp_path / "bucket", tmp_path / "out"
    put(bucket, 8, message(1))
    topic = put(bucket, 9, message(2))
    (data,) = bucket.glob("*-ledger-9")
    data.unlink()
    assert [one.ledger_id for one in export_topic(topic, out, "jsonl", on_corrupt="skip").missing] == [9]
    topic = remove(bucket, 9)
    for _ in range(2):
        assert held(export_topic(topic, out, "jsonl", on_corrupt="skip")) == [9]

"""Exports into folders where others may plant files: no link is followed, and nothing is made empty that the export did not make."""

import os
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import ExportFolderError
from ledgerfs.export.export import export_topic
from ledgerfs.export.folder import RECORD_NAME, ExportFolder
from ledgerfs.export.folder_lock import LOCK_NAME
from tests.support.each import for_each
from tests.support.invoked import run

PLAIN = "public/golden/plain"


@pytest.fixture
def topic(golden: Path) -> Topic:
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


def first_part(topic: Topic) -> str:
    return f".{topic.ledgers[0].ref.ledger_id}.parquet.part"


@for_each("name", ["lock", "record", "record's part", "part", "dangling lock"])
def test_a_planted_link_is_an_error_that_names_it(name: str, topic: Topic, tmp_path: Path, golden: Path) -> None:
    out, victim = tmp_path / name / "out", tmp_path / name / "victim"
    out.mkdir(parents=True)
    victim.write_bytes(b"{}")
    names = {
        "lock": LOCK_NAME,
        "record": RECORD_NAME,
        "record's part": f".{RECORD_NAME}.part",
        "part": first_part(topic),
    }
    link = out / names.get(name, LOCK_NAME)
    link.symlink_to(victim if name in names else out.parent / "nowhere")
    done = run("export", f"file://{golden}/bucket", PLAIN, str(out), code=2)
    assert str(link) in done.stderr.decode()
    assert "a link, which is not followed" in done.stderr.decode()
    with pytest.raises(ExportFolderError, match="a link, which is not followed") as caught:
        export_topic(topic, out, "parquet")
    assert caught.value.key == str(link)
    assert link.is_symlink()
    assert victim.read_bytes() == b"{}"
    assert not (out.parent / "nowhere").exists()


def test_a_part_that_is_planted_while_the_export_runs_is_not_written_to(topic: Topic, out: Path, victim: Path) -> None:
    link = out / first_part(topic)
    with ExportFolder(out, {}, ".parquet", {}) as folder:
        link.symlink_to(victim)
        with pytest.raises(ExportFolderError) as caught, folder.writing(str(topic.ledgers[0].ref.ledger_id)) as file:
            file.write(b"lost")
    assert caught.value.key == str(link)
    assert link.is_symlink()
    assert victim.read_bytes() == b"{}"


def test_a_hard_link_in_the_place_of_the_lock_or_a_part_is_not_emptied(topic: Topic, out: Path, victim: Path) -> None:
    (out / LOCK_NAME).hardlink_to(victim)
    (out / first_part(topic)).hardlink_to(victim)
    assert export_topic(topic, out, "parquet").rows
    assert victim.read_bytes() == b"{}"


@for_each("name", ["lock", "part"])
def test_pipes_do_not_hang_an_export(name: str, topic: Topic, tmp_path: Path, golden: Path) -> None:
    out = tmp_path / name
    out.mkdir()
    pipe = out / (LOCK_NAME if name == "lock" else first_part(topic))
    os.mkfifo(pipe)
    said = run("export", f"file://{golden}/bucket", PLAIN, str(out), code=2).stderr.decode()
    assert str(pipe) in said
    assert "not a regular file" in said


def test_a_link_in_the_place_of_a_finished_file_is_replaced_and_not_its_target(
    topic: Topic, out: Path, tmp_path: Path
) -> None:
    report = export_topic(topic, out, "parquet")
    file = out / f"{topic.ledgers[0].ref.ledger_id}.parquet"
    content = file.read_bytes()
    target = tmp_path / "target"
    target.write_bytes(b"x" * len(content))
    file.unlink()
    file.symlink_to(target)
    again = export_topic(topic, out, "parquet")
    assert (again.written, again.kept) == (1, report.written - 1)
    assert not file.is_symlink()
    assert file.read_bytes() == content
    assert target.read_bytes() == b"x" * len(content)

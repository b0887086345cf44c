"""Imports and exports that meet at one folder: what an export has not finished is not taken for all of it, however it is named."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import CorruptMessageError, ExportFolderError, InvalidOptionError, InvalidRowsError, NotFoundError
from ledgerfs.export.export import export_topic
from ledgerfs.export.folder import RECORD_NAME
from ledgerfs.export.folder_lock import LOCK_NAME
from ledgerfs.tables.row_files import FoundFiles, find_rows
from ledgerfs.writing import imports
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import offload, put_in_folder

NAME = "persistent://public/default/orders"
BROKEN = frame(metadata(), b"value")[:-1] + b"?"
NAMES_OF_ALL = {
    "folder": "{out}",
    "slash": "{out}/",
    "url": "file://{out}",
    "pattern": "{out}/*.jsonl",
    "url of a pattern": "file://{out}/[0-9]*.jsonl",
    "pattern above": "{out}/../*/*.jsonl",
    "pattern of all": "{out}/../**/*.jsonl",
    "link": "{links}/folder",
    "pattern of a link": "{links}/folder/*",
    "links to files": "{links}/files",
    "pattern of links": "{links}/files/*.jsonl",
}


def message(i: int) -> bytes:
    return frame(metadata(sequence_id=i), b"value %d" % i)


def put(folder: Path, ledger_id: int, *entries: bytes) -> Topic:
    folder.mkdir(exist_ok=True)
    return open_bucket(put_in_folder(folder, offload(entries, ledger_id, uuid=ledger_id))).topic(NAME)


def made_topic(folder: Path) -> Topic:
    for i in (1, 2):
        put(folder / "bucket", i, message(i))
    return put(folder / "bucket", 3, message(3), message(4))


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return made_topic(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "exports" / "out"


class Target:
    """A bucket to import into."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def take(self, source: object, progress: Callable[..., None] | None = None) -> int:
        return imports.import_rows(
            f"file://{self.folder}", str(source), "public/default/again", progress=progress
        ).messages


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path / "target")


def named(how: str, out: Path, links: Path) -> str:
    """Return a name of the files of an export; links to them are made."""
    (links / "files").mkdir(parents=True)
    (links / "folder").symlink_to(out)
    for file in out.glob("*.jsonl"):
        (links / "files" / file.name).symlink_to(file)
    return NAMES_OF_ALL[how].format(out=out, links=links)


def while_exporting(out: Path, done: Callable[[], None]) -> Callable[..., None]:
    """Return a callback of an export, which does something, once, when the first file is there."""
    left = [done]

    def reported(*_: object) -> None:
        if left and list(out.glob("*.jsonl")):
            left.pop()()

    return reported


@for_each("how", NAMES_OF_ALL)
def test_what_an_export_writes_to_is_not_imported(case_path: Path, how: str) -> None:
    topic, out, target = made_topic(case_path), case_path / "exports" / "out", Target(case_path / "target")
    reported = []

    def meet() -> None:
        source = named(how, out, case_path / "links")
        with pytest.raises(
            ExportFolderError, match="an export is writing to this folder, so rows may be missing"
        ) as caught:
            target.take(source)
        reported.append(caught.value.key)
        assert target.take(out / "1.jsonl") == 1  # which is whole

    assert export_topic(topic, out, "jsonl", progress=while_exporting(out, meet)).rows == 4
    assert len(reported) == 1
    before = len(list(target.folder.iterdir()))
    assert before == 2  # only the single file was written, data and index
    for file in out.glob("*.jsonl"):
        link = case_path / "links" / "files" / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file)
    assert target.take(NAMES_OF_ALL[how].format(out=out, links=case_path / "links")) == 4


@for_each("how", NAMES_OF_ALL)
def test_no_export_begins_while_its_folder_is_imported(case_path: Path, how: str) -> None:
    topic, out, target = made_topic(case_path), case_path / "exports" / "out", Target(case_path / "target")
    export_topic(topic, out, "jsonl")
    source = named(how, out, case_path / "links")
    met = []

    def meet(what: str, *_: object) -> None:
        if what == "importing rows" and not met:
            with pytest.raises(
                ExportFolderError, match=f"{out}: another export or import is using this folder"
            ) as caught:
                export_topic(topic, out, "jsonl")
            met.append(caught.value)
            assert target.take(out) == 4  # another import may read

    assert target.take(source, meet) == 4
    assert met
    assert export_topic(topic, out, "jsonl").kept == 3


def test_an_export_that_ends_between_the_listing_and_the_lock_is_read_whole(
    topic: Topic, out: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_topic(topic, out, "jsonl")
    found = []

    def find(path: str) -> FoundFiles:
        found.append(find_rows(path))
        if len(found) == 1:
            grown = put(Path(topic.bucket.store.url.removeprefix("file://")), 4, message(5))
            assert export_topic(grown, out, "jsonl").written == 1
        return found[-1]

    monkeypatch.setattr(imports, "find_rows", find)
    assert target.take(out / "*.jsonl") == 5
    assert [len(one.paths) for one in found] == [3, 4]


@for_each("how", NAMES_OF_ALL)
def test_what_a_failed_export_left_is_not_imported_until_one_ends_well(case_path: Path, how: str) -> None:
    bucket, out, target = case_path / "bucket", case_path / "exports" / "out", Target(case_path / "target")
    made_topic(case_path)
    broken = put(bucket, 2, message(2), BROKEN)
    with pytest.raises(CorruptMessageError):
        export_topic(broken, out, "jsonl")
    source = named(how, out, case_path / "links")
    with pytest.raises(ExportFolderError, match="the last export to this folder did not finish"):
        target.take(source)
    assert not list(target.folder.iterdir())
    assert target.take(out / "1.jsonl") == 1
    mended = put(bucket, 2, message(2))
    assert export_topic(mended, out, "jsonl").written == 2
    assert target.take(out) == 4


def killed(folder: Path, url: str) -> None:
    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    export_topic(open_bucket(url).topic(NAME), folder, "jsonl", progress=while_exporting(folder, kill))


def test_what_a_killed_export_left_is_not_imported(topic: Topic, out: Path, target: Target) -> None:
    process = multiprocessing.get_context("spawn").Process(target=killed, args=(out, topic.bucket.store.url))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    assert [path.name for path in out.glob("*.jsonl")] == ["1.jsonl"]
    said = run("import", str(out), f"file://{target.folder}", "public/default/again", code=2).stderr.decode()
    assert f"{out}: the last export to this folder did not finish" in said
    assert export_topic(topic, out, "jsonl").kept == 1
    assert target.take(out) == 4


def test_an_export_that_is_killed_while_it_removes_another_is_not_whole(
    topic: Topic, out: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_topic(topic, out, "jsonl")
    unlink = Path.unlink

    def stop(path: Path, **options: Any) -> None:
        unlink(path, **options)
        if path.suffix == ".jsonl":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            export_topic(topic, out, "jsonl", columns=["value"], overwrite=True)
    with pytest.raises(ExportFolderError, match="did not finish"):
        target.take(out)
    assert export_topic(topic, out, "jsonl").written == 1
    assert target.take(out) == 4


def test_an_export_that_left_out_damage_is_whole_and_a_refused_one_changes_nothing(
    topic: Topic, out: Path, target: Target
) -> None:
    broken = put(Path(topic.bucket.store.url.removeprefix("file://")), 2, message(2), BROKEN)
    assert len(export_topic(broken, out, "jsonl", on_corrupt="skip").skipped) == 1
    with pytest.raises(InvalidOptionError):
        export_topic(topic, out, "jsonl", columns=["value"])
    assert target.take(out) == 4


def test_folders_that_no_export_made_get_no_lock(topic: Topic, out: Path, target: Target) -> None:
    export_topic(topic, out, "jsonl")
    for name in (RECORD_NAME, LOCK_NAME):
        (out / name).unlink()
    assert target.take(out) == 4
    assert sorted(path.name for path in out.iterdir()) == ["1.jsonl", "2.jsonl", "3.jsonl"]
    with pytest.raises(NotFoundError):
        target.take(out / "none*.jsonl")
    with pytest.raises(NotFoundError):
        target.take(out / "1.jsonl" / "*.jsonl")


def test_links_to_nowhere_and_in_a_ring_are_reported(topic: Topic, out: Path, target: Target) -> None:
    export_topic(topic, out, "jsonl")
    (out / "9.jsonl").symlink_to(out / "9.jsonl")
    with pytest.raises(InvalidRowsError, match=r"9\.jsonl: not a file, nor a link to one"):
        target.take(out)
